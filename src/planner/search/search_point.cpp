// SPDX-License-Identifier: Apache-2.0
#include "search/search_point.hpp"

#include <shardsweep/axis_table.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

namespace shardsweep {
namespace {

/// Axes along which it is known how memory grows: needs_as_much() compares them itself. The
/// model is compared as a shape, and the world follows from the degrees.
constexpr std::array<std::string_view, 8> understood{
    "model", "nodes", "gpus", "dp", "micro_batch", "grad_accum", "zero", "recompute"};
static_assert(names_axes(understood));

/// All other axes have to be equal, as they switch mechanisms or move memory between stages and
/// ranks. Unrolled: each pair of a cell's points is asked.
template <std::size_t... Row>
bool same_in_the_rest(const Point& a, const Point& b, std::index_sequence<Row...>) {
  constexpr auto is_understood = [](std::string_view name) {
    return std::find(understood.begin(), understood.end(), name) != understood.end();
  };
  return (
      (is_understood(axis_table[Row].name) || axis_table[Row].get(a) == axis_table[Row].get(b)) &&
      ...);
}

bool same_mechanisms(const SearchPoint& a, const SearchPoint& b) {
  const auto of_program = [](const SearchPoint& at) {
    return std::tie(at.software, at.traits.flash_attention, at.traits.fused_norm,
        at.traits.recompute_layers, at.traits.recompute_by_block, at.point.vars);
  };
  return same_in_the_rest(a.point, b.point, std::make_index_sequence<axis_table.size()>()) &&
      of_program(a) == of_program(b);
}

/// Samples of which a first stage keeps activations.
std::int64_t in_flight(const Layout& layout) {
  const auto batches = layout.schedule == Schedule::afab ? layout.grad_accum
                                                         : std::min(layout.grad_accum, layout.pp);
  return std::int64_t{batches} * layout.micro_batch;
}

/// More micro-batches than stages: memory is taken and given back all along, and what the
/// allocator can't give again adds up.
bool is_steady(const Layout& layout) {
  return layout.grad_accum > layout.pp;
}

/// True if `other` recomputes all that `mine` recomputes.
bool recomputes_no_more(Recompute mine, Recompute other) {
  if (mine == other || mine == Recompute::none || other == Recompute::full) return true;
  const auto few = recomputed_modules(mine);
  const auto many = recomputed_modules(other);
  return few.any() && few.is_part_of(many);
}

/// True if a rank of `mine` may hold less of the state than one of `other`.
bool shards_more(const Layout& mine, const Layout& other) {
  return mine.zero != 0 && (mine.zero != other.zero || mine.dp > other.dp);
}

/// True if `mine` may lack what data parallel ranks need for each other: gradient buckets, and
/// buffers of NCCL that grow with their number.
bool replicates_less(const Layout& mine, const Layout& other) {
  return mine.zero == 0 ? mine.dp < other.dp : mine.dp == 1 && other.dp > 1;
}

}  // namespace

bool needs_as_much(const SearchPoint& b, const SearchPoint& a) {
  if (a.unknown.any() || b.unknown.any()) return false;
  if (!(a.model == b.model) || !same_mechanisms(a, b)) return false;
  const auto& mine = b.point.layout;
  const auto& other = a.point.layout;
  if (is_steady(other) && !is_steady(mine)) return false;
  return !shards_more(mine, other) && !replicates_less(mine, other) &&
      recomputes_no_more(mine.recompute, other.recompute) &&
      mine.micro_batch >= other.micro_batch && in_flight(mine) >= in_flight(other);
}

}  // namespace shardsweep
