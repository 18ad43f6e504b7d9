// SPDX-License-Identifier: Apache-2.0
// At which of a row of versions a layout became slower. Each step measures pairs: runs of a
// known-good version and of a candidate, side by side in one allocation. The first step holds
// the last version against the first one and tells how large the change is. Each further step
// halves what is left, and a last one holds the version that is found against the one before
// it. A step that noise leaves open is given more pairs; what cannot be measured is passed
// over. All of it follows from what was measured, so whoever starts again goes on. Pure.
#pragma once

#include "search/finals.hpp"

#include <shardsweep/difference.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace shardsweep {

/// Places of two versions in their row, of which the first is known to be good.
struct BisectStep {
  std::size_t good = 0;
  std::size_t candidate = 0;
  friend auto operator<=>(
      const BisectStep&, const BisectStep&) = default;  // NOLINT(modernize-use-nullptr)
};

/// Pairs that were measured in one step.
struct BisectPairs {
  std::vector<double> slower_by{};  ///< ln(speed of the good one / of the candidate), per pair
  std::int64_t lost = 0;            ///< pairs that were begun, and told nothing
  [[nodiscard]] std::int64_t begun() const { return std::ssize(slower_by) + lost; }
};

struct BisectFacts {
  std::size_t versions = 0;    ///< the first is known to be good, the last to be bad
  std::vector<bool> broken{};  ///< flag of each version: it cannot be built, or does not run
  std::map<BisectStep, BisectPairs> measured{};
};

struct BisectSettings {
  double resolve = 0.01;         ///< a difference of less does not matter
  std::int64_t first_pairs = 6;  ///< pairs in the first look at the whole change
  std::int64_t most_pairs = 32;  ///< pairs after which a step stays undecided
};

/// How a step ended. Whether a candidate between the ends is slower is a choice between two
/// levels: the first version's, and the last one's.
struct BisectVerdict {
  BisectStep step{};
  Difference difference = Difference::undecided;  ///< the candidate against the good version
  Interval share{};                               ///< ln, above 0: it is slower; 95 % interval
  double noise = 0;                               ///< standard deviation of one pair
  std::int64_t missing = 0;                       ///< pairs that would decide it
};

enum class BisectEnd : std::uint8_t {
  goes_on,
  found,         ///< `last` is the version, and the pair with the one before it says so
  unconfirmed,   ///< `last` is it by the steps, and that pair does not say so
  range,         ///< a version after `first`, up to `last`: those between cannot be measured
  absent,        ///< the last version is not slower
  faster,        ///< the last version is faster
  undecided,     ///< noise hides whether it is slower
  first_broken,  ///< the known-good version cannot be measured
  last_broken,   ///< the last version cannot be measured
};

struct BisectDecision {
  BisectEnd end = BisectEnd::goes_on;
  BisectStep next{};            ///< goes_on: which step
  std::int64_t pairs = 0;       ///< goes_on: so many more
  std::size_t first = 0;        ///< the last version that is known to be as fast as the first
  std::size_t last = 0;         ///< the first version that is known to be slower
  std::int64_t steps_left = 0;  ///< goes_on: at most, if all can be told apart
  std::vector<BisectVerdict> verdicts{};  ///< verdicts on all steps that were begun, by step
};

[[nodiscard]] BisectDecision decide_bisect(
    const BisectFacts& facts, const BisectSettings& settings);

}  // namespace shardsweep
