// SPDX-License-Identifier: Apache-2.0
#include "search/coverage.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <vector>

using namespace shardsweep;

namespace {

StructuredPoint at(std::int32_t dp, std::int32_t tp, Recompute recompute, Standing standing) {
  Point point;
  point.layout.dp = dp;
  point.layout.tp = tp;
  point.layout.recompute = recompute;
  return {structure_of(point), standing};
}

std::size_t axis(std::string_view name) {
  const auto found = std::find(structural_axes.begin(), structural_axes.end(), find_axis(name));
  return static_cast<std::size_t>(found - structural_axes.begin());
}

constexpr auto none = Recompute::none;
constexpr auto full = Recompute::full;

}  // namespace

TEST_CASE("every structural axis is of a layout and is no size of a micro-batch") {
  for (const auto* axis : structural_axes) {
    CHECK(axis->of_layout());
    CHECK(axis->in_lane_key);
  }
}

TEST_CASE("each value that nobody has tried is uncovered while a point with it may win") {
  const std::vector points{at(4, 1, none, Standing::tried), at(2, 2, none, Standing::open),
      at(4, 1, full, Standing::open)};
  const std::vector<Uncovered> expected{
      {axis("dp"), 2, false}, {axis("tp"), 2, false}, {axis("recompute"), 2, false}};
  CHECK(uncovered(points) == expected);
  CHECK(text_of(uncovered(points)) == "dp 2, tp 2, recompute full");
}

TEST_CASE("one point covers all the values that it has") {
  const std::vector points{at(4, 1, none, Standing::tried), at(2, 2, full, Standing::tried),
      at(4, 1, full, Standing::open), at(2, 2, none, Standing::open)};
  CHECK(uncovered(points).empty());
}

TEST_CASE("a value is covered where a measurement bounds all points that have it") {
  std::vector points{at(4, 1, none, Standing::tried), at(2, 2, none, Standing::bounded),
      at(1, 4, none, Standing::bounded)};
  CHECK(uncovered(points).empty());
  points.push_back(at(2, 2, full, Standing::open));
  const std::vector<Uncovered> expected{
      {axis("dp"), 2, false}, {axis("tp"), 2, false}, {axis("recompute"), 2, false}};
  CHECK(uncovered(points) == expected);
}

TEST_CASE("an OOM covers no value while another point with it may fit") {
  std::vector points{at(4, 1, none, Standing::tried), at(2, 2, none, Standing::gone)};
  CHECK(uncovered(points).empty());
  points.push_back(at(2, 2, none, Standing::open));
  CHECK(uncovered(points).size() == 2);
}

TEST_CASE("a value whose point runs is uncovered, and no other point is wanted for it") {
  const std::vector points{at(4, 1, none, Standing::tried), at(2, 2, none, Standing::running),
      at(2, 2, none, Standing::open)};
  const auto missing = uncovered(points);
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].running);
  CHECK_FALSE(would_cover(points[2].structure, missing));
}

TEST_CASE("a point is wanted where it has an uncovered value") {
  const std::vector points{at(4, 1, none, Standing::tried), at(2, 2, none, Standing::open),
      at(4, 1, none, Standing::open)};
  const auto missing = uncovered(points);
  CHECK(would_cover(points[1].structure, missing));
  CHECK_FALSE(would_cover(points[2].structure, missing));
}

TEST_CASE("what does not vary in a cell is never uncovered") {
  CHECK(uncovered(std::vector{at(4, 1, none, Standing::open)}).empty());
  CHECK(uncovered({}).empty());
}
