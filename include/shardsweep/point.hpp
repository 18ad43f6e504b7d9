// SPDX-License-Identifier: Apache-2.0
// Layout and point, and what a row of the one table of axes (axis_table.hpp) says: what the
// loader reads, the planner varies, the database stores, `--where` understands and a heatmap
// can pivot on.
#pragma once

#include <shardsweep/model.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// After these three, sets of modules whose inside is computed again (module_sets).
enum class Recompute : std::uint8_t { none, selective, full };
inline constexpr std::array<std::string_view, 13> recompute_words{"none", "selective", "full",
    "layernorm", "mlp", "moe", "moe_act", "mla_up_proj", "layernorm+mlp", "layernorm+moe_act",
    "mla_up_proj+layernorm", "mla_up_proj+mlp", "mla_up_proj+layernorm+moe_act"};

/// Parts that a layer may drop and compute again, in Megatron-LM's division.
enum class Module : std::uint8_t {
  layernorm = 1U << 0,
  mlp = 1U << 1,          ///< feed-forward part of a dense layer
  moe = 1U << 2,          ///< experts, with their router and exchange
  moe_act = 1U << 3,      ///< values between an expert's two products
  mla_up_proj = 1U << 4,  ///< heads from latents
};
inline constexpr std::array<std::string_view, 5> module_words{
    "layernorm", "mlp", "moe", "moe_act", "mla_up_proj"};

/// The modules that a word of `recompute` names; none for the first three.
class Modules {
 public:
  constexpr Modules() = default;
  constexpr explicit Modules(std::string_view words) {
    for (std::size_t at = 0; at <= words.size();) {
      const auto end = std::min(words.find('+', at), words.size());
      for (std::size_t i = 0; i < module_words.size(); ++i)
        if (words.substr(at, end - at) == module_words[i]) bits_ |= 1U << i;
      at = end + 1;
    }
  }
  [[nodiscard]] constexpr bool has(Module module) const {
    return (bits_ & static_cast<std::uint32_t>(module)) != 0;
  }
  [[nodiscard]] constexpr bool any() const { return bits_ != 0; }
  [[nodiscard]] constexpr bool is_part_of(Modules others) const {
    return (bits_ & ~others.bits_) == 0;
  }

 private:
  std::uint32_t bits_ = 0;
};
/// Sets by word of `recompute`, made once: predictions ask a million times a second.
inline constexpr auto module_sets = [] {
  std::array<Modules, recompute_words.size()> sets{};
  for (std::size_t i = 0; i < sets.size(); ++i)
    sets[i] = Modules(recompute_words[i]);
  return sets;
}();
[[nodiscard]] constexpr Modules recomputed_modules(Recompute recompute) {
  return module_sets[static_cast<std::size_t>(recompute)];
}

enum class Schedule : std::uint8_t { one_f_one_b, afab, zb_h1, zb_v };
inline constexpr std::array<std::string_view, 4> schedule_words{"1f1b", "afab", "zb-h1", "zb-v"};

/// Order of the parallel dimensions: ranks of the first one are neighbours. cp stands directly
/// before dp if it is not named.
enum class RankOrder : std::uint8_t { tp_dp_pp, tp_pp_dp, dp_tp_pp, tp_cp_pp_dp, tp_dp_cp_pp };
inline constexpr std::array<std::string_view, 5> rank_order_words{
    "tp-dp-pp", "tp-pp-dp", "dp-tp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp"};
constexpr bool names_cp(RankOrder order) {
  return order >= RankOrder::tp_cp_pp_dp;
}

/// How the ranks that share a sequence share attention: keys and values go round, or heads are
/// exchanged for tokens.
enum class ContextMode : std::uint8_t { ring, ulysses };
inline constexpr std::array<std::string_view, 2> context_mode_words{"ring", "ulysses"};

