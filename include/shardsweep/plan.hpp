// SPDX-License-Identifier: Apache-2.0
// Plan: trials in the order in which to run them, and the points left out, with reasons.
#pragma once

#include <shardsweep/point.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class MemoryClass : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  logits,
  communication,
  overhead,
};
inline constexpr std::array<std::string_view, 7> memory_class_words{
    "weights", "gradients", "optimizer", "activations", "logits", "communication", "overhead"};

/// Bytes per rank by class, of the pipeline stage that needs most.
struct MemoryEstimate {
  std::array<std::int64_t, memory_class_words.size()> bytes{};
  std::int32_t stage = 0;
  [[nodiscard]] std::int64_t total() const {
    std::int64_t sum = 0;
    for (const auto part : bytes)
      sum += part;
    return sum;
  }
};

struct Prediction {
  std::int64_t memory_bytes = 0;
  double train_step_s = 0;          ///< 0: unknown (no peak in the cluster preset)
  double attempt_s = 0;             ///< start-up, warm-up and timed train steps
  double tokens_per_s_per_gpu = 0;  ///< 0: unknown
};

/// `infeasible` is a value that is stored and shown, never an error.
struct Verdict {
  bool feasible = true;
  std::string constraint;  ///< short name: `heads`, `memory`, `exclude`, `runner:tp`
  std::string why;         ///< a sentence with the numbers
};

struct PlannedTrial {
  Point point;
  Prediction prediction;
  /// Trials of one lane share lane_key. They ascend in micro_batch and stand together if
  /// the plan is exhaustive.
  std::int32_t lane = 0;
};

struct LeftOut {
  Point point;
  Verdict verdict;
};

struct Plan {
  std::vector<PlannedTrial> trials;  ///< trials in order
  std::vector<LeftOut> left_out;     ///< the first limits.max_stored_left_out of them
  std::map<std::string, std::int64_t, std::less<>> left_out_by_constraint;  ///< counts of all of
                                                                            ///< them
  /// The first point left out by each constraint.
  std::map<std::string, LeftOut, std::less<>> examples;
  std::int64_t points = 0;
  std::int64_t lanes = 0;
  std::int64_t duplicates = 0;  ///< points that the product and `points` both name
  double gpu_hours = 0;         ///< predicted, trials together
  /// GPU hours that points left out would have taken, each run to its end, by constraint. Points
  /// that no trainer could start (a world, batch or shape that does not divide) are not counted.
  std::map<std::string, double, std::less<>> left_out_gpu_hours;
  [[nodiscard]] double gpu_hours_before_pruning() const {
    double sum = gpu_hours;
    for (const auto& [constraint, hours] : left_out_gpu_hours)
      sum += hours;
    return sum;
  }
  /// Points that each rule of `exclude` has left out, in the file's order.
  std::vector<std::int64_t> excluded;
  std::vector<std::string> warnings;
};

}  // namespace shardsweep
