// SPDX-License-Identifier: Apache-2.0
// shardbench's memory on GPUs, exactly: it takes one piece per class before it trains, as large
// as that class's own peak. runner/README.md has the formulas; `shardbench --device meta`
// counts the same, and a test holds the two together.
#pragma once

#include "predict/memory.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/plan.hpp>
#include <shardsweep/point.hpp>

#include <cstdint>

namespace shardsweep {

/// Bytes of one stage, 0-based, in bf16, without what lies outside the pieces.
[[nodiscard]] MemoryEstimate arenas_of_stage(const ModelSpec& model, const Point& point,
                                             const MemoryFamily& family, std::int32_t stage);

}  // namespace shardsweep
