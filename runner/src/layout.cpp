// SPDX-License-Identifier: Apache-2.0
// Arithmetic of ranks and stages.
#include "layout.hpp"

#include <algorithm>

namespace shardbench {
namespace {

i64 extent(const Layout& layout, Axis axis) {
  if (axis == Axis::dp) return layout.data_ranks();
  return axis == Axis::tp ? layout.tp : layout.pp;
}

i64 coordinate(const Layout& layout, const Coordinates& at, Axis axis) {
  if (axis == Axis::dp) return data_index(layout, at);
  return axis == Axis::tp ? at.tp : at.pp;
}

void put_coordinate(const Layout& layout, Coordinates& at, Axis axis, i64 value) {
  if (axis == Axis::dp) {
    at.dp = value / layout.cp;
    at.cp = value % layout.cp;
  } else {
    (axis == Axis::tp ? at.tp : at.pp) = value;
  }
}

}  // namespace

std::string_view recompute_name(Recompute recompute) {
  if (recompute == Recompute::none) return "none";
  return recompute == Recompute::selective ? "selective" : "full";
}

std::string_view selective_name(Selective selective) {
  return selective == Selective::attention ? "attention" : "norms and activated rows";
}

std::string_view context_mode_name(ContextMode mode) {
  return mode == ContextMode::ulysses ? "ulysses" : "ring";
}

std::string_view moe_routing_name(MoeRouting routing) {
  if (routing == MoeRouting::learned) return "learned";
  return routing == MoeRouting::balanced ? "balanced" : "skewed";
}

std::string_view schedule_name(ScheduleKind schedule) {
  if (schedule == ScheduleKind::zb_h1) return "zb-h1";
  if (schedule == ScheduleKind::zb_v) return "zb-v";
  return schedule == ScheduleKind::afab ? "afab" : "1f1b";
}

std::string rank_order_name(const std::array<Axis, 3>& order) {
  std::string name;
  for (const Axis axis : order) {
    if (!name.empty()) name += '-';
    name += axis == Axis::tp ? "tp" : axis == Axis::dp ? "dp" : "pp";
  }
  return name;
}

i64 data_index(const Layout& layout, const Coordinates& at) {
  return at.dp * layout.cp + at.cp;
}

Coordinates coordinates_of(const Layout& layout, i64 rank) {
  Coordinates at;
  for (const Axis axis : layout.rank_order) {
    put_coordinate(layout, at, axis, rank % extent(layout, axis));
    rank /= extent(layout, axis);
  }
  return at;
}

i64 rank_of(const Layout& layout, const Coordinates& at) {
  i64 rank = 0;
  i64 stride = 1;
  for (const Axis axis : layout.rank_order) {
    rank += coordinate(layout, at, axis) * stride;
    stride *= extent(layout, axis);
  }
  return rank;
}

std::vector<i64> group_along(const Layout& layout, const Coordinates& self, Axis axis) {
  std::vector<i64> ranks;
  for (i64 i = 0; i < extent(layout, axis); ++i) {
    Coordinates at = self;
    put_coordinate(layout, at, axis, i);
    ranks.push_back(rank_of(layout, at));
  }
  return ranks;
}

LayerRange stage_layers(const Layout& layout, i64 layers, i64 stage) {
  if (!layout.stages.empty()) {
    i64 first = 0;
    for (i64 i = 0; i < stage; ++i)
      first += layout.stages[static_cast<std::size_t>(i)];
    return {first, layout.stages[static_cast<std::size_t>(stage)]};
  }
  // The first stages carry one layer more.
  const i64 all = layout.pp * layout.vpp;
  const i64 base = layers / all;
  const i64 longer = layers % all;
  return {stage * base + std::min(stage, longer), base + (stage < longer ? 1 : 0)};
}

}  // namespace shardbench
