// SPDX-License-Identifier: Apache-2.0
// A question to the planner as JSON, and the values that it holds: what the page, the tests and
// whoever else asks write.
//
//   {"model": {described<ModelSpec>}, "cluster": {described<ClusterSpec>, rates in bytes/s,
//    latencies in us, memory in bytes}, "gpus": 64, "seq_len": 4096, "batch_tokens": 4194304,
//    "dtype": "bf16", "family": "megatron", "locks": "tp=8 recompute=full", "top": 5,
//    "ask": ["card", "gpus", "batch", "splits", "sizes", "why_not", "held", "sweep", "flags",
//            "vocabulary", "config"],
//    "layout": "tp=4 pp=2", "trainer": "megatron", "config": "{…}", "name": "my-model",
//    "presets": {"model": "llama-3-8b", "cluster": "h100-8x"},
//    "learnt": {"name": "first", "family": "megatron", "models": [{…}], "runs": [{…}]}}
//
// "learnt" is a Knowledge (plan/learnt.hpp) without its cluster, which is the question's. Of
// another family than the question's it is left out.
#pragma once

#include "plan/learnt.hpp"
#include "plan/suggest.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/result.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace shardsweep {

/// Limit of runs in a question's "learnt".
inline constexpr std::size_t most_measured_runs = 2000;

struct Question {
  SuggestRequest request;
  /// Layout for why_not and flags. A fault concerns these alone: all other answers come.
  Result<std::vector<AxisValues>> layout;
  std::string trainer;            ///< trainer for flags
  std::string preset_of_model;    ///< preset in a sweep file; empty: its numbers
  std::string preset_of_cluster;  ///< preset in a sweep file; empty: its numbers
};

/// Faults (invalid_input) name the key and what it takes. Nothing that a question can hold
/// makes the planner fail otherwise: values are in the ranges of described<> and of the axes.
[[nodiscard]] Result<Question> read_question(const nlohmann::ordered_json& question);

/// Form that read_question() reads.
[[nodiscard]] nlohmann::ordered_json question_of(const ModelSpec& model);
[[nodiscard]] nlohmann::ordered_json question_of(const ClusterSpec& cluster);
/// Question with its cluster, which a page asks about by its name.
[[nodiscard]] nlohmann::ordered_json question_of(const Knowledge& knowledge);

}  // namespace shardsweep
