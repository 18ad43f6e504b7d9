// SPDX-License-Identifier: Apache-2.0
// Whether colours of charts stay apart: for normal eyes, without the cones for red or for green
// (matrices of Machado, Oliveira and Fernandes, 2009, severity 1), and in a greyscale print.
#include "report/charts.hpp"
#include "report/page.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

using Three = std::array<double, 3>;
using Matrix = std::array<Three, 3>;

constexpr Matrix normal{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix protanopia{{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
    {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix deuteranopia{{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
    {-0.011820, 0.042940, 0.968881}}};

double linear(int channel) {
  const double value = channel / 255.0;
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

double dot(const Three& a, const Three& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/// CIE L*a*b* under D65, as such eyes see it.
Three seen(const Colour& colour, const Matrix& eyes) {
  const Three light{linear(colour.red), linear(colour.green), linear(colour.blue)};
  const auto as_seen = [&](std::size_t row) {
    return std::clamp(dot(eyes.at(row), light), 0.0, 1.0);
  };
  const Three rgb{as_seen(0), as_seen(1), as_seen(2)};
  const auto bent = [](double value) {
    return value > 0.008856 ? std::cbrt(value) : 7.787 * value + 16.0 / 116;
  };
  const double x = bent(dot({0.4124, 0.3576, 0.1805}, rgb) / 0.9505);
  const double y = bent(dot({0.2126, 0.7152, 0.0722}, rgb));
  const double z = bent(dot({0.0193, 0.1192, 0.9505}, rgb) / 1.089);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(const Colour& a, const Colour& b, const Matrix& eyes) {
  const Three one = seen(a, eyes);
  const Three other = seen(b, eyes);
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

/// "--k3: #4f3169;": each such colour of a page's style, in its order.
std::vector<Colour> inks_of(const std::string& page) {
  std::vector<Colour> inks;
  for (auto at = page.find("--k0: #"); at != std::string::npos; at = page.find("--k0: #", at + 1)) {
    for (std::size_t number = 0; number < 8; ++number) {
      const auto place = page.find("--k" + std::to_string(number) + ": #", at) + 7;
      const auto value = std::stoul(page.substr(place, 6), nullptr, 16);
      inks.push_back({static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8 & 0xff), static_cast<std::uint8_t>(value & 0xff)});
    }
  }
  return inks;
}

}  // namespace

TEST_CASE("colours of charts stay apart for the colour-blind and in a greyscale print") {
  const auto inks = inks_of(heatmap_page({}, {}));
  REQUIRE(inks.size() == 16);  // by day, also on paper, and by night
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(inks[i] == category_colour(i));
  for (const std::size_t set : {std::size_t{0}, std::size_t{8}}) {
    for (std::size_t i = set; i < set + 8; ++i) {
      CAPTURE(i);
      for (std::size_t j = set; j < i; ++j) {
        CAPTURE(j);
        for (const Matrix& eyes : {normal, protanopia, deuteranopia})
          CHECK(distance(inks[i], inks[j], eyes) > 15);
      }
      // Parts of a bar lie beside each other in this order.
      if (i > set) CHECK(std::abs(seen(inks[i], normal)[0] - seen(inks[i - 1], normal)[0]) > 13);
    }
  }
}
