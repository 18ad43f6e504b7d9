// SPDX-License-Identifier: Apache-2.0
// An axis that a table leaves out is no axis with its default: a point then stands for several
// layouts, its readings. Predictions are averages over them, weighted by what has been
// measured. Two things tell readings apart: what most rows of the table are, and that of two
// points with one signature each is most likely what the other is not.
#pragma once

#include "search/cell_search.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <memory>
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

/// All that is known of a point: its table does not tell points of one signature apart.
[[nodiscard]] std::string signature_of(const SearchPoint& point);

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
class Readings : public Alternatives {
 public:
  [[nodiscard]] std::vector<Alternative> of(const SearchPoint& point) const override;
  [[nodiscard]] std::size_t add(const SearchPoint& point, bool elsewhere) override;
  [[nodiscard]] std::vector<double> weights(std::size_t number) const override;
  /// ReadingBelief::learn(), and no other point of this signature is that reading.
  std::vector<double> learn(std::size_t number, std::vector<double> likelihoods) override;

 private:
  /// Points of the cell that its table does not tell apart.
  struct Group {
    std::size_t points = 0;
    std::vector<std::vector<double>> ended;  // how likely each reading was, of those
  };
  struct Member {
    std::vector<std::size_t> kinds;
    Group* group = nullptr;  // null: of another cell
  };
  [[nodiscard]] std::vector<double> not_taken(const Member& member) const;

  ReadingBelief kinds_;
  std::map<std::string, Group> groups_;  // by signature
  std::vector<Member> members_;
  std::string software_;  // of the first point
  /// Rows of one signature, or of several software states, differ in what their table leaves out.
  bool mixed_ = false;
};

/// Of a new cell.
[[nodiscard]] std::unique_ptr<Alternatives> make_readings();

}  // namespace shardsweep
