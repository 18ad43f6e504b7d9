// SPDX-License-Identifier: Apache-2.0
// What a follower shows: a block of lines that is drawn over and over, and a line for each
// trial that ends. Pure: from what was read to lines that fit.
#pragma once

#include "show/styled_text.hpp"

#include <shardsweep/progress.hpp>
#include <shardsweep/results.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Room that lines have to fit.
struct ViewSize {
  std::size_t width = 80;   ///< columns; no line is longer
  std::size_t height = 24;  ///< lines that a block has at most
  bool utf8 = true;
};

struct SweepProgress {
  SweepStatus status;
  std::optional<CellBest> best{};                 ///< best of the cell that was measured last
  std::string best_of{};                          ///< name of that cell; empty: there is no other
  std::vector<std::string> trouble{};             ///< sentences: what keeps it from going on
  std::vector<AllocationProgress> allocations{};  ///< jobs of the sweep, those that run first
  Timestamp now = 0;                              ///< 0: not told how long something runs
};

/// A bar with the time left, counts by outcome, the best so far, why nothing runs, and a line
/// per job: its bar, which of its trials runs and for how long.
[[nodiscard]] std::vector<StyledLine> progress_block(
    const std::vector<SweepProgress>& sweeps, const ViewSize& size);

/// A line per job, of many the first ones: its bar, which of its trials runs and for how long.
[[nodiscard]] std::vector<StyledLine> job_lines(
    const std::vector<AllocationProgress>& jobs, Timestamp now, const ViewSize& size);

/// "quickstart 12/36: 10 completed, 1 oom; running …; about 20 s left": for files and pipes.
[[nodiscard]] std::string progress_line(const SweepStatus& status);

/// "about 1 min 20 s left"; empty where nothing is left to do.
[[nodiscard]] std::string time_left_text(const SweepStatus& status);

/// The best of each cell as its answer says, while trials end.
class BestSoFar {
 public:
  /// Takes what the database holds as the follower begins: nobody is told of these winners.
  void begin(const std::vector<CellBest>& cells);
  /// Takes what the database holds now.
  void update(const std::vector<CellBest>& cells);
  /// The answer of the trial's cell, if this trial has brought its layout to the first place;
  /// once for each new winner, and not for the first layout of a cell.
  std::optional<CellAnswer> take(const FinishedTrial& trial);
  [[nodiscard]] std::optional<CellBest> latest(const std::string& sweep) const;
  [[nodiscard]] std::vector<CellBest> of(const std::string& sweep) const;

 private:
  using Place = std::pair<std::string, CellKey>;  ///< sweep and cell
  std::map<Place, CellBest> cells_;
  std::map<Place, std::string> told_;  ///< the layout that was named last
};

/// A trial that has ended, or several that were skipped for the same reason.
struct FinishedLine {
  FinishedTrial trial;
  std::int64_t trials = 1;
  std::optional<CellAnswer> best{};  ///< answer of its cell, if it is the new winner
};
[[nodiscard]] std::vector<FinishedLine> finished_lines(
    const std::vector<FinishedTrial>& trials, BestSoFar& best);

/// The answers at the end of a run: a line for each cell, and for what makes it doubtful or
/// would settle it.
[[nodiscard]] std::vector<StyledLine> answer_lines(const std::vector<CellBest>& cells);

/// `width`: none for a file. `with_sweep`: several sweeps are followed.
[[nodiscard]] StyledLine finished_line(
    const FinishedLine& line, std::optional<std::size_t> width, bool utf8, bool with_sweep);

}  // namespace shardsweep
