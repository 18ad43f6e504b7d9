// SPDX-License-Identifier: Apache-2.0
// A suggestion in the three forms. CSV: one line per layout.
#pragma once

#include "plan/advice.hpp"
#include "plan/suggest.hpp"
#include "show/table_view.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace shardsweep {

struct SuggestionView {
  std::optional<std::int32_t> least_gpus;  ///< fewest GPUs that suffice; none: no number tried
  std::string batch{};                     ///< sentence on how busy it keeps GPUs; empty: not asked
  bool explain = false;                    ///< the three steps and the rules of thumb too
};

[[nodiscard]] std::string suggestion_text(const SuggestRequest& request,
    const Suggestion& suggestion, const SuggestionView& view, const TableStyle& style);

/// The answer, the layout that it is about, and its place. CSV and JSON: that layout's row.
[[nodiscard]] std::string why_not_text(
    const SuggestRequest& request, const WhyNot& answer, const TableStyle& style);

}  // namespace shardsweep
