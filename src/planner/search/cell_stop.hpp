// SPDX-License-Identifier: Apache-2.0
// When a cell's search is over: most likely nothing that waits beats the best by more than
// until.regret. Chances are multiplied as if points had nothing in common; they resemble each
// other, so that this errs on the side of going on. Limits of runs and GPU-hours
// end a cell whatever is likely. A cell that has ended goes on only if the chance that was
// allowed for has grown by half: it would end and begin in turn otherwise.
//
// Decision: chances end a cell, and not what the layouts that wait may gain together. On
// tests/tools/bench/planner a bound on the sum of expected improvements used as many GPU-hours
// or more, wherever it was wrong as seldom. The noise of a run counts for the order, not here: with
// it made-up machines cost 6 % more GPU-hours, and claims were no truer (3 kinds, 6 seeds).
#pragma once

#include "search/candidate.hpp"

#include <shardsweep/search.hpp>

#include <optional>
#include <span>
#include <string>

namespace shardsweep {

/// Judges a cell's points by what is believed of them.
class CellStop {
 public:
  using Points = std::span<const Candidate>;

  explicit CellStop(const SearchUntil& until) : until_(until) {}

  /// A sentence if a limit of runs or GPU-hours is reached; else none.
  [[nodiscard]] std::optional<std::string> limit_reached(
      const OwnRuns& runs, double gpu_hours) const;
  /// A sentence if no waiting point is worth a run; else none.
  [[nodiscard]] std::optional<std::string> nothing_better(Points points, const OwnRuns& runs) const;
  /// True if new measurements contradict that no point which waits or was spared is better.
  [[nodiscard]] bool is_contradicted(Points points) const;

  /// The chance that a point fits and beats the best by until.regret.
  [[nodiscard]] double chance_of_better(const Candidate& point, const OwnRuns& runs) const;

 private:
  [[nodiscard]] double chance_of_none(Points points, bool with_spared) const;

  SearchUntil until_;
};

}  // namespace shardsweep
