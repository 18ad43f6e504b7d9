// SPDX-License-Identifier: Apache-2.0
// A layout for a model, some GPUs and a batch, before anything has run: the recipe of the
// Ultra-Scale Playbook (Hugging Face, 2025; "Finding the best training configuration": fit a
// train step in memory, reach the global batch, optimise throughput) worked out with numbers.
#pragma once

#include "plan/learnt.hpp"
#include "predict/predictor.hpp"

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct SuggestRequest {
  ModelSpec model;
  ClusterSpec cluster;
  const Family* family = nullptr;
  std::int32_t nodes = 0;  ///< 0: `gpus` of one node
  std::int32_t gpus = 0;   ///< GPUs of the world
  std::int32_t seq_len = 0;
  std::int64_t global_batch_tokens = 0;
  std::size_t most = 5;             ///< layouts, of different dp x tp x pp
  std::optional<Dtype> dtype{};     ///< empty: bf16, or fp32 without GPUs
  std::vector<AxisValues> locks{};  ///< axes of a layout that keep one value
  /// Measurements on such a cluster with such a trainer; null: none.
  std::shared_ptr<const LearntPredictor> learnt{};
};

/// The request's dtype, or the one that shardbench runs there: CPUs have no bf16.
[[nodiscard]] Dtype dtype_of(const SuggestRequest& request);
/// Point with only the size of the job, by which measured runs are found.
[[nodiscard]] Point world_of(const SuggestRequest& request);

/// Layers of the first and the last stage, if the trainer has to be told them; 0: it is not told.
/// Without virtual stages: what is left once the others have ceil(L/p). With virtual stages: one
/// less than the others, if its file says that the embedding and the head may count as layers.
struct ToldStages {
  std::int32_t first = 0, last = 0;
};
[[nodiscard]] ToldStages told_stages(
    const SuggestRequest& request, std::int64_t pp, std::int64_t vpp);

/// Changes a request to another number of GPUs: of one node, or whole nodes. Faults
/// (invalid_input): more than a node has and no whole nodes; the message names the next ones.
[[nodiscard]] Result<SuggestRequest> on_gpus(SuggestRequest request, std::int32_t gpus);

struct SuggestedLayout {
  Point point;
  Guess guess;
  double tokens_per_s_per_gpu = 0;                   ///< 0: unknown, the cluster has no peak
  double mfu = 0;                                    ///< 0: unknown
  std::string limit;                                 ///< part of the step that it waits for most
  std::string remedy{};                              ///< change that would help; empty for the
                                                     ///< fastest
  double computes = 0;                               ///< share of the step
  bool waits = false;                                ///< `limit` is another part than that
  std::shared_ptr<const MeasuredLayout> measured{};  ///< null: it has not run
};

/// Every layout that is worth a thought, judged.
struct JudgedLayouts {
  std::int64_t judged = 0;                ///< layouts judged, out of those that could start
  std::vector<SuggestedLayout> fitting;   ///< surely, or as measured; fastest first
  std::vector<SuggestedLayout> doubtful;  ///< may run out of memory, or has; fastest first
  std::map<std::string, std::int64_t, std::less<>> left_out_by_constraint;  ///< the others
  std::string why_left_out;  ///< reason for most of those, with the numbers of the first: Plan's
                             ///< words
};
/// Values of an axis that are tried if nobody holds it; none: its default alone.
[[nodiscard]] std::vector<std::int64_t> tried_values(
    const SuggestRequest& request, const AxisInfo& axis);
/// Faults as suggest().
[[nodiscard]] Result<JudgedLayouts> judge_layouts(const SuggestRequest& request);

/// True if no lock holds `offload` and the trainer has words for it. Answers never offload unasked.
[[nodiscard]] bool can_be_asked_to_offload(const SuggestRequest& request);
/// True if judge_layouts() would have a layout that fits; this is faster than judging all. Faults
/// as suggest().
[[nodiscard]] Result<bool> some_layout_fits(const SuggestRequest& request);

/// A rule of thumb, compared with the first layout.
struct RuleCheck {
  std::string rule;
  bool holds = true;
  bool applies = true;  ///< false: the rule is about other numbers of GPUs
  std::string why;      ///< reason with the numbers
  std::string source;
};

/// A question of the playbook's flowchart with this request's answer.
struct FlowStep {
  std::string question;
  bool yes = false;
  std::string why;  ///< reason with the numbers
};

struct Suggestion {
  std::int64_t parameters = 0;
  std::int64_t layouts_judged = 0;
  std::int64_t layouts_fitting = 0;
  // The three steps, in sentences.
  std::vector<std::string> memory;
  std::vector<std::string> batch;
  std::vector<std::string> throughput;
  std::vector<SuggestedLayout> layouts;  ///< fastest first; empty: nothing fits
  /// Fastest layout with a part in the host's memory, which is never suggested unasked. It is
  /// faster than the others by more than a prediction's last digit. None: there is no such layout.
  std::optional<SuggestedLayout> offloaded;
  /// Tokens, as a sweep file writes them, of the next batches with which a layout fits; empty
  /// unless no layout divides the asked one.
  std::vector<std::string> batches;
  std::vector<RuleCheck> checks;
  std::vector<FlowStep> flow;  ///< steps until the answers end
};

/// Faults (invalid_input): a batch that is no multiple of seq_len, a world that no node holds.
[[nodiscard]] Result<Suggestion> suggest(const SuggestRequest& request);

/// Parts of a train step, as TimeEstimate has them, with their names.
struct StepPart {
  std::string_view name;
  double TimeEstimate::*seconds;
};
[[nodiscard]] std::span<const StepPart> step_parts();

}  // namespace shardsweep
