// SPDX-License-Identifier: Apache-2.0
// A named rule: after an OOM, what needs at least as much memory is not tried. Who needs more
// is the predictor's word, by both of its bounds; how much more is not asked.
#pragma once

#include "predict/predictor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardsweep {

/// What one layout needs, as far as it can be held against another's.
struct MemoryNeed {
  enum End : std::uint8_t { first, last };
  struct Stage {
    std::int64_t lower = 0;     ///< optimistic, bytes
    std::int64_t estimate = 0;  ///< bytes
  };
  std::array<Stage, 2> stages;  ///< of the first and the last pipeline stage
  End worst = first;            ///< which needs more; first without a pipeline
  bool pipeline = false;
  bool tensor = false;  ///< TP: whole rows are gathered beside the parts
  /// More micro-batches than stages: memory is taken and given back all along, and what the
  /// allocator can't give again adds up.
  bool steady = false;
};

[[nodiscard]] MemoryNeed memory_need(const Predictor& predictor, const ModelSpec& model,
                                     const Point& point, const RunTraits& traits);

/// Whether the stage that `a` most likely ran out of memory on needs as much under `b`, by
/// both bounds, and whatever makes estimates too low in `a` is in `b` too.
[[nodiscard]] bool needs_as_much(const MemoryNeed& b, const MemoryNeed& a);

}  // namespace shardsweep