/// State that lies in the host's memory between its uses: the optimizer's, or weights and gradients
/// too.
enum class Offload : std::uint8_t { none, optimizer, all };
inline constexpr std::array<std::string_view, 3> offload_words{"none", "optimizer", "all"};

/// Layers that the first and last stage of a pipeline leave to those between them.
struct MiddleStages {
  std::int64_t layers, stages;
  /// `first`, `last`: layers that they are told; 0: they are as the others, and counted so.
  constexpr MiddleStages(
      std::int64_t of_model, std::int64_t pp, std::int64_t first, std::int64_t last)
      : layers(of_model - first - last), stages(pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0)) {}
};

/// How one training job is spread over its world of dp*tp*pp*cp ranks.
struct Layout {
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::int32_t cp = 1;  ///< ranks that share each sequence
  ContextMode cp_mode = ContextMode::ring;
  std::int32_t ep = 1;            ///< ranks that share the experts of each layer, of dp * cp
  std::int32_t vpp = 1;           ///< virtual pipeline stages per rank
  std::int32_t dp_replicate = 1;  ///< copies of what ZeRO shards
  std::int32_t micro_batch = 1;   ///< samples per micro-batch
  std::int32_t grad_accum = 1;    ///< micro-batches per train step and DP rank
  std::int32_t zero = 0;          ///< ZeRO stage 0-3
  Recompute recompute = Recompute::none;
  bool sequence_parallel = false;
  Schedule schedule = Schedule::one_f_one_b;
  RankOrder rank_order = RankOrder::tp_dp_pp;
  std::int32_t bucket_mb = 25;          ///< MiB of gradients per DP all-reduce
  bool overlap = true;                  ///< DP communication overlaps backward
  std::int32_t expert_tp = 0;           ///< ranks that split each expert; 0: those of tp
  std::int32_t first_stage_layers = 0;  ///< layers of the pipeline's first stage; 0: as the others
  std::int32_t last_stage_layers = 0;   ///< layers of its last stage; 0: as the others
  bool cuda_graphs = false;             ///< a layer's kernels are launched as one graph
  Offload offload = Offload::none;

  [[nodiscard]] std::int64_t world() const { return std::int64_t{dp} * tp * pp * cp; }
  /// Samples per train step over all DP ranks.
  [[nodiscard]] std::int64_t global_batch() const {
    return std::int64_t{dp} * micro_batch * grad_accum;
  }
  /// Ranks with the same weights.
  [[nodiscard]] std::int32_t data_ranks() const { return whole_ranks(std::int64_t{dp} * cp); }
  /// Ranks that split each expert. Tables of other trainers may spread experts over the ranks of tp
  /// too.
  [[nodiscard]] std::int32_t expert_shards() const {
    if (expert_tp > 0) return expert_tp;
    if (ep <= data_ranks()) return tp;
    const auto split = std::int64_t{tp} * data_ranks() / ep;
    return split > 1 ? static_cast<std::int32_t>(split) : 1;
  }
  /// Ranks with the same experts: a stage's ranks divided by those over which experts are spread.
  [[nodiscard]] std::int32_t expert_replicas() const {
    const auto spread = std::int64_t{ep} * expert_shards();
    const auto replicas = std::int64_t{tp} * data_ranks() / spread;
    return replicas > 1 ? whole_ranks(replicas) : 1;
  }
  [[nodiscard]] bool has_uneven_stages() const {
    return first_stage_layers > 0 || last_stage_layers > 0;
  }
  /// Ranks that share one copy of what ZeRO shards.
  [[nodiscard]] std::int32_t shard_ranks() const { return data_ranks() / dp_replicate; }
  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  /// Degrees may be as large as an axis has them, and their product as no world is.
  static std::int32_t whole_ranks(std::int64_t ranks) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(std::min(ranks, most));
  }
};

