// SPDX-License-Identifier: Apache-2.0
// Where the rows of a mixture of experts go: on the host, from what each token has chosen.
#pragma once

#include "device/device.hpp"
#include "parallel/layout.hpp"

#include <cstdint>
#include <vector>

namespace shardbench {

/// Rows that leave a rank, those for the first expert first. Under a capacity each expert gets
/// the same number: rows without a token are zero, tokens without a row are dropped.
struct Dispatch {
  std::vector<std::int32_t> source;  // token of each row; -1: none
  std::vector<std::int32_t> places;  // [tokens, experts_per_token]: the row; -1: dropped
  std::vector<i64> sent;             // rows for each expert
};

/// `choices` [tokens, experts_per_token]; `capacity` 0: all have a row.
Dispatch dispatch_of(const std::vector<std::int32_t>& choices, const ModelShape& shape,
                     i64 capacity);

/// Rows that one expert takes from one rank's micro-batch: ceil(factor · tokens ·
/// experts_per_token / experts); 0 for dropless.
i64 expert_capacity(const ModelShape& shape, const Layout& layout, i64 tokens);

/// Choices by a token's place in its sequence, alike in all of them. Balanced: place p takes
/// p·k, p·k + 1, … modulo the experts. Skewed: every second place takes the first k experts.
std::vector<std::int32_t> pinned_choices(const ModelShape& shape, MoeRouting routing,
                                         const AttentionShape& tokens,
                                         const Positions& positions);

}  // namespace shardbench
