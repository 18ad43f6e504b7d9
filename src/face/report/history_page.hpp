// SPDX-License-Identifier: Apache-2.0
// Series over time as a page and as a picture: small charts, the largest loss first.
#pragma once

#include "show/history.hpp"

#include <shardsweep/drawing.hpp>

#include <string>

namespace shardsweep {

/// One file in the report's form, without a network. `made` says when, and by which version.
[[nodiscard]] std::string history_page(const History& history, const std::string& made);

/// The same charts one below the other, of at most 24 series; the summary says how many more
/// there are.
[[nodiscard]] Drawing history_picture(const History& history);

}  // namespace shardsweep
