// SPDX-License-Identifier: Apache-2.0
#include "sweep/layout_text.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace shardsweep;

namespace {

Point point_of_each_axis() {
  Point point;
  point.layout = {.dp = 4,
      .tp = 2,
      .pp = 3,
      .cp = 5,
      .cp_mode = ContextMode::ulysses,
      .ep = 6,
      .vpp = 7,
      .dp_replicate = 8,
      .micro_batch = 9,
      .grad_accum = 10,
      .zero = 1,
      .recompute = Recompute::full,
      .sequence_parallel = true,
      .schedule = Schedule::afab,
      .rank_order = RankOrder::tp_pp_dp,
      .bucket_mb = 50,
      .overlap = false};
  return point;
}

}  // namespace

TEST_CASE("a layout's label has its usual axes, and others where they are not as usual") {
  CHECK(layout_text(Point()) == "dp1 tp1 pp1 mb1 ga1 z0");
  CHECK(layout_text(point_of_each_axis()) ==
      "dp4 tp2 pp3 mb9 ga10 z1 cp5 ulysses ep6 vpp7 full sp afab tp-pp-dp dpr8 b50 "
      "no-overlap");
}

TEST_CASE("the degrees of a layout are a part of its label") {
  CHECK(layout_text(Point(), LayoutForm::degrees) == "dp1 tp1 pp1");
  CHECK(layout_text(point_of_each_axis(), LayoutForm::degrees) == "dp4 tp2 pp3 cp5 ep6");
}

TEST_CASE("layouts that differ in one axis differ in their label, whichever axis it is") {
  std::set<std::string> labels{layout_text(Point())};
  std::size_t axes_of_layouts = 0;
  for (const auto& axis : axes()) {
    if (!axis.of_layout()) continue;
    ++axes_of_layouts;
    Point point;
    axis.set(point, axis.default_value == axis.maximum ? axis.minimum : axis.maximum);
    CHECK_MESSAGE(labels.insert(layout_text(point)).second, axis.name);
  }
  CHECK(labels.size() == axes_of_layouts + 1);
}

TEST_CASE("every field of a layout is an axis with a place in its text") {
  for (const auto& axis : axes()) {
    const Point usual;
    Point point;
    axis.set(point, axis.default_value == axis.maximum ? axis.minimum : axis.maximum);
    const bool moves_layout = !(point.layout == usual.layout);
    CHECK_MESSAGE(moves_layout == axis.of_layout(), axis.name);
  }
}

TEST_CASE("a word that is none of ours stands in a label as it is") {
  const auto label = layout_label([](const AxisInfo& axis) {
    return axis.name == "recompute" ? "memory_budget" : axis_text(axis, axis.default_value);
  });
  CHECK(label == "dp1 tp1 pp1 mb1 ga1 z0 memory_budget");
}
