// SPDX-License-Identifier: Apache-2.0
// Layouts that a trainer is sure to refuse, since it has refused two with the same words.
#pragma once

#include "fleet/world.hpp"

#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

/// Planned trials that need no start to be refused, and why.
[[nodiscard]] std::vector<std::pair<TrialId, std::string>> refused_alike(const World& world);

}  // namespace shardsweep
