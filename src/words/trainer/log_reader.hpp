// SPDX-License-Identifier: Apache-2.0
// A trainer's log, line by line, as train steps and facts.
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

// Numbers taken out of a line by a pattern: plain text, `*` for any text, `{key}` for a number.
// `{key:a|b|c}` takes one of these words, and its number from 0 for a value. `{key:clock}` takes
// 1:02:03. "elapsed time per iteration (ms): {step_ms}" finds 1234.5 in Megatron's line. No regular
// expressions: a line costs its length times the pattern's at worst.

/// A number as it was printed.
struct PrintedNumber {
  double value = 0;
  /// Half a unit of its last digit: what rounding may have hidden. "12.3K": 50.
  double half_unit = 0;
  friend bool operator==(const PrintedNumber&, const PrintedNumber&) = default;
};

/// The number at the beginning of `text`, and how many bytes it has. Digits may be grouped by
/// commas ("12,345"), nan and inf are numbers. `human`: K, M, B, T, P or E may follow.
[[nodiscard]] std::optional<std::pair<PrintedNumber, std::size_t>> read_number(
    std::string_view text, bool human);

/// Seconds of the time at the beginning of `text`, and how many bytes it has: "2:03", "1:02:03", "1
/// day, 1:02:03", "1h 2m 3s". One number alone is none.
[[nodiscard]] std::optional<std::pair<PrintedNumber, std::size_t>> read_clock(
    std::string_view text);

/// The key of {iteration:next}, for trainers that print no number of their train steps.
inline constexpr std::string_view next_iteration = "iteration:next";

class CapturePattern {
 public:
  struct Piece {
    std::string literal;  ///< text to match; `anywhere`: any text may come before
    bool anywhere = true;
    std::string key{};  ///< the number behind it, with spaces between; empty: none
    bool human = false;
    bool is_clock = false;             ///< hours, minutes and seconds, taken as seconds
    std::vector<std::string> words{};  ///< words in place of a number; an empty one never matches
    bool is_next = false;  ///< {iteration:next}: takes no text, and each line is one more
  };

  /// A fault says what is wrong with the pattern: no `{key}`, a brace without its other, two
  /// keys side by side.
  [[nodiscard]] static Result<CapturePattern> parse(std::string_view text);

  /// Key and number of each `{key}`; empty if the line does not fit.
  [[nodiscard]] std::vector<std::pair<std::string_view, PrintedNumber>> capture(
      std::string_view line) const;
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;
};

// A line of a rank's output without what terminals and launchers add to it.

/// Bytes of a line that are read. Longer ones are cut: an output without newlines is no log.
inline constexpr std::size_t longest_log_line = std::size_t{16} * 1024;

/// Without colours (ESC [ … letter), carriage returns, and the rank that torchrun
/// (`[default0]:`, `[rank0]:`) or srun (`0: `) puts in front.
[[nodiscard]] std::string clean_line(std::string_view line);

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
