// SPDX-License-Identifier: Apache-2.0
// The cut of every tensor. q, k, v lie together, and gate, up, so that each is one product.
#include "parameters.hpp"

#include "error.hpp"

namespace shardbench {
namespace {

enum class Cut { none, rows, columns };

// Elements: every unit and every part of one begin at what a GPU loads at once, in any format.
constexpr i64 part_multiple = 128;

class UnitBuilder {
 public:
  UnitBuilder(const Layout& layout, const Coordinates& at, UnitKind kind, i64 layer, i64 chunk)
      : tp_(layout.tp), tp_rank_(at.tp), unit_{kind, layer, chunk, {}, 0, 0, 0} {}

  void add(TensorKind kind, i64 rows, i64 columns, Cut cut) {
    TensorSlot slot{kind, {}, rows, cut != Cut::none, unit_.elements};
    TensorRegion& r = slot.region;
    r.tensor = static_cast<u64>(unit_.layer + 1) * 16 + static_cast<u64>(kind);
    r.rows = cut == Cut::rows ? rows / tp_ : rows;
    r.columns = cut == Cut::columns ? columns / tp_ : columns;
    r.first_row = cut == Cut::rows ? tp_rank_ * r.rows : 0;
    r.first_column = cut == Cut::columns ? tp_rank_ * r.columns : 0;
    r.global_columns = columns;
    r.ones = cut == Cut::none;
    unit_.elements += slot.count();
    unit_.slots.push_back(slot);
  }

  Unit finish(i64 shards) {
    unit_.padded = round_up(unit_.elements, shards * part_multiple);
    return unit_;
  }

 private:
  i64 tp_;
  i64 tp_rank_;
  Unit unit_;
};

void add_layer(UnitBuilder& unit, const ModelShape& s) {
  const i64 d = s.head_dim();
  unit.add(TensorKind::attention_norm, 1, s.hidden, Cut::none);
  unit.add(TensorKind::q, s.heads * d, s.hidden, Cut::rows);
  unit.add(TensorKind::k, s.kv_heads * d, s.hidden, Cut::rows);
  unit.add(TensorKind::v, s.kv_heads * d, s.hidden, Cut::rows);
  unit.add(TensorKind::o, s.hidden, s.heads * d, Cut::columns);
  unit.add(TensorKind::mlp_norm, 1, s.hidden, Cut::none);
  unit.add(TensorKind::gate, s.ffn, s.hidden, Cut::rows);
  unit.add(TensorKind::up, s.ffn, s.hidden, Cut::rows);
  unit.add(TensorKind::down, s.hidden, s.ffn, Cut::columns);
}

}  // namespace

const TensorSlot& Unit::slot(TensorKind tensor) const {
  for (const TensorSlot& candidate : slots)
    if (candidate.kind == tensor) return candidate;
  fail(ErrorClass::internal, "a unit has no such tensor");
}

std::vector<Unit> units_of(const ModelShape& shape, const Layout& layout,
                           const Coordinates& at) {
  const i64 shards = layout.zero > 0 ? layout.shard_ranks() : 1;
  const i64 vocab = padded_vocab(shape.vocab, layout);
  std::vector<Unit> units;
  const i64 last_chunk = layout.vpp - 1;
  const auto add_embedding = [&](UnitKind kind) {
    UnitBuilder unit(layout, at, kind, -1, kind == UnitKind::embedding ? 0 : last_chunk);
    unit.add(TensorKind::embedding, vocab, shape.hidden, Cut::rows);
    units.push_back(unit.finish(shards));
  };
  if (at.pp == 0) add_embedding(UnitKind::embedding);
  for (i64 chunk = 0; chunk <= last_chunk; ++chunk) {
    const LayerRange range = stage_layers(layout, shape.layers, chunk * layout.pp + at.pp);
    for (i64 layer = range.first; layer < range.first + range.count; ++layer) {
      UnitBuilder unit(layout, at, UnitKind::layer, layer, chunk);
      add_layer(unit, shape);
      units.push_back(unit.finish(shards));
    }
  }
  if (at.pp == layout.pp - 1) {
    UnitBuilder unit(layout, at, UnitKind::head, -1, last_chunk);
    unit.add(TensorKind::final_norm, 1, shape.hidden, Cut::none);
    if (!shape.tied) unit.add(TensorKind::head, vocab, shape.hidden, Cut::rows);
    units.push_back(unit.finish(shards));
    if (shape.tied && layout.pp > 1) add_embedding(UnitKind::tied_head);
  }
  i64 offset = 0;
  for (Unit& unit : units) {
    unit.offset = offset;
    offset += unit.padded;
  }
  return units;
}

i64 flat_elements(const std::vector<Unit>& units) {
  return units.empty() ? 0 : units.back().offset + units.back().padded;
}

}  // namespace shardbench
