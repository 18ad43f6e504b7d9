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
#include <vector>

namespace shardsweep {

struct WhyNot {
  /// The fastest layout with the asked values that fits, or may fit; none: why says which rule
  /// it breaks.
  std::optional<SuggestedLayout> layout;
  bool fits = false;       ///< surely
  std::int64_t place = 0;  ///< of `of` layouts that fit, the fastest first; 0: it does not
  std::int64_t of = 0;
  std::string why;  ///< a sentence
};

/// About a layout, or a part of one, of which the rest is chosen as well as can be. Locks of
/// the request hold beside it, but for the axes that `layout` names. Faults as suggest().
[[nodiscard]] Result<WhyNot> why_not(const SuggestRequest& request,
                                     const std::vector<AxisValues>& layout);

struct GpuCount {
  std::int32_t gpus = 0;
  std::optional<SuggestedLayout> best;
  double efficiency = 0;         ///< of the best tokens/s per GPU in the list; 0: unknown
  double gpu_hours_per_1e9 = 0;  ///< tokens; 0: unknown
  std::string why;               ///< nothing fits
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

struct SplitCell {
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::optional<SuggestedLayout> best;
  std::string why;  ///< no layout with these degrees fits
};

/// tp x pp, each a power of two that the model's heads and layers and the GPUs allow (tp up to
/// twice a node), rows of one pp after the other. Locks of tp and pp do not hold here. Faults
/// as suggest().
[[nodiscard]] Result<std::vector<SplitCell>> over_splits(const SuggestRequest& request);

}  // namespace shardsweep
