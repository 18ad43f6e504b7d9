// SPDX-License-Identifier: Apache-2.0
// Which of a family's memory constants were fitted to a table of runs, and what they would be
// had some of its rows been unknown: how much of a memory model's fit holds for a model that
// nobody has run.
#pragma once

#include "predict/family.hpp"

#include <shardsweep/recorded.hpp>

#include <span>
#include <string_view>

namespace shardsweep {

/// A constant that no paper and no source says. All others of a family are counted from what
/// its trainers keep.
struct FittedConstant {
  std::string_view name;
  double MemoryFamily::*value;
  double step = 0;  ///< to which it is worth knowing, in its own unit
  double most = 0;  ///< searched from 0 up to here
};

/// Empty for a family of which nothing was fitted.
[[nodiscard]] std::span<const FittedConstant> fitted_memory_constants(std::string_view family);

/// The family with these constants fitted to the completed rows of `sweep`, but for those of
/// models named `without` (empty: all rows): the least sum of |ln(predicted / reported peak)|,
/// found by searching one constant after the other. The optimistic bound takes over a constant
/// that it shares with the estimate. Unchanged where no row reports a peak.
[[nodiscard]] Family refit_memory(const RecordedSweep& sweep, const ClusterSpec& cluster,
                                  const Family& family, std::string_view without);

}  // namespace shardsweep
