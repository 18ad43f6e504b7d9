// SPDX-License-Identifier: Apache-2.0
// What `bisect` has measured, as evidence for its decision and as words for people.
#pragma once

#include "search/bisect.hpp"

#include <shardsweep/table.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

SHARDSWEEP_WORDS(BisectEnd, "goes on", "found", "unconfirmed", "range", "absent", "faster",
    "undecided", "first broken", "last broken");

/// A commit, or an image of a list.
struct BisectVersion {
  std::string id;     ///< commit or image, as it is checked out or started
  std::string name;   ///< shorter, as it is printed and as it stands in the results
  std::string about;  ///< author, date and subject; may be empty
};

/// A trial of a bisection, as the database has it.
struct BisectRun {
  std::string version;    ///< BisectVersion::name
  std::int64_t pair = 0;  ///< number of its repeat: two runs of one number are a pair
  bool open = false;
  std::string outcome;  ///< empty: it has not ended
  std::string cause;
  std::int64_t allocation = 0;
  double speed = 0;  ///< 0: not measured, or marked
  double step_ms = 0;
};
SHARDSWEEP_DESCRIBE(BisectRun, version, pair, open, outcome, cause, allocation, speed, step_ms);

/// Evidence of a bisection from its runs, for its decision and its answer.
struct BisectRecord {
  BisectFacts facts;
  bool open = false;
  std::vector<BisectStep> steps{};              ///< steps in the order in which they began
  std::map<std::size_t, std::string> broken{};  ///< reasons of broken versions, by place
  /// Medians of a train step over a step's pairs: of the good one, of the candidate.
  std::map<BisectStep, std::pair<double, double>> step_ms{};
  std::vector<std::pair<std::int64_t, BisectStep>> pairs{};  ///< by number, all that were begun
  std::int64_t runs = 0;                                     ///< measured
};

/// `unbuilt`: versions that their hook could not make, by place. Two runs are a pair if one
/// allocation measured both. A version of which every run ended by its own fault is broken.
[[nodiscard]] BisectRecord bisect_record(const std::vector<BisectVersion>& versions,
    const std::vector<BisectRun>& runs, const std::map<std::size_t, std::string>& unbuilt);

/// A row per step: version, against, verdict, change, interval, pairs, train steps.
[[nodiscard]] Table bisect_table(const std::vector<BisectVersion>& versions,
    const BisectRecord& record, const BisectDecision& decision);

/// Sentences, the answer first.
[[nodiscard]] std::vector<std::string> bisect_answer(const std::vector<BisectVersion>& versions,
    const BisectRecord& record, const BisectDecision& decision);

/// "abc is slower by 5.1 % (95 % interval 4.0 to 6.2 %, 8 pairs)".
[[nodiscard]] std::string bisect_step_text(
    const std::vector<BisectVersion>& versions, const BisectVerdict& verdict);

}  // namespace shardsweep
