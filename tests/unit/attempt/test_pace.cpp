// SPDX-License-Identifier: Apache-2.0
#include "attempt/gpu_use.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("a node's clock is that of its slowest GPU, at most looks") {
  PaceOfNode node;
  CHECK(node.pace() == Pace{});
  for (int look = 0; look < 5; ++look) {
    const bool rests = look == 4;  // its work is done already
    node.add(0, {rests ? 345.0 : 1980.0, rests ? 90.0 : 690.0, rests ? 0x1U : 0x0U});
    node.add(1, {1755.0, 500.0, 0x4});
  }
  CHECK(node.pace() == Pace{1755, 595, 0x4});
}

TEST_CASE("GPUs that tell nothing are left out") {
  PaceOfNode node;
  node.add(0, {});
  CHECK(node.pace() == Pace{});
  node.add(1, {std::nullopt, 300.0, 0x4});
  CHECK(node.pace() == Pace{0, 300, 0});
}

TEST_CASE("the slowest of several nodes counts, with what held it back") {
  CHECK(pace_of({{1980, 700, 0x1}, {1755, 400, 0x4}, {}}) == Pace{1755, 550, 0x4});
  CHECK(pace_of({}) == Pace{});
}
