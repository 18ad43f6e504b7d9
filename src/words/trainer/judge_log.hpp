// SPDX-License-Identifier: Apache-2.0
// A trainer's log as a measurement, or the reasons why it is none.
#pragma once

#include "trainer/log_reader.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Facts of the run from elsewhere; 0: not known.
struct ExpectedRun {
  std::int64_t gpus = 0;
  std::int64_t dp = 0, tp = 0, pp = 0, cp = 0;
  std::int64_t seq_len = 0;
  std::int64_t tokens_per_step = 0;
  std::int64_t vocab = 0;
  std::int64_t parameters = 0;  ///< rough count for the whole model
  std::int64_t warmup = 1;      ///< train steps that are not timed, at least the first
  std::int64_t unprinted = 0;   ///< first train steps that its trainer may not print
  double look_s = 0;            ///< how often its lines were read, if they were stamped then
  std::int64_t steps = 0;       ///< timed ones; what comes after them does not count; 0: all
  std::vector<std::string> unchecked{};       ///< truth checks that are left out, by their names;
                                              ///< losses: what it trains on is nothing;
                                              ///< count: it was ended before its train steps
  std::map<std::string, std::string> axes{};  ///< further ones that it was told, as texts
};

/// Train steps before the first that was printed, of at most so many that a trainer leaves out.
[[nodiscard]] std::int64_t left_out_before(std::int64_t first_iteration, std::int64_t at_most);

/// The train steps that start everything up are never timed.
struct LogMeasurement {
  std::int64_t steps = 0;                      ///< timed
  std::optional<double> train_step_ms;         ///< median
  std::optional<double> train_step_ms_spread;  ///< (q3 - q1) / median
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> tflops_per_gpu;  ///< median, by the trainer's own count
  std::optional<double> allocated_bytes;
  std::optional<double> reserved_bytes;
  std::optional<double> first_loss;  ///< nat
  std::optional<double> last_loss;
  /// Share of the median that rounding may hide: two layouts that differ by less can't be told
  /// apart.
  double resolution = 0;
};

struct JudgedLog {
  LogMeasurement measurement;
  std::vector<std::string> faults;  ///< sentences; with any of them the numbers don't count
  std::vector<std::string> notes;   ///< missing facts
  bool has_nan = false;             ///< a loss is no number, which is among the faults
  bool will_repeat = false;         ///< another start would print the same contradiction
};

/// Truth checks that a user may know better than we do.
[[nodiscard]] std::span<const std::string_view> optional_checks();

/// Contradictions between the facts of a run, without its train steps.
[[nodiscard]] std::vector<std::string> judge_facts(
    const TrainerLog& log, const ExpectedRun& expected);

[[nodiscard]] JudgedLog judge_log(const TrainerLog& log, const ExpectedRun& expected = {});

}  // namespace shardsweep
