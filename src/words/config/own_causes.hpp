// SPDX-License-Identifier: Apache-2.0
// `classify` of a sweep or site file: causes of the user's own.
#pragma once

#include "yaml/mistakes.hpp"

#include <shardsweep/cause.hpp>

#include <vector>

namespace shardsweep::config {

/// Causes without a mistake. A sample that its cause does not judge is a mistake.
[[nodiscard]] std::vector<Cause> read_own_causes(const YamlNode& list, Mistakes& mistakes);

/// An entry of `classify` in one line, as read_own_causes() reads it back.
[[nodiscard]] std::string cause_text(const Cause& cause);

}  // namespace shardsweep::config
