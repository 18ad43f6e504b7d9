// SPDX-License-Identifier: Apache-2.0
// An axis that a table leaves out is no axis with its default: a point then stands for several
// layouts, its readings. Predictions are averages over them, weighted by what has been
// measured.
#pragma once

#include "search/search_point.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace shardsweep {

/// ZeRO stage x recompute x sequence parallel x attention.
inline constexpr std::size_t reading_kinds = std::size_t{4} * 3 * 2 * 2;

/// One layout that a point may be.
struct Reading {
  std::size_t kind = 0;  ///< below reading_kinds
  Point point;
  RunTraits traits;
};

/// All that a point's table leaves open: one, its own, where nothing is. Of an unknown ZeRO
/// stage 0 and 1 stand for what sweeps use with a pipeline, 3 besides without one.
[[nodiscard]] std::vector<Reading> readings_of(const SearchPoint& point);

/// How often each kind was met: what most rows are the next one will be too.
class ReadingBelief {
 public:
  ReadingBelief();
  /// Of readings of one point, adding up to one.
  [[nodiscard]] std::vector<double> weights(std::span<const std::size_t> kinds) const;
  /// `likelihoods` of what was measured, by each reading. Returns how likely each was it.
  std::vector<double> learn(std::span<const std::size_t> kinds,
                            std::span<const double> likelihoods);

 private:
  std::array<double, reading_kinds> count_{};
};

}  // namespace shardsweep
