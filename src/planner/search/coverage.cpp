// SPDX-License-Identifier: Apache-2.0
#include "search/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

/// What points with one value of an axis say of it.
struct Seen {
  std::int64_t value = 0;
  bool tried = false;
  bool running = false;
  bool open = false;
};

/// By value. An axis has few: most points have that of the one before.
std::vector<Seen> values_of(std::size_t axis, std::span<const StructuredPoint> points) {
  std::vector<Seen> values;
  std::size_t at = 0;
  for (const auto& point : points) {
    const auto value = point.structure[axis];
    if (at >= values.size() || values[at].value != value) {
      const auto found = std::find_if(
          values.begin(), values.end(), [&](const Seen& one) { return one.value == value; });
      at = static_cast<std::size_t>(found - values.begin());
      if (found == values.end()) values.push_back({.value = value});
    }
    auto& seen = values[at];
    seen.tried |= point.standing == Standing::tried;
    seen.running |= point.standing == Standing::running;
    seen.open |= point.standing == Standing::open;
  }
  std::sort(
      values.begin(), values.end(), [](const Seen& a, const Seen& b) { return a.value < b.value; });
  return values;
}

}  // namespace

Structure structure_of(const Point& point) {
  Structure structure{};
  for (std::size_t i = 0; i < structure.size(); ++i)
    structure.at(i) = structural_axes.at(i)->get(point);
  return structure;
}

std::vector<Uncovered> uncovered(std::span<const StructuredPoint> points) {
  std::vector<Uncovered> missing;
  for (std::size_t axis = 0; axis < structural_axes.size(); ++axis) {
    const auto values = values_of(axis, points);
    if (values.size() < 2) continue;
    for (const auto& is : values) {
      if (!is.tried && (is.open || is.running)) missing.push_back({axis, is.value, is.running});
    }
  }
  return missing;
}

bool would_cover(const Structure& structure, std::span<const Uncovered> missing) {
  return std::any_of(missing.begin(), missing.end(),
      [&](const Uncovered& one) { return !one.running && structure.at(one.axis) == one.value; });
}

std::string text_of(std::span<const Uncovered> missing) {
  std::string text;
  for (const auto& one : missing) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", structural_axes.at(one.axis)->name,
        axis_text(*structural_axes.at(one.axis), one.value));
  }
  return text;
}

}  // namespace shardsweep
