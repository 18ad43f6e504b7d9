// SPDX-License-Identifier: Apache-2.0
// Arithmetic of ranks and stages.
#include "parallel/layout.hpp"

#include <algorithm>

namespace shardbench {
namespace {

struct AxisFields {
  std::string_view name;
  i64 Layout::*degree;
  i64 Coordinates::*place;
};

const AxisFields& fields_of(Axis axis) {
  static constexpr std::array<AxisFields, 4> fields{
      {{"tp", &Layout::tp, &Coordinates::tp}, {"dp", &Layout::dp, &Coordinates::dp},
          {"pp", &Layout::pp, &Coordinates::pp}, {"cp", &Layout::cp, &Coordinates::cp}}};
  return fields[static_cast<std::size_t>(axis)];
}

i64 extent(const Layout& layout, Axis axis) {
  return layout.*fields_of(axis).degree;
}

i64& coordinate(Coordinates& at, Axis axis) {
  return at.*fields_of(axis).place;
}

std::string joined(const RankOrder& order, bool with_cp) {
  std::string name;
  for (const Axis axis : order) {
    if (axis == Axis::cp && !with_cp) continue;
    if (!name.empty()) name += '-';
    name += fields_of(axis).name;
  }
  return name;
}

}  // namespace

std::string_view recompute_name(Recompute recompute) {
  if (recompute == Recompute::none) return "none";
  return recompute == Recompute::selective ? "selective" : "full";
}

std::string_view selective_name(Selective selective) {
  return selective == Selective::attention ? "attention" : "norms and activated rows";
}

std::string_view expert_overlap_name(ExpertOverlap overlap) {
  constexpr std::array<std::string_view, 3> names{"none", "way back", "both ways"};
  return names[static_cast<std::size_t>(overlap)];
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

std::string rank_order_name(const RankOrder& order) {
  const auto* const cp = std::find(order.begin(), order.end(), Axis::cp);
  const bool before_dp = cp + 1 != order.end() && cp[1] == Axis::dp;
  return joined(order, !before_dp);
}

std::optional<RankOrder> rank_order_of(std::string_view name) {
  RankOrder order{Axis::tp, Axis::dp, Axis::pp, Axis::cp};
  do {
    if (rank_order_name(order) == name || joined(order, true) == name) return order;
  } while (std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

i64 data_index(const Layout& layout, const Coordinates& at) {
  return at.dp * layout.cp + at.cp;
}

Coordinates coordinates_of(const Layout& layout, i64 rank) {
  Coordinates at;
  for (const Axis axis : layout.rank_order) {
    coordinate(at, axis) = rank % extent(layout, axis);
    rank /= extent(layout, axis);
  }
  return at;
}

i64 rank_of(const Layout& layout, Coordinates at) {
  i64 rank = 0;
  i64 stride = 1;
  for (const Axis axis : layout.rank_order) {
    rank += coordinate(at, axis) * stride;
    stride *= extent(layout, axis);
  }
  return rank;
}

std::vector<i64> group_along(const Layout& layout, const Coordinates& self, Axis axis) {
  std::vector<i64> ranks;
  for (i64 i = 0; i < extent(layout, axis); ++i) {
    Coordinates at = self;
    coordinate(at, axis) = i;
    ranks.push_back(rank_of(layout, at));
  }
  return ranks;
}

std::vector<i64> data_group(const Layout& layout, const Coordinates& self) {
  std::vector<i64> ranks;
  for (i64 i = 0; i < layout.data_ranks(); ++i) {
    Coordinates at = self;
    at.dp = i / layout.cp;
    at.cp = i % layout.cp;
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
