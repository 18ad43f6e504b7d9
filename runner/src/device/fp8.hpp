// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits as tensor cores multiply them (arXiv 2209.05433): e4m3 has 3 bits of
// significand and reaches 448, e5m2 has 2 and reaches 57,344. Here on the host.
#pragma once

#include "device/dtype.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace shardbench {

/// How the layers' products use FP8: not at all; by the largest magnitude of each tensor as it
/// is; by that of the train steps before.
enum class Scaling { none, current, delayed };

constexpr std::string_view scaling_name(Scaling scaling) {
  return scaling == Scaling::none ? "none" : scaling == Scaling::current ? "current" : "delayed";
}

/// The name of what a run trains in: `values`, or FP8 for the layers' products.
constexpr std::string_view trained_in(Dtype values, Scaling scaling) {
  if (scaling == Scaling::none) return dtype_name(values);
  return scaling == Scaling::current ? "fp8" : "fp8-delayed";
}

/// Format of a product's operand: the device's own values, or 8 bits.
enum class Element { value, e4m3, e5m2 };

constexpr std::string_view element_name(Element element) {
  return element == Element::value ? "value" : element == Element::e4m3 ? "e4m3" : "e5m2";
}

constexpr float largest_of(Element element) {
  return element == Element::e4m3 ? 448.0F : 57344.0F;
}

struct Fp8Shape {
  int significand;  // bits, without the implicit one
  int bias;
};

constexpr Fp8Shape fp8_shape(Element element) {
  return element == Element::e4m3 ? Fp8Shape{3, 7} : Fp8Shape{2, 15};
}

/// To nearest, ties to even; what is too large becomes the largest number. A NaN stays one.
inline std::uint8_t to_fp8(float value, Element element) {
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7f);
  const Fp8Shape shape = fp8_shape(element);
  const float magnitude = std::min(std::abs(value), largest_of(element));
  const int exponent = std::max(
      static_cast<int>(std::bit_cast<std::uint32_t>(magnitude) >> 23) - 127, 1 - shape.bias);
  const float units = std::nearbyint(std::ldexp(magnitude, shape.significand - exponent));
  // The implicit bit, and one that rounding carries, add to the exponent by themselves.
  const int bits = ((exponent + shape.bias - 1) << shape.significand) + static_cast<int>(units);
  return static_cast<std::uint8_t>(sign | bits);
}

inline float from_fp8(std::uint8_t bits, Element element) {
  const Fp8Shape shape = fp8_shape(element);
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> shape.significand;
  const int fraction = magnitude & ((1 << shape.significand) - 1);
  const bool special = element == Element::e4m3 ? magnitude == 0x7f : exponent == 31;
  if (special)
    return element == Element::e5m2 && fraction == 0 ? std::numeric_limits<float>::infinity()
                                                     : std::numeric_limits<float>::quiet_NaN();
  const int implicit = exponent > 0 ? 1 << shape.significand : 0;
  const float value = std::ldexp(static_cast<float>(fraction + implicit),
      std::max(exponent, 1) - shape.bias - shape.significand);
  return (bits & 0x80) != 0 ? -value : value;
}

/// Factor that makes `amax` the largest number; 1 if the magnitude is unusable.
inline float fp8_scale(float amax, Element element) {
  if (!(amax > 0) || !std::isfinite(amax)) return 1;
  return std::min(largest_of(element) / amax, std::numeric_limits<float>::max());
}

}  // namespace shardbench
