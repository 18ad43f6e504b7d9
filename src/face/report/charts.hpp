// SPDX-License-Identifier: Apache-2.0
// Charts as drawings: points and lines over two scales, and stacked bars.
#pragma once

#include <shardsweep/drawing.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Colours that are told apart without red and green (Okabe and Ito), and by order.
[[nodiscard]] Colour category_colour(std::size_t number);

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string title{};  ///< what a reader is told of it; empty: nothing
  bool hollow = false;
};

struct ChartSeries {
  std::string name{};  ///< for the legend; empty: none
  std::vector<ChartPoint> points{};
  Paint paint{Ink::accent};
  bool line = false;
  bool dots = true;
  bool dashed = false;
  std::string title{};  ///< what a reader is told of all of it
};

struct ChartAxis {
  std::string title{};
  std::string column{};  ///< whose unit its numbers have
  bool logarithmic = false;
  bool from_zero = false;
  std::vector<std::string> names{};  ///< in place of numbers: of 0, 1, 2 …
};

struct Chart {
  std::string title{};
  ChartAxis x{};
  ChartAxis y{};
  std::vector<ChartSeries> series{};
  std::optional<double> limit{};  ///< a dashed line across, at this x
  std::string limit_name{};
  double width = 460;
  double height = 260;
};

[[nodiscard]] Drawing chart_picture(const Chart& chart);

struct BarPart {
  std::string name;
  double value = 0;
};
struct StackedBar {
  std::string name;
  std::vector<BarPart> parts;
};

/// One bar below the other, on one scale; parts of one name have one colour. `limit` is a
/// dashed line.
[[nodiscard]] Drawing bars_picture(const std::string& title, const std::string& column,
                                   const std::vector<StackedBar>& bars,
                                   std::optional<double> limit, const std::string& limit_name);

}  // namespace shardsweep
