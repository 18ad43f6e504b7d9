// SPDX-License-Identifier: Apache-2.0
#include "show/share_steps.hpp"

#include "show/pivot.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace shardsweep {
namespace {

/// Least shares of step 2 and of those above it.
constexpr std::array<double, most_steps - 1> least_shares{0.20, 0.40, 0.60, 0.75, 0.85, 0.92, 0.97};

double best_of(const std::vector<HeatmapCell>& row) {
  double best = 0;
  for (const auto& cell : row)
    best = std::max(best, cell.value.value_or(0));
  return best;
}

}  // namespace

int share_step(double share) {
  int step = 1;
  for (const double least : least_shares)
    step += share >= least ? 1 : 0;
  return step;
}

std::string step_name(int step) {
  const auto percent = [](double share) { return std::lround(share * 100); };
  if (step <= 1) return fmt::format("below {} %", percent(least_shares.front()));
  return fmt::format("{} %", percent(least_shares[static_cast<std::size_t>(step) - 2]));
}

Colour step_colour(int step) {
  constexpr std::array<Colour, most_steps> colours{
      {{0xee, 0xf4, 0xf8}, {0xd7, 0xe6, 0xef}, {0xba, 0xd5, 0xe4}, {0x9b, 0xc2, 0xd8},
          {0x79, 0xac, 0xc9}, {0x2b, 0x71, 0x99}, {0x18, 0x5a, 0x80}, {0x08, 0x3f, 0x5d}}};
  return colours[static_cast<std::size_t>(std::clamp(step, 1, most_steps)) - 1];
}

bool by_row(const Heatmap& heatmap) {
  const auto* metric = find_metric(heatmap.value_name);
  return heatmap.row_name == "model" && heatmap.aggregate != Aggregate::count &&
      metric != nullptr && metric->higher_is_better;
}

std::vector<std::vector<int>> steps_of(const Heatmap& heatmap) {
  const auto scale = colour_scale(heatmap);
  const bool rows_alone = by_row(heatmap);
  std::vector<std::vector<int>> steps;
  for (const auto& row : heatmap.cells) {
    auto& own = steps.emplace_back();
    const double best = best_of(row);
    for (const auto& cell : row) {
      const bool shown = is_measured(cell) && cell.value && std::isfinite(*cell.value);
      if (!shown || heatmap.value_name == "outcome") {
        own.push_back(0);
      } else if (rows_alone) {
        own.push_back(share_step(best > 0 ? *cell.value / best : 1));
      } else {
        own.push_back(
            1 + static_cast<int>(std::lround(scale.share(*cell.value) * (most_steps - 1))));
      }
    }
  }
  return steps;
}

namespace {

/// sRGB to light.
double linear(std::uint8_t channel) {
  const double value = channel / 255.0;
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

double luminance(Colour colour) {
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

}  // namespace

double contrast(Colour a, Colour b) {
  const auto [dark, light] = std::minmax({luminance(a), luminance(b)});
  return (light + 0.05) / (dark + 0.05);
}

Colour readable_on(Colour background) {
  constexpr Colour black{};
  constexpr Colour white{255, 255, 255};
  return contrast(background, white) > contrast(background, black) ? white : black;
}

void ColourScale::take(double value) {
  if (!std::isfinite(value)) return;
  low = any ? std::min(low, value) : value;
  high = any ? std::max(high, value) : value;
  any = true;
}

double ColourScale::share(double value) const {
  return high > low ? (value - low) / (high - low) : 1;
}

}  // namespace shardsweep
