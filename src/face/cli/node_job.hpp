// SPDX-License-Identifier: Apache-2.0
// A short job of one node, for `doctor` and `init`.
#pragma once

#include "cli/session.hpp"

#include <string>

namespace shardsweep {

/// What the shell lines print on a node. Its log lies in the database's folder, so a node that
/// does not see the folder is a fault that says so.
[[nodiscard]] Result<std::string> run_on_a_node(const Session& session, const SiteSpec& site,
                                                const std::string& script);

}  // namespace shardsweep
