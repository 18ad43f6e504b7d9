// SPDX-License-Identifier: Apache-2.0
// Is this node fit for the next attempt? What earlier ones have left is ended first.
#pragma once

#include "agent/log.hpp"

#include <shardsweep/protocol.hpp>

#include <string>
#include <vector>

namespace shardsweep::agent {

struct NodeCheck {
  std::vector<std::string> ended;  ///< what was left and is gone: command lines
  std::vector<std::string> stuck;  ///< what can't be ended: the node is not to be used
};

/// Takes as long as what is left needs to leave, at most 3 s.
[[nodiscard]] NodeCheck check_node(const std::string& token, const std::string& node,
                                   const Log& log);

}  // namespace shardsweep::agent
