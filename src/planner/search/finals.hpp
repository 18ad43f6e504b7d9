// SPDX-License-Identifier: Apache-2.0
// The finals of a cell: its fastest layouts run again, in rounds, in one allocation. Each round
// runs all that are left, forwards and backwards in turn (A B B A A B …), so that a drift of
// the machine hits all alike. Two runs of one round in one allocation are a pair. If several
// sets of nodes are asked for, the first two run once more on other nodes: what holds on one
// set alone may be the nodes'. Pure.
#pragma once

#include <shardsweep/difference.hpp>
#include <shardsweep/rows.hpp>
#include <shardsweep/store.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

/// One run of a finalist. A run that has failed or was cancelled has no speed.
struct FinalRun {
  TrialId layout = 0;  ///< the trial that brought it into the finals
  std::int32_t round = 1;
  AllocationId allocation = 0;  ///< allocation that measured it; 0: none
  double speed = 0;             ///< tokens/s per GPU; 0: not measured
  /// SM clock of the run's slowest rank, over its timed train steps; 0: not known.
  double sm_clock_mhz = 0;
  std::string throttled{};  ///< reason that held that clock back, in words; empty: not known
  bool open = false;        ///< true until the run has ended
  bool cancelled = false;
  std::int32_t set = 1;   ///< set of nodes, from 1
  std::string skipped{};  ///< reason why it had no nodes; empty: it was not skipped
};

struct FinalsSettings {
  std::int32_t rounds = 0;  ///< 0: until all is resolved, `most_rounds` at most
  double resolve = 0.01;    ///< a difference of less does not matter
  std::int32_t node_sets = 1;
};

/// If nothing is resolved after so many rounds, more of them would cost more than they tell.
inline constexpr std::int32_t most_rounds = 16;

/// The mean of a sample with an interval that holds at all sample sizes together.
struct Interval {
  std::int64_t pairs = 0;
  double mean = 0;
  std::optional<double> half_width{};  ///< absent if there are too few pairs
  [[nodiscard]] bool above(double bound) const { return half_width && mean - *half_width > bound; }
  [[nodiscard]] bool within(double bound) const {
    return half_width && mean - *half_width >= -bound && mean + *half_width <= bound;
  }
};

/// Half the width of a confidence sequence for the mean of n normal values with the standard
/// deviation s, which is not known beforehand: with probability 1 - alpha all its intervals,
/// for n = 2, 3, …, hold the true mean. So one may look after each pair. It is the t test with
/// a normal mixture over effect sizes (Robbins 1970; Lai 1976, "On confidence sequences").
/// None: n is too small.
[[nodiscard]] std::optional<double> half_width(std::int64_t n, double s, double alpha);
[[nodiscard]] Interval interval_of(std::span<const double> sample, double alpha);

/// Verdict of a further set of nodes on the same two layouts.
struct Confirmation {
  Difference difference = Difference::undecided;
  Interval share{};
  bool by_clock = false;
};

/// How the fastest finalist stands to another one.
struct FinalVerdict {
  TrialId winner = 0;
  TrialId other = 0;
  Difference difference = Difference::undecided;
  Interval share{};              ///< ln(speed of the winner / of the other), over pairs
  std::int64_t thrown_away = 0;  ///< runs without a partner in their allocation
  std::int64_t allocations = 0;  ///< count of allocations that the pairs come from
  /// The winner is faster by its clock alone, and not in clock cycles.
  bool by_clock = false;
  double clock_ratio = 0;   ///< SM clock of the winner over the other's; 0: not known
  std::string held_back{};  ///< by_clock: cause that held the other's clock back; empty: unknown
  std::int64_t more_pairs = 0;  ///< further pairs that would tell; 0: not known, or decided
  // Fields for several sets of nodes. Those above are of the first set alone, except `difference`:
  // it is undecided if runs on another set do not confirm it, or are to come.
  Difference on_first = Difference::undecided;
  std::vector<Confirmation> confirmations{};
  bool to_be_confirmed = false;  ///< runs on other nodes are to come
  std::string not_confirmed{};   ///< reason why there are none; empty: there are, or not asked for
};

struct Finals {
  std::vector<TrialId> ranking;        ///< finalists, the fastest first
  std::vector<FinalVerdict> verdicts;  ///< the first against each other finalist, as in `ranking`
  bool waits = false;                  ///< runs of the last round have not ended
  /// The next round, in order; empty: it waits, or the finals are over.
  std::vector<TrialId> next;
  std::int32_t next_round = 0;
  std::int32_t next_set = 1;
};

/// `finalists`: the cell's layouts, the fastest first by what the search has measured.
[[nodiscard]] Finals finals_of(const std::vector<TrialId>& finalists,
    const std::vector<FinalRun>& runs, const FinalsSettings& settings);

/// `FASTER by 1.2 % (0.9 to 1.5 %, 5 pairs)`, `SAME: within 1 % (…)`, `UNDECIDED: …; about 3
/// more pairs of final runs would decide it`.
[[nodiscard]] std::string final_text(const FinalVerdict& verdict, const FinalsSettings& settings);

/// Largest count of further runs that a text advises: if deciding takes more, it says so.
inline constexpr std::int64_t most_worth_starting = 50;
/// `about 6 pairs of final runs would decide it`; of more `cannot be decided at
/// this noise`.
[[nodiscard]] std::string decided_by(std::int64_t count, std::string_view of_what);

/// A layout that may take part in finals.
struct Contender {
  double speed = 0;
  double step_spread = 0;  ///< (p95 - min) / median of its train steps; 0: not known
  TrialId layout = 0;      ///< the trial that measured it
};
/// Count of contenders that take part, the fastest first: at most `most`. None was measured slower
/// than the fastest by more than 10 %, or than the train steps of either vary.
[[nodiscard]] std::size_t finalists_among(
    const std::vector<Contender>& contenders, std::size_t most);

/// The finals of one cell, from rows: who takes part, and what has been run.
struct FinalCell {
  CellKey cell;
  std::vector<TrialId> finalists;  ///< the fastest first
  std::vector<FinalRun> runs;      ///< runs of the finalists
  /// No layout beside the finalists was measured faster than the slowest of them.
  bool holds = true;
};

/// `most`: so many layouts of a cell; 0: those that have run in its finals.
[[nodiscard]] std::vector<FinalCell> final_cells(
    const std::vector<FinalsRow>& rows, std::size_t most);

}  // namespace shardsweep
