// SPDX-License-Identifier: Apache-2.0
// The README's formulas for memory and communication, written from the layout and its
// schedule's list alone: they share no code with the trainer, whose counters must equal them.
#pragma once

#include "parallel/layout.hpp"

#include <array>

namespace shardbench {

struct ExpectedCost {
  /// parameters, gradients, optimizer, activations, workspace, communication.
  std::array<i64, 6> peak_by_class{};
  /// tp, dp, pp, shard, replicate, cp, ep, edp: bytes that the rank sends in one train step.
  std::array<i64, 8> sent_bytes{};
};

ExpectedCost expected_cost(const ModelShape& model, const Layout& layout, i64 rank, Dtype dtype);

}  // namespace shardbench
