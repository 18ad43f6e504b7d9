// SPDX-License-Identifier: Apache-2.0
#include "show/colour.hpp"

#include <algorithm>
#include <cmath>

namespace shardsweep {
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
