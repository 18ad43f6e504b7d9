// SPDX-License-Identifier: Apache-2.0
// A point that a search may measure, and how one ended.
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

}  // namespace shardsweep
