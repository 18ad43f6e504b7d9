// SPDX-License-Identifier: Apache-2.0
#include <shardsweep/clock.hpp>

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

struct Wall final : Clock {
  [[nodiscard]] Timestamp now() const override { return wall; }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override { return gone; }
  Timestamp wall = 1'000'000'000;
  std::chrono::steady_clock::time_point gone{};
};

}  // namespace

TEST_CASE("a step of the wall's clock is no time that something took") {
  Wall wall;
  const AnchoredClock clock(wall);
  CHECK(clock.now() == 1'000'000'000);
  wall.gone += std::chrono::seconds(1);
  wall.wall += 7'201'000'000;
  CHECK(clock.now() == 1'001'000'000);
  wall.gone += std::chrono::seconds(1);
  wall.wall -= 400 * 86'400'000'000;
  CHECK(clock.now() == 1'002'000'000);
  CHECK(clock.steady() == wall.gone);
}
