// SPDX-License-Identifier: Apache-2.0
// How the process of a rank differs where it runs in a container. Pure.
#pragma once

#include "agent/environment.hpp"
#include "agent/spawn.hpp"
#include "attempt/container.hpp"

#include <shardsweep/protocol.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::agent {

/// `own`: the agent's environment, which names job and node.
[[nodiscard]] ContainerPlace place_of_container(
    const Environment& own, const std::string& token, bool has_gpus);

/// The number of a rank, in its container.
inline constexpr std::string_view rank_variable = "SHARDSWEEP_RANK";

/// Where the ranks meet, and which one this is.
struct RankMeeting {
  int rank = 0;
  std::string meet;  ///< host:port of rank 0
};

/// What was to run on the host is to run inside; nothing is changed without a container. The
/// runtime itself starts in `attempt_dir`, where the first rank's environment is written as it
/// is inside. Returns the rank as it runs inside.
RankStart enter_container(RankProcess& process, const AttemptSpec& spec, const RankMeeting& meeting,
    const ContainerPlace& place, const std::string& attempt_dir);

}  // namespace shardsweep::agent
