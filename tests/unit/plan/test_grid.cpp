// SPDX-License-Identifier: Apache-2.0
#include "plan/grid.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

std::vector<GridPoint> all_points(const Grid& grid) {
  std::vector<GridPoint> points;
  grid.for_each([&](const GridPoint& at) { points.push_back(at); });
  return points;
}

std::string text_of(const Point& point) {
  std::string text;
  for (const auto& axis : axes())
    text += axis_text(axis, axis.get(point)) + ' ';
  for (const auto value : point.vars)
    text += std::to_string(value) + ' ';
  return text + std::to_string(point.repeat);
}

std::string fault_of(const SweepSpec& sweep) {
  const auto grid = Grid::make(sweep);
  if (grid) return "no fault";
  CHECK(grid.error().kind == FaultKind::invalid_input);
  return grid.error().what;
}

PartialPoint picked(
    std::vector<AxisValues> settings, std::vector<std::pair<std::string, std::string>> vars = {}) {
  return {std::move(settings), std::move(vars), {"sweep.yaml", 7, 3}};
}

// Some sweep of axes, a zip, a var and repeats, different for each seed.
SweepSpec random_sweep(unsigned seed) {
  std::mt19937 random(seed);
  const auto some = [&](std::int64_t most) {
    std::set<std::int64_t> chosen;
    const auto count = 1 + random() % 3;
    while (chosen.size() < count)
      chosen.insert(1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most)));
    return std::vector<std::int64_t>(chosen.begin(), chosen.end());
  };
  auto sweep = sweep_of(small_model(),
      {{find_axis("nodes"), false, some(4)}, {find_axis("tp"), false, some(8)}, automatic("dp"),
          {find_axis("micro_batch"), false, some(8)}, automatic("grad_accum")});
  sweep.global_batch_samples = 64;
  sweep.zips = {{{values("zero", {0, 1}), values("pp", {1, 2})}}};
  sweep.vars = {{"v", {"a", "b"}}};
  sweep.measure.repeats = 1 + static_cast<std::int32_t>(random() % 2);
  return sweep;
}

}  // namespace

TEST_CASE("the product has as many points as its lists multiply to and each once") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto sweep = random_sweep(seed);
    auto expected = static_cast<std::size_t>(4 * sweep.measure.repeats);
    for (const auto& axis : sweep.axes) {
      if (!axis.automatic) expected *= axis.values.size();
    }
    const auto grid = Grid::make(sweep);
    REQUIRE(grid);
    const auto points = all_points(*grid);
    CHECK(points.size() == expected);
    CHECK(grid->size() == static_cast<std::int64_t>(expected));
    std::set<std::string> seen;
    for (const auto& at : points)
      CHECK(seen.insert(text_of(at.point)).second);
  }
}

TEST_CASE("a point read by its number is the one enumerated") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto sweep = random_sweep(seed);
    sweep.points = {picked({values("nodes", {3}), values("tp", {3})}, {{"v", "b"}})};
    const auto grid = Grid::make(sweep);
    REQUIRE(grid);
    std::int64_t index = 0;
    for (const auto& at : all_points(*grid)) {
      GridPoint read;
      grid->read(index, read);
      CHECK(at.index == index);
      CHECK(read.point == at.point);
      CHECK(read.gap == at.gap);
      ++index;
    }
  }
}

TEST_CASE("dp and grad_accum take what is left of world and batch") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const auto grid = Grid::make(random_sweep(seed));
    REQUIRE(grid);
    grid->for_each([](const GridPoint& at) {
      const auto& layout = at.point.layout;
      CHECK(at.point.gpus == at.point.nodes * 8);
      if (at.gap == Gap::none) {
        CHECK(layout.world() == at.point.gpus);
        CHECK(layout.global_batch() == 64);
      } else if (at.gap == Gap::dp) {
        CHECK(at.point.gpus % (layout.tp * layout.pp) != 0);
      } else {
        CHECK(64 % (layout.dp * layout.micro_batch) != 0);
      }
    });
  }
}

TEST_CASE("the batch in tokens is a batch in samples for each seq_len") {
  auto sweep = sweep_of(small_model(), {values("seq_len", {1024, 4096, 3000})},
      {values("gpus", {2}), automatic("dp"), automatic("grad_accum")});
  sweep.global_batch_tokens = 65536;
  const auto points = all_points(*Grid::make(sweep));
  REQUIRE(points.size() == 3);
  CHECK(points[0].point.layout.grad_accum == 32);
  CHECK(points[1].point.layout.grad_accum == 8);
  CHECK(points[2].gap == Gap::samples);
  CHECK(points[2].point.nodes == 0);
}

