// SPDX-License-Identifier: Apache-2.0
// From a sweep to its plan: expand, judge, predict, order.
#pragma once

#include "predict/predictor.hpp"

#include <shardsweep/capabilities.hpp>
#include <shardsweep/filter.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace shardsweep {

/// `excludes` is compiled from sweep.excludes and `runner_rules` from runner.rules, in their
/// order; null if there are none. The order is the same for the same input: lanes by nodes,
/// then GPUs, then predicted tokens/s per GPU, best first; within a lane by micro_batch, then
/// grad_accum, then repeat, ascending.
/// Faults (invalid_input): those of Grid::make; an expression that fails while it is evaluated.
[[nodiscard]] Result<Plan> make_plan(const SweepSpec& sweep, const Capabilities& runner,
    PointFilter* excludes, PointFilter* runner_rules);

/// Plans a sweep without excludes and returns each trial's prediction with its bounds: `guesses`,
/// in the plan's order. It leaves hours and the trials' predictions out.
[[nodiscard]] Result<Plan> make_plan(const SweepSpec& sweep, std::vector<Guess>& guesses);

/// The estimate is above what a GPU has; what is left in the plan fits by the lower bound.
[[nodiscard]] bool is_likely_oom(const SweepSpec& sweep, const PlannedTrial& trial);

/// Why most points of a plan are left out, with the numbers of the first of them: "gpus 8 is
/// more than …". Of points whose numbers divide, if there are any: those are nearest to
/// running. Empty if none is left out.
[[nodiscard]] std::string why_nothing_runs(const Plan& plan);

// The plan's order: lanes by nodes, then GPUs, then the predicted speed of their best trial,
// best first; within a lane by micro_batch, grad_accum and repeat, ascending.

/// A 128-bit hash over what a lane shares: equal where lane_key() is, and cheaper.
struct LaneHash {
  std::uint64_t high = 0x9e3779b97f4a7c15ULL;
  std::uint64_t low = 0xcbf29ce484222325ULL;
  void add(std::int64_t value);
  void add(std::string_view text);
  friend bool operator==(const LaneHash&, const LaneHash&) = default;
  friend bool operator<(const LaneHash& a, const LaneHash& b) {
    return std::tie(a.high, a.low) < std::tie(b.high, b.low);
  }
};

struct LaneEntry {
  std::int64_t index;  ///< the caller's; ties go by it
  LaneHash lane;
  double value;  ///< tokens/s per GPU, also where only a nominal rate is known
  std::int32_t nodes;
  std::int32_t gpus;
  std::int32_t micro_batch;
  std::int32_t grad_accum;
  std::int32_t repeat;
};

/// Entries of one lane stand together, `count` of them from `first` on.
struct LaneRange {
  std::size_t first;
  std::size_t count;
  double value;        ///< value of its best trial
  std::int64_t index;  ///< lowest
};

/// Sorts `entries` so that lanes stand together, and gives the lanes in the order in which to
/// run.
[[nodiscard]] std::vector<LaneRange> order_lanes(std::vector<LaneEntry>& entries);

// A plan cell by cell: in which order a search would launch, what it expects of each layout,
// and what is left out by which rule.

struct PlannedLaunch {
  Point point;
  double tokens_per_s_per_gpu = 0;
  double sigma = 0;  ///< spread of the speed's logarithm
  double fits = 1;   ///< chance that memory suffices
  double gpu_hours = 0;
  std::string why;
};

/// One cell: model x sequence length x nodes or GPUs, and the values of free axes.
struct PlannedCell {
  std::string model;
  std::int32_t seq_len = 0;
  std::int32_t nodes = 0;
  std::int32_t gpus = 0;
  std::vector<PlannedLaunch> launches;  ///< launches in the plan's order
  std::vector<LeftOut> left_out;        ///< points that the plan has kept
};

/// Story of the plan before any measurement.
[[nodiscard]] std::vector<PlannedCell> plan_story(const SweepSpec& sweep, const Plan& plan);

}  // namespace shardsweep
