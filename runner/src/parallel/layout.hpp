// SPDX-License-Identifier: Apache-2.0
// A layout, where a rank stands in it, and the rules that make a layout one that runs.
#pragma once

#include "device/fp8.hpp"
#include "model/model_shape.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

enum class Recompute { none, selective, full };
enum class ScheduleKind { one_f_one_b, afab, zb_h1, zb_v };
/// Gradients to inputs and those of weights come apart.
constexpr bool halves_backward(ScheduleKind kind) {
  return kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_v;
}
enum class Axis { tp, dp, pp, cp };
/// Order of the axes: ranks of the first one are neighbours.
using RankOrder = std::array<Axis, 4>;

/// How the ranks of cp share attention (context_attention.hpp).
enum class ContextMode { ring, ulysses };

/// Chooser of a token's experts: the router, or the token's place in the sequence. Places give all
/// experts the same number of tokens, or a few of them half of all.
enum class MoeRouting { learned, balanced, skewed };

/// Parts that `recompute: selective` computes again.
enum class Selective { norms_and_product, attention };

/// Time at which experts' rows travel under the experts that all tokens have: never, as forward
/// takes rows back, or always.
enum class ExpertOverlap { none, way_back, both_ways };

/// Differences between trainers with the same layout (profile.hpp).
struct Habits {
  i64 vocab_multiple = 128;  // each tp rank's part of the vocabulary is padded to it
  Selective selective = Selective::norms_and_product;
  bool gather_overlap = true;  // ZeRO 1 and 2: updated weights travel under the next forward
  bool tp_overlap = true;      // a gradient's sum over tp travels under the weights' gradient
  ExpertOverlap expert_overlap = ExpertOverlap::both_ways;
  bool goes_first = true;  // an operation of tp or ep before the products that it travels under
  bool one_queue = false;  // CUDA_DEVICE_MAX_CONNECTIONS=1, unless it is set
};

struct Layout {
  i64 dp = 1;
  i64 tp = 1;
  i64 pp = 1;
  i64 cp = 1;
  ContextMode cp_mode = ContextMode::ring;
  i64 ep = 1;
  i64 vpp = 1;
  i64 dp_replicate = 1;
  i64 micro_batch = 1;
  i64 grad_accum = 1;
  i64 zero = 0;
  Recompute recompute = Recompute::none;
  bool sequence_parallel = false;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  RankOrder rank_order{Axis::tp, Axis::cp, Axis::dp, Axis::pp};
  bool overlap = true;
  i64 bucket_bytes = i64{25} << 20;
  Habits habits;
  Scaling fp8 = Scaling::none;  // scaling of the layers' matrix products
  MoeRouting moe_routing = MoeRouting::learned;
  double moe_capacity = 0;  // rows of an expert / what balance gives it; 0: all that come
  double moe_aux_loss = 0;  // coefficient of the loss for balance
  /// Layers of each stage of the model, pp · vpp of them; empty: as even as possible.
  std::vector<i64> stages = {};

  i64 world() const { return data_ranks() * tp * pp; }
  /// Ranks with the same weights: of dp, each of which is cp ranks that share samples.
  i64 data_ranks() const { return dp * cp; }
  i64 global_batch() const { return dp * micro_batch * grad_accum; }
  /// Ranks that share one copy of what ZeRO shards.
  i64 shard_ranks() const { return data_ranks() / dp_replicate; }
  /// A rank has no weights whole but for the units at work.
  bool shards_weights() const { return zero == 3; }
  /// Ranks with the same experts.
  i64 expert_replicas() const { return data_ranks() / ep; }
};

std::string_view recompute_name(Recompute recompute);
std::string_view selective_name(Selective selective);
std::string_view expert_overlap_name(ExpertOverlap overlap);
std::string_view context_mode_name(ContextMode mode);
std::string_view moe_routing_name(MoeRouting routing);
std::string_view schedule_name(ScheduleKind schedule);
/// "tp-dp-pp"; cp is named if it does not stand directly before dp: "tp-cp-pp-dp".
std::string rank_order_name(const RankOrder& order);
/// Reads that name, or all four axes; empty for another text.
std::optional<RankOrder> rank_order_of(std::string_view name);

/// Place of a rank on each axis.
struct Coordinates {
  i64 tp = 0;
  i64 dp = 0;
  i64 pp = 0;
  i64 cp = 0;
  bool operator==(const Coordinates&) const = default;
};

/// Index among the ranks with the same weights: those of cp follow each other, in any rank order.
i64 data_index(const Layout& layout, const Coordinates& at);
/// The ranks with the same weights as `self`, by their data_index.
std::vector<i64> data_group(const Layout& layout, const Coordinates& self);

Coordinates coordinates_of(const Layout& layout, i64 rank);
i64 rank_of(const Layout& layout, Coordinates at);
/// Ranks that differ from `self` on `axis` only, in the order of that axis.
std::vector<i64> group_along(const Layout& layout, const Coordinates& self, Axis axis);

/// Layers of stage `stage` of pp · vpp: [first, first + count).
struct LayerRange {
  i64 first = 0;
  i64 count = 0;
};
LayerRange stage_layers(const Layout& layout, i64 layers, i64 stage);

constexpr i64 round_up(i64 value, i64 multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
/// Rows of embedding and head: the vocabulary and what pads it, so that tp cuts it evenly.
constexpr i64 padded_vocab(i64 vocab, const Layout& layout) {
  return round_up(vocab, layout.habits.vocab_multiple * layout.tp);
}

}  // namespace shardbench
