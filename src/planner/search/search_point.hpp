// SPDX-License-Identifier: Apache-2.0
// A point that a search may measure, and how one ended. Two things are known of points alone,
// before any estimate: what of it is unknown (cell_search.hpp),
// and which of two points needs at least as much memory. Both hold for any trainer; what needs
// an estimate is in fit_belief and residuals.
#pragma once

#include "predict/memory.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/outcome.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/recorded.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

/// A point that may be measured.
struct SearchPoint {
  ModelSpec model;
  Point point;
  RunTraits traits;
  /// Axes that a table leaves out; `point` has what is usual there.
  UnknownAxes unknown{};
  /// Kernels and labels that no axis says: points are comparable if they are equal.
  std::string software{};
};

/// End of a point's run, as far as a search learns from it.
struct SearchNews {
  Outcome outcome = Outcome::completed;
  double tokens_per_s_per_gpu = 0;  ///< 0: not known
  std::int64_t peak_bytes = 0;      ///< peak memory that the trainer reports; 0: not known
  double seconds = 0;               ///< duration of its attempt; 0: not known
  bool cut_short = false;           ///< ended early, so it is never the best, whatever its speed
  double resolution = 0;            ///< share of its speed that its log rounds away
};

// A named rule: after an OOM, what needs at least as much memory is not tried. It compares only
// layouts that differ in nothing but sizes of which memory grows, whatever the trainer is.
// Everything that needs an estimate is FitBelief's to judge, and may be taken back.

/// True if `b` holds all that `a` holds: the same software and mechanisms, at least as large
/// micro-batches in flight, no more recomputation, no more shards. They may be of jobs of different
/// sizes: without ZeRO a rank holds the same on any number of nodes. False if a table leaves out
/// for one of them what memory depends on.
[[nodiscard]] bool needs_as_much(const SearchPoint& b, const SearchPoint& a);

}  // namespace shardsweep
