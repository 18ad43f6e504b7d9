// SPDX-License-Identifier: Apache-2.0
// A suggestion as a sweep file, which `plan` and `run` accept.
#pragma once

#include "plan/suggest.hpp"

#include <string>
#include <string_view>

namespace shardsweep {

/// A sweep file over the suggested layouts and their neighbours: each degree also halved and
/// doubled, each lock as it is; for other people's trainers with how they are started, as `new
/// --trainer` has it. `model` and `cluster` are presets; empty: the request's own are
/// written out. `suggestion` has a layout.
[[nodiscard]] std::string suggested_sweep(const SuggestRequest& request,
    const Suggestion& suggestion, std::string_view model, std::string_view cluster);

}  // namespace shardsweep
