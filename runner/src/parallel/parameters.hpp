// SPDX-License-Identifier: Apache-2.0
// Which weights a rank holds: units (embedding, each layer, head) of tensors, each a block of a
// whole tensor cut along rows or columns by tensor parallelism.
//
// A unit is one contiguous piece: what ZeRO gathers, and what gradients are reduced by.
#pragma once

#include "device/device.hpp"
#include "parallel/layout.hpp"

#include <vector>

namespace shardbench {

/// Part of the key of initial weights; never renumber.
enum class TensorKind {
  embedding,
  attention_norm,
  q,
  k,
  v,
  o,
  mlp_norm,
  gate,
  up,
  down,
  final_norm,
  head,
  router,
  expert_gate,  // expert tensors: one of each for each expert of the rank
  expert_up,
  expert_down
};

struct TensorSlot {
  TensorKind kind;
  TensorRegion region;
  i64 global_rows;
  bool sharded;  // true: sharded over tp; norms are not
  i64 offset;    // elements from the start of the unit

  i64 count() const { return region.rows * region.columns; }
};

/// head: the final norm, and the head's matrix where it is one of its own. tied_head: the last
/// stage's copy of a tied embedding; where one stage is first and last there is none. experts:
/// of the layer before it, those that the rank has.
enum class UnitKind { embedding, layer, experts, head, tied_head };

struct Unit {
  UnitKind kind;
  i64 layer;  // -1 for ends
  i64 chunk;  // the rank's chunk that has the unit
  std::vector<TensorSlot> slots;
  i64 elements;    // elements without padding
  i64 padded;      // elements, padded to a multiple of 128 for each rank that shares it under ZeRO
  i64 offset;      // elements from the start of the stage's flat buffers
  i64 shards;      // ranks that share it under ZeRO
  i64 own_offset;  // elements from the start of buffers of parts
  bool spread;     // experts that not all ranks of dp and cp have

  i64 part() const { return padded / shards; }
  const TensorSlot& slot(TensorKind tensor) const;
};

/// Units of one rank, in forward order. Spread units come last in flat buffers, so that both kinds
/// are one run each.
std::vector<Unit> units_of(const ModelShape& shape, const Layout& layout, const Coordinates& at);
/// Elements of the flat buffers that hold all units, padding included; of them those that are
/// not spread.
i64 flat_elements(const std::vector<Unit>& units);
i64 common_elements(const std::vector<Unit>& units);

}  // namespace shardbench
