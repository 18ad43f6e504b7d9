// SPDX-License-Identifier: Apache-2.0
// What somebody asks who has seen a suggestion: why not this layout, how many GPUs, and what
// each split of the model into tp x pp would give. Each is the planner's own judgement
// (judge_layouts) of the request with something changed.
#pragma once

#include "plan/suggest.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct WhyNot {
  /// The fastest layout with the asked values that fits, or may fit. If there is none, `why` says
  /// whether a rule or memory excludes them.
  std::optional<SuggestedLayout> layout;
  bool fits = false;       ///< surely
  std::int64_t place = 0;  ///< rank among `of` layouts that fit, the fastest first; 0: it does not
                           ///< fit
  std::int64_t of = 0;
  std::string why;  ///< a sentence
};

/// Explains a layout, or a part of one, of which the rest is chosen as well as can be. Locks of the
/// request hold beside it, but for the axes that `layout` names. Faults as suggest().
[[nodiscard]] Result<WhyNot> why_not(
    const SuggestRequest& request, const std::vector<AxisValues>& layout);

/// Cost of the request's locks: "39.6 % slower than dp64 …, the fastest without locks." Faults
/// as suggest().
[[nodiscard]] Result<std::string> cost_of_locks(const SuggestRequest& request);

struct GpuCount {
  std::int32_t gpus = 0;
  std::optional<SuggestedLayout> best;
  double efficiency = 0;         ///< ratio to the best tokens/s per GPU in the list; 0: unknown
  double gpu_hours_per_1e9 = 0;  ///< tokens; 0: unknown
  std::string why;               ///< why nothing fits
};

/// Powers of two within a node and of nodes, up to four times the request's GPUs and at least
/// 512, and the request's own number; ascending.
[[nodiscard]] std::vector<std::int32_t> gpu_counts_worth_a_look(const SuggestRequest& request);

/// The best layout of each number of GPUs. A count that is no whole number of nodes has `why`.
/// Faults as suggest().
[[nodiscard]] Result<std::vector<GpuCount>> over_gpu_counts(
    const SuggestRequest& request, const std::vector<std::int32_t>& counts);

/// The first of those counts on which a layout fits; none: on none of them. Faults as
/// suggest().
[[nodiscard]] Result<std::optional<std::int32_t>> least_gpus(const SuggestRequest& request);

struct BatchVerdict {
  std::int64_t tokens_per_gpu = 0;  ///< tokens of a train step
  double gain = 0;       ///< gain in speed by four times as many tokens; 0: unknown, or no layout
                         ///< fits
  bool too_few = false;  ///< more tokens would gain enough
  std::string text;      ///< a sentence
};

/// Judges if the request's batch keeps its GPUs busy: compares it with four times as many tokens.
/// Faults as suggest().
[[nodiscard]] Result<BatchVerdict> judge_batch(const SuggestRequest& request);
/// Judges a batch whose fitting layouts are known, fastest first.
[[nodiscard]] Result<BatchVerdict> judge_batch(
    const SuggestRequest& request, std::span<const SuggestedLayout> now);

/// The best layout with one value of each of two axes.
struct PairCell {
  std::int64_t across = 0;
  std::int64_t down = 0;
  std::optional<SuggestedLayout> best;
  std::string why;  ///< no layout with these values fits
};

/// Axes of a heatmap.
struct AxisPair {
  std::string_view across;
  std::string_view down;
};
inline constexpr AxisPair tp_by_pp{"tp", "pp"};
inline constexpr AxisPair micro_batch_by_zero{"micro_batch", "zero"};

/// Rows of one value down after the other. Degrees are powers of two that the layers and the
/// GPUs allow, tp up to twice a node. Locks of the two axes do not hold here. Faults as
/// suggest().
[[nodiscard]] Result<std::vector<PairCell>> over_pairs(
    const SuggestRequest& request, const AxisPair& pair);

}  // namespace shardsweep
