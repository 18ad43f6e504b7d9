// SPDX-License-Identifier: Apache-2.0
// A trainer's log, line by line, as train steps and facts.
#pragma once

#include "trainer/capture.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Printed values of one train step.
struct LoggedStep {
  std::int64_t iteration = 0;
  std::map<std::string, PrintedNumber, std::less<>> values{};  ///< values by key
  std::optional<PrintedNumber>
      at_s{};  ///< time at which its first line was read, or that line's own stamp
};

struct TrainerLog {
  std::vector<LoggedStep> steps;  ///< steps by iteration; the last print of a repeated one counts
  std::map<std::string, PrintedNumber, std::less<>>
      facts{};                       ///< facts of the run; the largest of each
  double parameters = 0;             ///< sum over model parallel ranks
  std::int64_t parameter_lines = 0;  ///< ranks that have printed theirs
  bool numbered = false;             ///< a line had its number: {iteration:next} no longer counts
  bool uncounted = false;            ///< a line had numbers of a train step, and none had begun
};

/// How much a number that is counted since the start grows from its first line to its last one.
struct Growth {
  double value = 0, steps = 0, rounding = 0;
};
/// Growth of that number over the train steps; none if fewer than two of them have it.
[[nodiscard]] std::optional<Growth> growth_of(
    std::string_view key, std::span<const LoggedStep> steps);

class LogReader {
 public:
  /// A pattern with an unknown key is a fault that names the nearest one.
  [[nodiscard]] static Result<LogReader> make(std::span<const std::string_view> patterns);

  /// A line, as a rank printed it, and when; none: by the time of day that it begins with.
  void read(std::string_view line, std::optional<double> now_s = std::nullopt);
  /// The train step that was named last; null before the first.
  [[nodiscard]] const LoggedStep* current() const { return current_; }
  [[nodiscard]] std::size_t steps() const { return steps_.size(); }
  /// A peak of memory has been seen.
  [[nodiscard]] bool knows_memory() const;
  [[nodiscard]] TrainerLog finish() const;

  /// Facts of the run in the lines read so far, without its train steps. A reader on another node,
  /// which reads other ranks, adds them. One fact on a line.
  [[nodiscard]] std::string facts_text() const;
  /// The largest of each fact counts, parameters add up. Other lines are passed over.
  void add_facts(std::string_view text);

 private:
  void take(std::string_view key, const PrintedNumber& number);

  std::vector<CapturePattern> patterns_;
  std::map<std::int64_t, LoggedStep> steps_;
  LoggedStep* current_ = nullptr;
  TrainerLog log_;
};

}  // namespace shardsweep
