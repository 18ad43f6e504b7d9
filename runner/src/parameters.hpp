// SPDX-License-Identifier: Apache-2.0
// Which weights a rank holds: units (embedding, each layer, head) of tensors, each a block of a
// whole tensor cut along rows or columns by tensor parallelism.
//
// A unit is one contiguous piece: what ZeRO gathers, and what gradients are reduced by.
#pragma once

#include "device.hpp"
#include "layout.hpp"

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
  head
};

struct TensorSlot {
  TensorKind kind;
  TensorRegion region;
  i64 global_rows;
  bool sharded;  // over tp; norms are not
  i64 offset;    // elements from the start of the unit

  i64 count() const { return region.rows * region.columns; }
};

/// head: the final norm, and the head's matrix where it is one of its own. tied_head: the last
/// stage's copy of a tied embedding; where one stage is first and last there is none.
enum class UnitKind { embedding, layer, head, tied_head };

struct Unit {
  UnitKind kind;
  i64 layer;  // -1 for all others
  i64 chunk;  // of the rank's, that the unit is of
  std::vector<TensorSlot> slots;
  i64 elements;  // without padding
  i64 padded;    // to a multiple of 128 for each rank that shares it under ZeRO
  i64 offset;    // elements from the start of the stage's flat buffers

  const TensorSlot& slot(TensorKind tensor) const;
};

/// The units of one rank, in forward order.
std::vector<Unit> units_of(const ModelShape& shape, const Layout& layout,
                           const Coordinates& at);
/// Elements of the flat buffers that hold all units, padding included.
i64 flat_elements(const std::vector<Unit>& units);

}  // namespace shardbench
