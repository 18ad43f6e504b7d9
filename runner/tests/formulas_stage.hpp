// SPDX-License-Identifier: Apache-2.0
// One rank of a layout in the README's symbols.
#pragma once

#include "parallel/layout.hpp"
#include "schedules/schedule.hpp"

#include <numeric>
#include <vector>

namespace shardbench {

struct Stage {
  const ModelShape& model;
  const Layout& layout;
  Coordinates at;
  i64 e;
  std::vector<i64> chunks;  // layers of each
  i64 tokens;
  i64 rows;
  bool first;  // has the model's first stage
  bool last;
  bool sp;
  std::vector<Action> actions;

  i64 shards() const { return layout.zero > 0 ? layout.shard_ranks() : 1; }
  i64 shard_index() const {
    return layout.zero > 0 ? data_index(layout, at) % layout.shard_ranks() : 0;
  }
  i64 m() const { return layout.grad_accum; }
  i64 layers() const { return std::accumulate(chunks.begin(), chunks.end(), i64{0}); }
  i64 layers(const Piece& piece) const { return chunks[static_cast<std::size_t>(piece.chunk)]; }
  bool begins(const Piece& piece) const { return first && piece.chunk == 0; }
  bool ends(const Piece& piece) const { return last && piece.chunk + 1 == layout.vpp; }
};

/// Values that one layer keeps for backward; what selective recompute drops is `dropped`.
struct LayerValues {
  i64 all;
  i64 norm;
  i64 activated;
  i64 core;  // values that attention keeps beside q, k, v
};

LayerValues layer_values(const Stage& s);

/// Peak of class activations, in bytes.
i64 activation_peak(const Stage& s);

}  // namespace shardbench
