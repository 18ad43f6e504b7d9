// SPDX-License-Identifier: Apache-2.0
#include "search/memory_order.hpp"

#include <algorithm>
#include <tuple>

namespace shardsweep {
namespace {

/// What has to be equal, as it switches mechanisms or moves memory between stages and ranks.
auto mechanisms(const SearchPoint& at) {
  const auto& layout = at.point.layout;
  return std::tie(at.software, at.traits.flash_attention, at.traits.fused_norm,
                  at.traits.recompute_layers, at.traits.recompute_by_block, at.point.vars,
                  at.point.dtype, at.point.seq_len, layout.tp, layout.pp, layout.cp,
                  layout.cp_mode, layout.ep, layout.vpp, layout.dp_replicate,
                  layout.sequence_parallel, layout.schedule, layout.rank_order,
                  layout.bucket_mb, layout.overlap);
}

/// Samples of which a first stage keeps activations.
std::int64_t in_flight(const Layout& layout) {
  const auto batches = layout.schedule == Schedule::afab
                           ? layout.grad_accum
                           : std::min(layout.grad_accum, layout.pp);
  return std::int64_t{batches} * layout.micro_batch;
}

/// More micro-batches than stages: memory is taken and given back all along, and what the
/// allocator can't give again adds up.
bool is_steady(const Layout& layout) {
  return layout.grad_accum > layout.pp;
}

/// Whether a rank of `mine` may hold less of the state than one of `other`.
bool shards_more(const Layout& mine, const Layout& other) {
  return mine.zero != 0 && (mine.zero != other.zero || mine.dp > other.dp);
}

/// Whether it may lack what data parallel ranks need for each other: gradient buckets, and
/// buffers of NCCL that grow with their number.
bool replicates_less(const Layout& mine, const Layout& other) {
  return mine.zero == 0 ? mine.dp < other.dp : mine.dp == 1 && other.dp > 1;
}

}  // namespace

bool needs_as_much(const SearchPoint& b, const SearchPoint& a) {
  if (a.unknown.any() || b.unknown.any()) return false;
  if (!(a.model == b.model) || mechanisms(a) != mechanisms(b)) return false;
  const auto& mine = b.point.layout;
  const auto& other = a.point.layout;
  if (is_steady(other) && !is_steady(mine)) return false;
  return !shards_more(mine, other) && !replicates_less(mine, other) &&
         mine.recompute <= other.recompute && mine.micro_batch >= other.micro_batch &&
         in_flight(mine) >= in_flight(other);
}

}  // namespace shardsweep
