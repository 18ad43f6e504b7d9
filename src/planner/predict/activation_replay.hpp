// SPDX-License-Identifier: Apache-2.0
// The arena of activations in shardbench: the places of a train step's blocks, one after the
// other. Blocks that come and go leave gaps between those that stay, which no sum tells.
#pragma once

#include <cstdint>

namespace shardsweep {

/// Sizes of one micro-batch's blocks, in one unit of the caller's.
struct ActivationSizes {
  std::int64_t row = 0;  // of the residual stream
  std::int64_t qkv = 0;
  std::int64_t attended = 0;
  std::int64_t statistics = 0;  // log-sum-exp
  std::int64_t gate_up = 0;     // twice what is activated
  std::int64_t ids = 0;
  friend bool operator==(const ActivationSizes&, const ActivationSizes&) = default;
};

/// A stage, and what its forward drops.
struct ActivationStage {
  ActivationSizes sizes;
  std::int64_t layers = 1;
  std::int64_t micro_batches = 1;
  std::int64_t ahead = 0;  // forwards before the first backward; all of them: no 1F1B
  bool first = true;
  bool last = true;
  bool sums_elsewhere = false;  // sequence parallelism: a sum over tp begins in the workspace
  bool drops_norms_and_product = false;
  bool drops_core = false;
  bool drops_layer = false;  // all but its input
  friend bool operator==(const ActivationStage&, const ActivationStage&) = default;
};

/// The arena's extent. Remembered for each thread: points of a grid share it by the hundreds.
[[nodiscard]] std::int64_t activation_extent(const ActivationStage& stage);

}  // namespace shardsweep
