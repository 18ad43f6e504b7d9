// SPDX-License-Identifier: Apache-2.0
// A point as a trainer's layout: each axis is a field of it, or is said to have no words.
#include "cli/emitting.hpp"
#include "sweep/layout_text.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace shardsweep;

namespace {

/// A layout in which one axis has not its default. Those with a meaning for pipelines and
/// shared sequences alone have these.
Point with_other(const AxisInfo& axis) {
  Point point;
  point.layout.pp = 2;
  point.layout.cp = 2;
  axis.set(point, axis.default_value == axis.maximum ? axis.minimum : axis.maximum);
  return point;
}

bool has_names(const AxisInfo& axis) {
  const auto names = axis_names();
  return std::any_of(
      names.begin(), names.end(), [&](const AxisNames& row) { return row.axis == axis.name; });
}

}  // namespace

TEST_CASE("each axis of a layout reaches a trainer's layout, or has no words in any trainer") {
  for (const auto& axis : axes()) {
    if (!axis.of_layout()) continue;
    CAPTURE(axis.name);
    const auto point = with_other(axis);
    if (has_names(axis)) {
      CHECK(axis_without_words(point).empty());
      CHECK(layout_text(layout_of_point(point)) == layout_text(point));
    } else {
      CHECK(axis_without_words(point) ==
          std::string(axis.name) + " " + axis_text(axis, axis.get(point)));
    }
  }
}

TEST_CASE("what trainers have names for is an axis, a value of one, or the global batch") {
  for (const auto& row : axis_names()) {
    const auto axis = row.axis.substr(0, row.axis.find(' '));
    CHECK_MESSAGE((axis == "global_batch" || find_axis(axis) != nullptr), row.axis);
  }
}
