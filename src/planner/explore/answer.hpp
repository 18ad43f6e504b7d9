// SPDX-License-Identifier: Apache-2.0
// Judgements of the planner as JSON: numbers, and beside them the texts that a page shows.
#pragma once

#include "plan/advice.hpp"
#include "plan/suggest.hpp"

#include <nlohmann/json.hpp>

namespace shardsweep {

[[nodiscard]] nlohmann::ordered_json json_of_card(
    const SuggestRequest& request, const Suggestion& suggestion);
[[nodiscard]] nlohmann::ordered_json json_of_gpus(
    const SuggestRequest& request, const std::vector<GpuCount>& counts);
[[nodiscard]] nlohmann::ordered_json json_of_pairs(
    const SuggestRequest& request, const AxisPair& pair, const std::vector<PairCell>& cells);
[[nodiscard]] nlohmann::ordered_json json_of_why_not(
    const SuggestRequest& request, const WhyNot& answer);
/// A layout with its memory and its step in parts.
[[nodiscard]] nlohmann::ordered_json json_of_layout(
    const SuggestRequest& request, const SuggestedLayout& layout);
/// Values for controls: axes, families, dtypes, keys of models, trainers.
[[nodiscard]] nlohmann::ordered_json json_of_vocabulary();

}  // namespace shardsweep
