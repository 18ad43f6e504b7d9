// SPDX-License-Identifier: Apache-2.0
// The answers of cells (planner/answer) from rows. Runs of a cell go by in any order, up to a
// million of them: what can't be among the first layouts is forgotten at once, and what an
// answer says of a layout is read for those alone that it names.
#pragma once

#include "answer/answer.hpp"
#include "store/finals.hpp"
#include "store/sqlite.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace shardsweep::sqlite {

/// One ranked run.
struct Run {
  TrialId trial = 0;
  double tokens_per_s_per_gpu = 0;
};

/// Keys and names of the layouts that trials are of.
class LayoutNames {
 public:
  /// `label`: the SQL expression of the name over all_results.
  LayoutNames(Database& database, const std::string& label);
  /// Key that all trials of a layout have, in all sweeps. Runs under other settings of NCCL or of
  /// the allocator, as ranks found them, are of another layout.
  [[nodiscard]] std::string key(TrialId trial);
  [[nodiscard]] std::string name(TrialId trial);

 private:
  Statement key_;
  Statement name_;
};

/// The ranked runs of one cell.
class RunsOfCell {
 public:
  /// Takes a run of a layout that ran once in its sweep. `most`: layouts that are asked for; 0:
  /// all.
  void take(const Run& run, std::size_t most, LayoutNames& names);
  /// Takes a run of a layout that may have run several times: runs of a group are repeats of each
  /// other.
  void take(const std::string& group, const Run& run);
  /// Takes a contaminated run, which is not ranked.
  void take_contaminated(const Run& run);
  /// Counts the runs as left out: none of them is ranked.
  void add_to(LeftOutRuns& left_out) const;

 private:
  friend class AnswerMaker;
  void count(const Run& run);
  void forget(std::size_t most, LayoutNames& names);
  std::vector<Run> alone_;
  std::unordered_map<std::string, std::vector<Run>> repeated_;
  std::int64_t measured_ = 0;
  double fastest_ = 0;
  std::optional<Run> contaminated_;  ///< the fastest
  std::optional<double> slowest_kept_;
};

/// Makes answers, one after the other.
class AnswerMaker {
 public:
  /// `most`: layouts that an answer has at least, if so many were measured; 0: all.
  AnswerMaker(Database& database, const std::string& label, std::size_t most);
  [[nodiscard]] LayoutNames& names() { return names_; }
  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] CellAnswer answer(const RunsOfCell& runs);

 private:
  struct Entry {
    std::vector<Run> runs;  ///< slowest first
    [[nodiscard]] const Run& median() const { return runs[(runs.size() - 1) / 2]; }
  };
  [[nodiscard]] static std::vector<Entry> entries_of(const RunsOfCell& runs);
  [[nodiscard]] std::vector<Entry> distinct(
      std::vector<Entry> entries, const FinalStanding* standing);
  [[nodiscard]] std::optional<UnrankedRun> unranked(const Run& run);
  [[nodiscard]] static Noise noise_of(const std::vector<Entry>& entries);
  [[nodiscard]] LayoutRuns measured(const Entry& entry, bool in_detail);
  [[nodiscard]] MeasuredRun measured(const Run& run);

  LayoutNames names_;
  FinalStandings standings_;
  Statement detail_;
  Statement elsewhere_;
  Statement ranked_twin_;
  std::size_t most_;
  bool several_sweeps_;
};

}  // namespace shardsweep::sqlite
