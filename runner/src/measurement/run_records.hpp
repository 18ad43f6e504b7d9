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
/// Everything that defines the run.
void add_start_fields(JsonObject& record, const Options& options);

/// Names of Measured::phase_ms, in order; they follow each other and add up to the train step.
constexpr std::array<const char*, 7> measured_phases{
    "forward", "backward", "transfer", "reduction", "gradient_norm", "optimizer", "other"};
/// Names of Measured::wait_ms, in order; they lie within the phases.
constexpr std::array<const char*, 3> measured_waits{"tp", "dp", "pp"};

struct Measured {
  double loss = 0;
  std::vector<double> step_ms;                     // slowest rank, timed steps only; all where
                                                   // it gave up while it warmed up
  std::vector<double> peak_memory_bytes;           // by rank
  std::vector<double> peak_memory_by_class_bytes;  // maximum over the ranks, in enum order
  std::vector<double> phase_ms;                    // of the median train step, mean over the ranks
  std::vector<double> wait_ms;                     // likewise
  std::vector<double> busy_ms;                     // by rank: own work, median over the timed steps
  std::vector<double> sent_bytes;  // per train step by group, maximum over the ranks
  std::vector<Pace> paces;         // by rank, over the timed steps
  std::optional<double> dropped;   // part of the experts' choices, under a capacity
  bool gave_up = false;            // after fewer timed steps than it was asked for
  bool warmed_up = true;           // else it gave up before
};
/// Whether timed train steps are too slow by more than their noise explains: at least two, and
/// the fastest is above the bound even if it were as much faster as the median is slower. All
/// ranks know the same times, and so decide the same.
bool gives_up(const std::vector<double>& step_ms, double above_ms);
/// The same of steps that warm up, where each takes 10 s or more: they are too slow by twice
/// the bound. What a first step costs once is little beside that, and so is a hiccup.
bool gives_up_warming_up(const std::vector<double>& step_ms, double above_ms);
void add_result_fields(JsonObject& record, const Options& options, const Measured& measured);
/// One line for a person.
std::string result_summary(const Options& options, const Measured& measured);

}  // namespace shardbench
