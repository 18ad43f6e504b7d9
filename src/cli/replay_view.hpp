// SPDX-License-Identifier: Apache-2.0
// A replay's score as text.
#pragma once

#include "cli/format.hpp"
#include "domain/search/replay.hpp"

#include <string>

namespace shardsweep {

/// table: a line per cell and one for all of them; csv: the cells; json: an object with `cells`
/// and `total`.
[[nodiscard]] std::string replay_text(const ReplayReport& report, Format format);

/// The shares and medians that policies are judged by, in a few lines.
[[nodiscard]] std::string replay_summary(const ReplayReport& report);

}  // namespace shardsweep
