// SPDX-License-Identifier: Apache-2.0
// An axis that a table leaves out is no axis with its default: a point then stands for several
// layouts, its readings. Predictions are averages over them, weighted by what has been
// measured. Two things tell readings apart: what most rows of the table are, and that of two
// points which look alike each is most likely what the other is not.
#pragma once

#include "search/search_point.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

/// ZeRO stage x recompute x sequence parallel x attention.
inline constexpr std::size_t reading_kinds = std::size_t{4} * recompute_words.size() * 2 * 2;

/// One layout that a point may be.
struct Reading {
  std::size_t kind = 0;  ///< below reading_kinds
  Point point;
  RunTraits traits;
};

/// All that is known of a point: its table does not tell points apart whose looks are equal.
[[nodiscard]] std::string look_of(const SearchPoint& point);

/// All that a point's table leaves open: one, its own, where nothing is. Of an unknown ZeRO
/// stage 0 and 1 stand for what sweeps use with a pipeline, 3 besides without one.
[[nodiscard]] std::vector<Reading> readings_of(const SearchPoint& point);

/// Chances of readings, by what measured rows were. A table may mix them: then the next row is
/// most likely what most rows are. Else one reading holds for all rows, and its likelihood is the
/// product over all runs.
class ReadingBelief {
 public:
  ReadingBelief();
  /// Chances of the readings of one point, adding up to one. `mixed`: the table mixes them.
  [[nodiscard]] std::vector<double> weights(std::span<const std::size_t> kinds, bool mixed) const;
  /// `likelihoods` of what was measured, by each reading. Returns how likely each was it.
  std::vector<double> learn(
      std::span<const std::size_t> kinds, std::span<const double> likelihoods, bool mixed);

 private:
  std::array<double, reading_kinds> count_{};   // how often each was met
  std::array<double, reading_kinds> as_one_{};  // likelihood that all rows are that
};

/// Which layout each point of a cell is.
class CellReadings {
 public:
  /// Of a point with several readings: the number of its look.
  [[nodiscard]] std::size_t add(const SearchPoint& point);
  /// How likely each reading is, adding up to one.
  [[nodiscard]] std::vector<double> weights(
      std::span<const std::size_t> kinds, std::optional<std::size_t> look) const;
  /// A factor for each of so many readings: a sweep has few layouts twice, so that one which a
  /// point of this look was most likely is not this one's. No look: 1 for each.
  [[nodiscard]] std::vector<double> not_taken(
      std::size_t readings, std::optional<std::size_t> look) const;
  /// ReadingBelief::learn(), and nobody else of this look is that reading.
  std::vector<double> learn(std::span<const std::size_t> kinds, std::span<const double> likelihoods,
      std::optional<std::size_t> look);

 private:
  struct Look {
    std::size_t points = 0;
    std::vector<std::vector<double>> ended;  // how likely each reading was, of those
  };

  ReadingBelief kinds_;
  std::map<std::string, std::size_t> look_of_;  // by all that is known of a point
  std::vector<Look> looks_;
  std::string software_;  // of the first point
  /// Rows that look alike, or have other software, differ in what their table leaves out.
  bool mixed_ = false;
};

}  // namespace shardsweep