TEST_CASE("a billion points are refused before the first is made") {
  std::vector<AxisValues> wide;
  for (const auto* name : {"tp", "pp", "micro_batch"}) {
    AxisValues axis{find_axis(name), false, {}};
    for (std::int64_t value = 1; value <= 1000; ++value)
      axis.values.push_back(value);
    wide.push_back(axis);
  }
  CHECK(fault_of(sweep_of(small_model(), wide)) ==
      "sweep 'test': the grid has 1,000,000,000 points, more than limits.max_points "
      "(10,000,000)");
  for (const auto* name : {"nodes", "gpus", "seq_len", "dp", "grad_accum", "bucket_mb"}) {
    auto axis = wide.front();
    axis.axis = find_axis(name);
    wide.push_back(axis);
  }
  CHECK(fault_of(sweep_of(small_model(), wide)) ==
      "sweep 'test': the grid has at least 9,223,372,036,854,775,807 points, more than "
      "limits.max_points (10,000,000)");
}

TEST_CASE("a point that product and hand both name counts once") {
  auto sweep =
      sweep_of(small_model(), {values("tp", {1, 2}), automatic("dp")}, {values("nodes", {1})});
  sweep.points = {picked({values("tp", {2})}),                  // in the product
      picked({values("tp", {4})}),                              // new
      picked({values("tp", {4}), values("micro_batch", {1})}),  // the same again
      picked({values("tp", {2}), values("dp", {4})})};          // dp as derived
  const auto grid = Grid::make(sweep);
  REQUIRE(grid);
  CHECK(grid->size() == 3);
  CHECK(grid->duplicates() == 3);
  const auto points = all_points(*grid);
  CHECK(points.back().point.layout.tp == 4);
  CHECK(points.back().point.layout.dp == 2);
}

TEST_CASE("a value that stands twice in a list is one value") {
  auto sweep = sweep_of(small_model(), {values("tp", {1, 2, 1})});
  sweep.zips = {{{values("pp", {1, 2, 1}), values("zero", {0, 0, 0})}}};
  CHECK(Grid::make(sweep)->size() == 4);
}

TEST_CASE("hand-picked points alone make no product") {
  auto sweep = sweep_of(small_model(), {automatic("dp")});
  sweep.points = {picked({values("nodes", {2}), values("tp", {8})})};
  sweep.vars = {{"v", {"a", "b", "c"}}};
  sweep.measure.repeats = 2;
  const auto points = all_points(*Grid::make(sweep));
  REQUIRE(points.size() == 6);
  CHECK(points.front().point.gpus == 16);
  CHECK(points.front().point.layout.dp == 2);
  CHECK(points.back().point.vars == std::vector<std::int32_t>{2});
  CHECK(points.back().point.repeat == 2);
}

TEST_CASE("the innermost scope says whether nodes or gpus give the world") {
  auto sweep = sweep_of(small_model(), {values("gpus", {2, 4})}, {values("nodes", {2})});
  sweep.points = {picked({values("nodes", {3})})};
  const auto points = all_points(*Grid::make(sweep));
  REQUIRE(points.size() == 3);
  CHECK(points[0].point.nodes == 0);
  CHECK(points[0].point.gpus == 2);
  CHECK(points[2].point.nodes == 3);
  CHECK(points[2].point.gpus == 24);
}

TEST_CASE("what makes no grid is a fault that says so") {
  CHECK(fault_of(sweep_of(small_model(), {values("tp", {1}), values("tp", {2})})) ==
      "sweep 'test': axis 'tp' appears twice");
  CHECK(fault_of(sweep_of(small_model(), {values("tp", {})})) ==
      "sweep 'test': axis 'tp' has no values");
  CHECK(fault_of(sweep_of(small_model(), {automatic("grad_accum")})) ==
      "sweep 'test': grad_accum is auto; set global_batch_tokens or "
      "global_batch_size");
  auto sweep = sweep_of(small_model(), {});
  sweep.zips = {{{values("pp", {1, 2}), values("zero", {0})}}};
  CHECK(fault_of(sweep) == "zip: 'pp' has 2 values, 'zero' has 1");
  sweep.zips = {};
  sweep.vars = {{"v", {"a"}}};
  sweep.points = {picked({}, {{"v", "z"}})};
  CHECK(fault_of(sweep) == "sweep.yaml:7:3: var 'v' does not have that value");
}
