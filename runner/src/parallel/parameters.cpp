// SPDX-License-Identifier: Apache-2.0
// The cut of every tensor. q, k, v lie together, and gate, up, so that each is one product.
#include "parallel/parameters.hpp"

#include "base/error.hpp"
#include "schedules/schedule.hpp"

#include <numeric>

namespace shardbench {
namespace {

enum class Cut { none, rows, columns };

// Elements: every unit and every part of one begin at what a GPU loads at once, in any format.
constexpr i64 part_multiple = 128;
constexpr u64 tensor_kinds = 16;

class UnitBuilder {
 public:
  UnitBuilder(const Layout& layout, const Coordinates& at, UnitKind kind, i64 layer, i64 chunk)
      : tp_(layout.tp), tp_rank_(at.tp), unit_{kind, layer, chunk, {}, 0, 0, 0, 1, 0, false} {}

  void add(TensorKind kind, i64 rows, i64 columns, Cut cut) {
    TensorSlot slot{kind, {}, rows, cut != Cut::none, unit_.elements};
    TensorRegion& r = slot.region;
    r.tensor = static_cast<u64>(unit_.layer + 1) * tensor_kinds + static_cast<u64>(kind);
    r.rows = cut == Cut::rows ? rows / tp_ : rows;
    r.columns = cut == Cut::columns ? columns / tp_ : columns;
    r.first_row = cut == Cut::rows ? tp_rank_ * r.rows : 0;
    r.first_column = cut == Cut::columns ? tp_rank_ * r.columns : 0;
    r.global_columns = columns;
    r.ones = kind == TensorKind::attention_norm || kind == TensorKind::mlp_norm ||
        kind == TensorKind::final_norm;
    unit_.elements += slot.count();
    unit_.slots.push_back(slot);
  }

  /// One expert's three matrices, whichever rank has it.
  void add_expert(i64 expert, const ModelShape& s) {
    add(TensorKind::expert_gate, s.expert_ffn, s.hidden, Cut::rows);
    add(TensorKind::expert_up, s.expert_ffn, s.hidden, Cut::rows);
    add(TensorKind::expert_down, s.hidden, s.expert_ffn, Cut::columns);
    for (std::size_t i = unit_.slots.size() - 3; i < unit_.slots.size(); ++i)
      unit_.slots[i].region.tensor += static_cast<u64>(expert + 1) << 32;
  }

  Unit finish(i64 shards, bool spread = false) {
    unit_.shards = shards;
    unit_.spread = spread;
    unit_.padded = round_up(unit_.elements, shards * part_multiple);
    return unit_;
  }

 private:
  i64 tp_;
  i64 tp_rank_;
  Unit unit_;
};

void add_layer(UnitBuilder& unit, const ModelShape& s, i64 layer) {
  const i64 d = s.head_dim();
  unit.add(TensorKind::attention_norm, 1, s.hidden, Cut::none);
  unit.add(TensorKind::q, s.heads * d, s.hidden, Cut::rows);
  unit.add(TensorKind::k, s.kv_heads * d, s.hidden, Cut::rows);
  unit.add(TensorKind::v, s.kv_heads * d, s.hidden, Cut::rows);
  unit.add(TensorKind::o, s.hidden, s.heads * d, Cut::columns);
  unit.add(TensorKind::mlp_norm, 1, s.hidden, Cut::none);
  if (s.has_experts(layer)) unit.add(TensorKind::router, s.experts, s.hidden, Cut::none);
  const i64 width = s.dense_width(layer);
  if (width == 0) return;
  unit.add(TensorKind::gate, width, s.hidden, Cut::rows);
  unit.add(TensorKind::up, width, s.hidden, Cut::rows);
  unit.add(TensorKind::down, s.hidden, width, Cut::columns);
}

void add_experts(UnitBuilder& unit, const ModelShape& s, const Layout& l, i64 data_rank) {
  const i64 own = s.experts / l.ep;
  for (i64 i = 0; i < own; ++i)
    unit.add_expert(data_rank % l.ep * own + i, s);
}

void place(std::vector<Unit>& units) {
  i64 offset = 0;
  i64 own = 0;
  for (const bool spread : {false, true})
    for (Unit& unit : units) {
      if (unit.spread != spread) continue;
      unit.offset = offset;
      unit.own_offset = own;
      offset += unit.padded;
      own += unit.part();
    }
}

}  // namespace

const TensorSlot& Unit::slot(TensorKind tensor) const {
  for (const TensorSlot& candidate : slots)
    if (candidate.kind == tensor) return candidate;
  fail(ErrorClass::internal, "a unit has no such tensor");
}

std::vector<Unit> units_of(const ModelShape& shape, const Layout& layout, const Coordinates& at) {
  const i64 shards = layout.zero > 0 ? layout.shard_ranks() : 1;
  const i64 vocab = padded_vocab(shape.vocab, layout);
  std::vector<Unit> units;
  const Pipeline pipeline = pipeline_of(layout);
  const i64 last_chunk = layout.vpp - 1;
  const auto add_embedding = [&](UnitKind kind) {
    UnitBuilder unit(layout, at, kind, -1, kind == UnitKind::embedding ? 0 : last_chunk);
    unit.add(TensorKind::embedding, vocab, shape.hidden, Cut::rows);
    units.push_back(unit.finish(shards));
  };
  if (at.pp == 0) add_embedding(UnitKind::embedding);
  for (i64 chunk = 0; chunk <= last_chunk; ++chunk) {
    const LayerRange range = stage_layers(layout, shape.layers, pipeline.stage(at.pp, chunk));
    for (i64 layer = range.first; layer < range.first + range.count; ++layer) {
      UnitBuilder unit(layout, at, UnitKind::layer, layer, chunk);
      add_layer(unit, shape, layer);
      units.push_back(unit.finish(shards));
      if (!shape.has_experts(layer)) continue;
      UnitBuilder experts(layout, at, UnitKind::experts, layer, chunk);
      add_experts(experts, shape, layout, data_index(layout, at));
      const i64 expert_shards = layout.zero > 0 ? layout.expert_replicas() : 1;
      units.push_back(layout.ep > 1 ? experts.finish(expert_shards, true) : experts.finish(shards));
    }
  }
  if (at.pp == pipeline.last_rank()) {
    UnitBuilder unit(layout, at, UnitKind::head, -1, last_chunk);
    unit.add(TensorKind::final_norm, 1, shape.hidden, Cut::none);
    if (!shape.tied) unit.add(TensorKind::head, vocab, shape.hidden, Cut::rows);
    units.push_back(unit.finish(shards));
    if (shape.tied && at.pp > 0) add_embedding(UnitKind::tied_head);
  }
  place(units);
  return units;
}

i64 flat_elements(const std::vector<Unit>& units) {
  return std::accumulate(units.begin(), units.end(), i64{0},
      [](i64 sum, const Unit& unit) { return sum + unit.padded; });
}

i64 common_elements(const std::vector<Unit>& units) {
  return std::accumulate(units.begin(), units.end(), i64{0},
      [](i64 sum, const Unit& unit) { return sum + (unit.spread ? 0 : unit.padded); });
}

}  // namespace shardbench
