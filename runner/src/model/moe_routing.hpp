// SPDX-License-Identifier: Apache-2.0
// Where the rows of a mixture of experts go, as far as the host has to know it.
#pragma once

#include "device/device.hpp"
#include "parallel/layout.hpp"

#include <cstdint>
#include <vector>

namespace shardbench {

/// Rows for each expert; `choices` as below, `capacity` 0: all have a row.
std::vector<i64> rows_by_expert(
    const std::vector<std::int32_t>& choices, const ModelShape& shape, i64 capacity);

/// Order of rows that come by rank, from each of `peers` ranks those of its `own` experts, when
/// they are sorted by expert, and back. `counts` [peers, own].
struct RunOrder {
  std::vector<std::int32_t> by_expert;  // number by rank, of each row by expert
  std::vector<std::int32_t> by_rank;
};
RunOrder run_order(const std::vector<i64>& counts, i64 own);

/// Rows that one expert takes from one rank's micro-batch: ceil(factor · tokens ·
/// experts_per_token / experts); 0 for dropless.
i64 expert_capacity(const ModelShape& shape, const Layout& layout, i64 tokens);

/// Choices by a token's place in its sequence, alike in all of them. Balanced: place p takes
/// p·k, p·k + 1, … modulo the experts. Skewed: every second place takes the first k experts.
std::vector<std::int32_t> pinned_choices(const ModelShape& shape, MoeRouting routing,
    const AttentionShape& tokens, const Positions& positions);

}  // namespace shardbench
