// SPDX-License-Identifier: Apache-2.0
// A point that a search may measure, and how one ended. Two things are known of points alone,
// before any estimate: which layouts a row of somebody's table may stand for, and which of two
// points needs at least as much memory. Both hold for any trainer; what needs an estimate is in
// fit_belief and residuals.
#pragma once

#include "predict/memory.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/recorded.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

/// A point that may be measured.
struct SearchPoint {
  ModelSpec model;
  Point point;
  RunTraits traits;
  /// What a table leaves out; the point has what is usual there.
  UnknownAxes unknown{};
  /// Kernels and labels that no axis says: points are comparable where they are equal.
  std::string software{};
};

/// How one ended, as far as a search learns from it.
struct SearchNews {
  Outcome outcome = Outcome::completed;
  double tokens_per_s_per_gpu = 0;  ///< 0: not known
  std::int64_t peak_bytes = 0;      ///< as the trainer reports it; 0: not known
  double seconds = 0;               ///< that its attempt took; 0: not known
  bool cut_short = false;           ///< it ended early: it is no best, whatever its speed
  double resolution = 0;            ///< share of its speed that its log rounds away
};

// An axis that a table leaves out is no axis with its default: a point then stands for several
// layouts, its readings. Predictions are averages over them, weighted by what has been
// measured.

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

// A named rule: after an OOM, what needs at least as much memory is not tried. It compares only
// layouts that differ in nothing but sizes of which memory grows, whatever the trainer is.
// Everything that needs an estimate is FitBelief's to judge, and may be taken back.

/// Whether `b` holds all that `a` holds and nothing less: the same software and mechanisms, at
/// least as large micro-batches in flight, no more recomputation, no more shards. They may be
/// of jobs of different sizes: without ZeRO a rank holds the same on any number of nodes.
/// Nothing is known of points whose table leaves out what memory depends on.
[[nodiscard]] bool needs_as_much(const SearchPoint& b, const SearchPoint& a);

}  // namespace shardsweep
