// SPDX-License-Identifier: Apache-2.0
// What is measured again when a sweep has ended, and what that says: pure. Each time has a
// number. It runs in rounds, and nothing is said before a drop has been seen in several of
// them. If the program has changed, a round holds the program as it was beside the one as it
// is, in one allocation. Else there is nothing to run beside: a run that is slower than those
// of before is repeated, since one run is no change, and what `history` says of the layout's runs
// is what is said of it here (answer/series.hpp).
#pragma once

#include "search/finals.hpp"

#include <shardsweep/event.hpp>
#include <shardsweep/remeasure.hpp>
#include <shardsweep/store.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace shardsweep {

struct RemeasureInput {
  Remeasure asked{};
  FinalsSettings finals{};  ///< settings that `best` ranks by; their `resolve` holds here too
  std::int32_t number = 1;  ///< number of this remeasurement
  /// Hash of the snapshot, or digest of the image: at the remeasurement before, and now.
  std::string was{};
  std::string is{};
  std::set<TrialId>
      slower{};  ///< layouts that are known to be slower, by the trials that brought them
};

/// Verdict of one remeasurement on one layout.
struct RemeasureVerdict {
  TrialId of = 0;       ///< trial of that layout
  bool slower = false;  ///< certainly, and confirmed
  /// regressed: it was not slower before; still_regressed: it was; remeasured: it is not.
  EventKind kind = EventKind::remeasured;
  std::string text{};  ///< a sentence with its evidence
};

struct RemeasurePlan {
  std::vector<NewFinal> due{};  ///< runs of the next round
  std::vector<RemeasureVerdict>
      found{};  ///< verdicts on all layouts, once the remeasurement is complete
  bool over = false;
};

/// `rows`: of one node count, all of a sweep's.
[[nodiscard]] RemeasurePlan plan_remeasure(
    const std::vector<FinalsRow>& rows, const RemeasureInput& input);

/// Rounds of pairs at most, and rounds of single runs.
inline constexpr std::int32_t most_pair_rounds = 16;
inline constexpr std::int32_t most_single_rounds = 4;

}  // namespace shardsweep
