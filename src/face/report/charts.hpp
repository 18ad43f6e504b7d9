// SPDX-License-Identifier: Apache-2.0
// Charts: points and lines over two scales, as drawings for files and as data for a page.
#pragma once

#include "show/frontier.hpp"

#include <shardsweep/drawing.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Eight colours, also of the page by day (page.css). Any two are far apart for normal eyes and
/// without the cones for red or for green; neighbours differ in lightness, for greyscale
/// prints.
[[nodiscard]] Colour category_colour(std::size_t number);

/// Numbers of colours that mean the same in all charts, of `category_colour` and --k0 … of
/// page.css. Other series take colours 0, 1, 2 … and share these numbers only beyond three.
enum class ColourRole : std::uint8_t {
  running = 3,
  measured = 4,
  out_of_memory = 5,
  derived = 6,  ///< not measured: not run, or computed from what was
  failed = 7
};
[[nodiscard]] constexpr std::size_t number_of(ColourRole role) {
  return static_cast<std::size_t>(role);
}

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string title{};  ///< text that a reader is told of it; empty: nothing
  bool hollow = false;
};

struct ChartSeries {
  std::string name{};  ///< name in the legend; empty: none
  std::vector<ChartPoint> points{};
  Paint paint{Ink::accent};
  bool line = false;
  bool dots = true;
  bool dashed = false;
  std::string title{};     ///< text that a reader is told of all of it
  std::size_t colour = 0;  ///< number of its colour on a page
};

struct ChartAxis {
  std::string title{};
  std::string column{};  ///< column whose unit its numbers have
  bool logarithmic = false;
  bool from_zero = false;
  std::vector<std::string> names{};  ///< texts in place of the numbers 0, 1, 2 …
  bool at_data = false;              ///< ticks stand at the values, if these are few
  bool whole = false;                ///< ticks stand at whole numbers alone
};

struct Chart {
  std::string title{};
  ChartAxis x{};
  ChartAxis y{};
  std::vector<ChartSeries> series{};
  std::optional<double> limit{};  ///< a dashed line across, at this x
  std::string limit_name{};
  double width = 720;
  double height = 380;
};

[[nodiscard]] Drawing chart_picture(const Chart& chart);

/// Place of the chart in a page, whose script draws it at the width that there is; `caption` is
/// text.
[[nodiscard]] std::string chart_figure(const Chart& chart, std::string_view caption);

// A frontier as a drawing and as a page.

/// A chart per group below each other; of nodes one chart with a line per group.
[[nodiscard]] Drawing frontier_picture(const Frontier& frontier);

/// The same charts with their tables in the report's form. `made` says when, and by which version.
[[nodiscard]] std::string frontier_page(
    std::span<const Frontier> frontiers, const std::string& made);

}  // namespace shardsweep
