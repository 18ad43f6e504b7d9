// SPDX-License-Identifier: Apache-2.0
// What databases have learnt of a cluster and a trainer: the rates that `calibrate` has written
// and sweeps were run with, and what each layout has shown. Knowledge is the form in which that
// travels; the errors of the predictor are not in it: they follow from the runs, by the
// predictor's own rules, whoever reads it. A prediction that has learnt stays a prediction:
// what was measured stands beside it.
#pragma once

#include "predict/predictor.hpp"

#include <shardsweep/described.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardsweep {

/// All runs of one layout: completed, with the median of their speeds, or out of memory.
struct LearntRun {
  std::int32_t model = 0;  ///< index into Knowledge::models
  std::int32_t gpus = 0;
  std::int32_t seq_len = 0;
  std::string dtype;
  std::string layout;   ///< layout_text()
  std::string outcome;  ///< completed or oom
  double tokens_per_s_per_gpu = 0;
  std::int64_t peak_bytes = 0;  ///< 0: unknown
  std::int32_t runs = 1;
};

// clang-format off
template <>
inline constexpr auto described<LearntRun> = [] {
  using M = LearntRun;
  constexpr auto count = KeyType::count;
  return Entries{
      Key{"model", &M::model, {count, "which of the models", 0, 1 << 16}},
      Key{"gpus", &M::gpus, {count, "GPUs", 1, 1 << 20}},
      Key{"seq_len", &M::seq_len, {count, "tokens of a sample", 1, 1 << 24}},
      Key{"dtype", &M::dtype, {KeyType::text, "number format"}},
      Key{"layout", &M::layout, {KeyType::text, "as tables print it"}},
      Key{"outcome", &M::outcome, {KeyType::text, "completed or oom"}},
      Key{"tokens_per_s_per_gpu", &M::tokens_per_s_per_gpu, {KeyType::real, "median of the runs"}, Flag::optional},
      Key{"peak_bytes", &M::peak_bytes, {KeyType::bytes, "most memory of a GPU", 0, std::int64_t{1} << 50}, Flag::optional},
      Key{"runs", &M::runs, {count, "how many runs", 1, 1 << 20}},
  };
}();
// clang-format on

struct Knowledge {
  std::string name;     ///< name of the sweeps that it comes from
  std::string family;   ///< family of the measured trainer
  ClusterSpec cluster;  ///< cluster with the rates of those sweeps
  std::vector<ModelSpec> models;
  std::vector<LearntRun> runs;
};

/// Spread of ratios measured / predicted; count 0: there are none.
struct RatioSpread {
  std::size_t count = 0;
  double median = 0;
  double low = 0;  ///< the middle 80 % lie from here
  double high = 0;
};

[[nodiscard]] RatioSpread spread_of(std::vector<double> ratios);

/// The shape alone: names and notes differ between sweeps.
[[nodiscard]] bool same_shape(ModelSpec a, const ModelSpec& b);

/// A run on GPUs of nodes of this size. Faults as learn().
[[nodiscard]] Result<Observation> observation_of(
    const std::vector<ModelSpec>& models, const LearntRun& run, int gpus_per_node);

/// One layout with what it has shown.
struct MeasuredLayout {
  Observation seen;
  std::int32_t runs = 1;
};

/// The predictor with all that was measured, and how far it was off before it had learnt.
struct LearntPredictor {
  std::string name;
  Predictor predictor;
  std::vector<MeasuredLayout> runs{};  ///< fastest first, those out of memory last
  RatioSpread speed{};
  RatioSpread memory{};  ///< spread of the peak that the trainer reports
  std::string unused{};  ///< sentence on measurements that do not apply to the question

  /// The fastest completed run with this model, precision and length on so many GPUs that is
  /// as `wanted` says. Null: there is none.
  [[nodiscard]] const MeasuredLayout* fastest(const ModelSpec& model, const Point& point,
      const std::function<bool(const Layout&)>& wanted) const;
  /// Runs of exactly this layout; completed ones before one out of memory. Null: it has not run.
  [[nodiscard]] const MeasuredLayout* of(const ModelSpec& model, const Point& point) const;
};

/// Learns for `cluster`, whose rates may differ from those of the knowledge. Runs on other hardware
/// or in another dtype are not used. Faults (invalid_input): a run whose model is not listed, or
/// whose layout, dtype or outcome nobody can read.
[[nodiscard]] Result<LearntPredictor> learn(
    const Knowledge& knowledge, const ClusterSpec& cluster, const Family& family, Dtype dtype);

/// "measured: 9,300 tokens/s per GPU in 3 runs", or "ran out of memory when it was measured".
[[nodiscard]] std::string measured_sentence(const MeasuredLayout& measured);

}  // namespace shardsweep
