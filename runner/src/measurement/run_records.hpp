// SPDX-License-Identifier: Apache-2.0
// The contents of the start and result records. Names are the project's names for its metrics
// and are the same in the database; README derives each.
#pragma once

#include "base/json.hpp"
#include "measurement/pace.hpp"
#include "measurement/statistics.hpp"
#include "program/options.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace shardbench {

/// The shape that is trained, padding included.
std::string model_json(const Options& options);
/// Adds everything that defines the run.
void add_start_fields(JsonObject& record, const Options& options);

/// Names of RunFigures::phase_ms, in order; they follow each other and add up to the train step.
constexpr std::array<const char*, 7> measured_phases{
    "forward", "backward", "transfer", "reduction", "gradient_norm", "optimizer", "other"};
/// Names of RunFigures::wait_ms, in order; they lie within the phases.
constexpr std::array<const char*, 3> measured_waits{"tp", "dp", "pp"};

struct RunFigures {
  double loss = 0;
  std::vector<double> step_ms;                     // slowest rank, timed steps only; all where
                                                   // it gave up while it warmed up
  std::vector<double> peak_memory_bytes;           // peaks by rank
  std::vector<double> peak_memory_by_class_bytes;  // maximum over the ranks, in enum order
  std::vector<double> phase_ms;                    // parts of the median train step, mean over the
                                                   // ranks
  std::vector<double> wait_ms;                     // waits in the median train step, mean over the
                                                   // ranks
  std::vector<double> busy_ms;                     // own work by rank, median over the timed steps
  std::vector<double> sent_bytes;  // per train step by group, maximum over the ranks
  std::vector<Pace> paces;         // by rank, over the timed steps
  std::optional<double> dropped;   // part of the experts' choices, under a capacity
  bool gave_up = false;            // ended after fewer timed steps than it was asked for
  bool warmed_up = true;           // false: it gave up while it warmed up
};
/// True if timed train steps are slower than their noise explains. There have to be two at least.
/// The fastest is above the bound even if it were as much faster as the median is slower. All ranks
/// know the same times, and so decide the same.
bool gives_up(const std::vector<double>& step_ms, double above_ms);
/// Judges steps of the warm-up that take 10 s or more each: hopeless if they exceed twice the
/// bound. One-time costs of a first step are little beside that, and so is a hiccup.
bool gives_up_warming_up(const std::vector<double>& step_ms, double above_ms);
void add_result_fields(JsonObject& record, const Options& options, const RunFigures& measured);
/// One line for a person.
std::string result_summary(const Options& options, const RunFigures& measured);

}  // namespace shardbench
