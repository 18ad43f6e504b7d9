// SPDX-License-Identifier: Apache-2.0
#include "show/colour.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace shardsweep {
namespace {

constexpr std::array<Colour, 11> viridis_steps{
    {{0x44, 0x01, 0x54}, {0x48, 0x24, 0x75}, {0x41, 0x44, 0x87}, {0x35, 0x5f, 0x8d},
        {0x2a, 0x78, 0x8e}, {0x21, 0x91, 0x8c}, {0x22, 0xa8, 0x84}, {0x44, 0xbf, 0x70},
        {0x7a, 0xd1, 0x51}, {0xbd, 0xdf, 0x26}, {0xfd, 0xe7, 0x25}}};

std::uint8_t between(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

/// sRGB to light.
double linear(std::uint8_t channel) {
  const double value = channel / 255.0;
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

double luminance(Colour colour) {
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

}  // namespace

Colour viridis(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (viridis_steps.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), viridis_steps.size() - 2);
  const Colour& a = viridis_steps[below];
  const Colour& b = viridis_steps[below + 1];
  const double rest = place - static_cast<double>(below);
  return {
      between(a.red, b.red, rest), between(a.green, b.green, rest), between(a.blue, b.blue, rest)};
}

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
