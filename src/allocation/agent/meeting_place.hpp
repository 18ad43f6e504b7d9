// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a trainer meet: PyTorch's MASTER_ADDR and MASTER_PORT.
#pragma once

#include <shardsweep/protocol.hpp>
#include <shardsweep/result.hpp>

#include <string>

namespace shardsweep::agent {

/// "host:port" of this host, where rank 0 runs, with a port that was free a moment ago. Ranks
/// that are all on one host need no name of it. Empty for a runner, whose ranks need none.
[[nodiscard]] Result<std::string> meeting_place_of(const AttemptSpec& spec);

}  // namespace shardsweep::agent
