// SPDX-License-Identifier: Apache-2.0
// The confidence that a search claims is held against machines whose rates it does not know.
// bench_search_confidence does the same with 200 of them.
#include "unit/search/simulated_machine.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

TEST_CASE("searches of unknown machines are wrong no more often than they claim") {
  SearchSettings settings{.policy = SearchPolicy::best_first};
  settings.until = {.regret = 0.05, .confidence = 0.9};
  constexpr int machines = 20;
  int wrong = 0;
  std::size_t launched = 0;
  std::size_t points = 0;
  for (std::uint64_t seed = 1; seed <= machines; ++seed) {
    const auto score = search(simulated_machine(seed), settings);
    if (score.stopped && score.regret > settings.until.regret) ++wrong;
    launched += score.launched;
    points += score.points;
    CHECK(score.launched > 3);
  }
  CHECK(wrong <= 2);
  // A claim that is always kept because everything runs is none.
  CHECK(2 * launched < points);
}
