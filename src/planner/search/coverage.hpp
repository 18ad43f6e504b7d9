// SPDX-License-Identifier: Apache-2.0
// A rule about when a cell's search may claim anything: each value of each structural axis (dp,
// tp, pp, ZeRO stage, recompute, schedule …) was tried in the cell, or a measurement bounds all
// layouts that have it. What a predictor says of a mechanism that nobody has seen run here is
// no ground for ending.
#pragma once

#include <shardsweep/axis_table.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

/// Axes that switch a mechanism of a layout on or set its degree.
inline constexpr const auto& structural_axes = axes_with<AxisUse::structural>;
using Structure = std::array<std::int64_t, structural_axes.size()>;

[[nodiscard]] Structure structure_of(const Point& point);

/// What is known of a point, as far as the rule asks.
enum class Standing : std::uint8_t {
  tried,    ///< it was measured, or has a verdict that is none about memory
  running,  ///< it is being measured
  open,     ///< it waits, and may be the fastest by all that is known
  bounded,  ///< it waits; it is too slow by what was measured, or unlikely to fit
  gone,     ///< it ran out of memory, or was left out: it says nothing of others
};
struct StructuredPoint {
  Structure structure{};
  Standing standing = Standing::open;
};

/// A value of an axis that no point with it has shown yet.
struct Uncovered {
  std::size_t axis = 0;  ///< of structural_axes
  std::int64_t value = 0;
  bool running = false;  ///< a point with it is being measured
  friend bool operator==(const Uncovered&, const Uncovered&) = default;
};

/// In the order of axes and values. An axis with one value in all the cell is never uncovered.
[[nodiscard]] std::vector<Uncovered> uncovered(std::span<const StructuredPoint> points);

/// Whether measuring a point covers a value that nothing covers and that nothing runs for.
[[nodiscard]] bool would_cover(const Structure& structure, std::span<const Uncovered> missing);

/// "tp 2, recompute full": for a sentence.
[[nodiscard]] std::string text_of(std::span<const Uncovered> missing);

}  // namespace shardsweep