/// One coordinate of a grid.
struct Point {
  std::int32_t model = 0;  ///< index into SweepSpec::models
  std::int32_t nodes = 1;  ///< 0 if `gpus` gives a world smaller than a node
  std::int32_t gpus = 1;   ///< the world's size
  std::int32_t seq_len = 0;
  Dtype dtype = Dtype::bf16;
  Layout layout;
  std::int32_t repeat = 1;           ///< 1 .. measure.repeats
  std::vector<std::int32_t> vars{};  ///< index into SweepSpec::vars[i].values, per var

  friend bool operator==(const Point&, const Point&) = default;
};

enum class AxisKind : std::uint8_t {
  integer,
  word,    ///< word: the value is its index in `words`
  toggle,  ///< false | true, also 0 | 1
  model,   ///< a model's name; the value is an index into SweepSpec::models
};

/// Uses of an axis beside reading, storing and printing its values. Some hold for every layout axis
/// and need no flag. It is in the layout's text, has a slice in a sweep's page, and must be equal
/// for two memory peaks to be compared.
enum class AxisUse : std::uint32_t {
  cell = 1U << 0,    ///< names the cell in which layouts compete: model, length, GPUs
  world = 1U << 1,   ///< gives the number of GPUs
  degree = 1U << 2,  ///< has a place in the short form of a layout's text
  spelt = 1U << 3,   ///< stands in a layout's text even at its default
  named = 1U << 4,   ///< stands in slugs and in a plan's table even at its default
  shown = 1U << 5,   ///< stands in `show` even at its default
  /// Switches a mechanism on or sets its degree. Sizes (micro_batch, bucket_mb) do not: one size
  /// tells the cost of the next.
  structural = 1U << 6,
  suggested = 1U << 7,  ///< chosen by `suggest`
  /// Runners older than the axis know no such flag: it is left out if it has its default.
  optional_flag = 1U << 8,
};
constexpr AxisUse operator|(AxisUse a, AxisUse b) {
  return static_cast<AxisUse>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// One thing that a sweep file may vary. To add one: a field above, a row in axis_table.hpp, a
/// column by a migration (src/README.md).
struct AxisInfo {
  std::string_view name;  ///< in the sweep file, database, CSV, flags
  AxisKind kind;
  std::span<const std::string_view> words;    ///< words of AxisKind::word
  std::span<const std::string_view> aliases;  ///< other trainers' names, understood on input
  std::int64_t minimum;
  std::int64_t maximum;
  std::int64_t default_value;
  bool allows_auto;  ///< `auto`: derived from the others
  bool in_lane_key;  ///< false for micro_batch and grad_accum, along which a lane ascends
  /// Place in a layout's text (sweep/layout_text.hpp), from 1; 0: it is of no layout.
  std::int32_t place;
  /// Prefix of its value in a layout's text and in slugs: the mb of mb4. Empty: the value's word
  /// names the axis already.
  std::string_view short_name;
  AxisUse uses;
  std::string_view meaning;
  std::int64_t (*get)(const Point&);
  void (*set)(Point&, std::int64_t);

  [[nodiscard]] constexpr bool is(AxisUse use) const {
    return (static_cast<std::uint32_t>(uses) & static_cast<std::uint32_t>(use)) != 0;
  }
  /// A field of Layout: what may differ between competitors of one cell, but for the dtype.
  [[nodiscard]] constexpr bool of_layout() const { return place > 0; }
};

/// All axes, in the order of columns. `repeat` and vars are not in it.
[[nodiscard]] std::span<const AxisInfo> axes();

/// Finds an axis by name or alias; nullptr: there is none.
[[nodiscard]] const AxisInfo* find_axis(std::string_view name_or_alias);

/// Another way to write a word, understood on input.
struct WordSynonym {
  std::string_view text;
  std::string_view word;
};
[[nodiscard]] std::span<const WordSynonym> word_synonyms(const AxisInfo& axis);

/// A value as it is printed and stored ("4", "selective", "true"); for AxisKind::model the
/// index.
[[nodiscard]] std::string axis_text(const AxisInfo& axis, std::int64_t value);

}  // namespace shardsweep
