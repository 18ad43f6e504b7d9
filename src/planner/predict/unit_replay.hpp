// SPDX-License-Identifier: Apache-2.0
// Whole units beside shards under ZeRO: the places that shardbench gives them in a train step.
#pragma once

#include <cstdint>

namespace shardsweep {

/// Bytes of a stage's units where they are whole; 0: the stage has none.
struct WholeUnits {
  std::int64_t layers = 0;  // how many
  std::int64_t layer = 0;
  std::int64_t embedding = 0;
  std::int64_t norm = 0;   // with the head's matrix where that is one of its own
  std::int64_t table = 0;  // the last stage's copy of a tied embedding
  bool tied = false;
};

/// The order of a stage's micro-batches, as far as gradients see it.
struct MicroBatches {
  std::int64_t count = 1;
  bool heads_first = false;  // all forwards, then all backwards
  bool overlap = true;       // one reduction travels while the next gradients are computed
};

/// Bytes beside the shards of gradients (ZeRO 2, 3).
[[nodiscard]] std::int64_t whole_gradients(const WholeUnits& units, const MicroBatches& micro);
/// Bytes beside the shards of weights (ZeRO 3).
[[nodiscard]] std::int64_t whole_weights(const WholeUnits& units);

}  // namespace shardsweep
