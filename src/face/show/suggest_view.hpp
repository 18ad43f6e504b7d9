// SPDX-License-Identifier: Apache-2.0
// A suggestion in the three forms. CSV: one line per layout.
#pragma once

#include "plan/suggest.hpp"
#include "show/table_view.hpp"

#include <string>
#include <string_view>

namespace shardsweep {

[[nodiscard]] std::string suggestion_text(const SuggestRequest& request,
                                          const Suggestion& suggestion,
                                          const TableStyle& style);

/// A sweep file over the suggested layouts and their neighbours: each degree also halved and
/// doubled. `model` and `cluster` are the words by which they were asked for.
[[nodiscard]] std::string suggested_sweep(const SuggestRequest& request,
                                          const Suggestion& suggestion, std::string_view model,
                                          std::string_view cluster);

}  // namespace shardsweep
