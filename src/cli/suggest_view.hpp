// SPDX-License-Identifier: Apache-2.0
// A suggestion in the three forms. CSV: one line per layout.
#pragma once

#include "cli/format.hpp"
#include "domain/suggest.hpp"

#include <string>

namespace shardsweep {

[[nodiscard]] std::string suggestion_text(const SuggestRequest& request,
                                          const Suggestion& suggestion, Format format);

}  // namespace shardsweep
