// SPDX-License-Identifier: Apache-2.0
// Which marked processes of a node has nobody any more? Before an attempt starts, what earlier
// ones have left is ended: those of this allocation, and those of another one whose agents and
// Slurm step are gone. Pure.
#pragma once

#include <shardsweep/protocol.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The value of a marker: `<token>/<attempt>/<node>` of a rank and what it has started,
/// `<token>/agent[/<node>]` of guard and node agent.
struct Marker {
  std::string token;
  AttemptId attempt = 0;  ///< 0: an agent
  std::string node;
  friend bool operator==(const Marker&, const Marker&) = default;
};
[[nodiscard]] std::optional<Marker> parse_marker(std::string_view value);

struct MarkerSighting {
  std::string marker;
  bool in_step = false;  ///< true if a living slurmstepd is an ancestor
};

/// Positions in `seen`. `token`, `node` and `running` (0: none) are the caller's own; other
/// nodes of its allocation may be on the same host. `later`: a look that began when the first had
/// ended. One look may miss an agent that started beside it, and see the rank that the agent has
/// started since: process numbers begin again at their limit.
[[nodiscard]] std::vector<std::size_t> abandoned(const std::vector<MarkerSighting>& seen,
    const std::vector<MarkerSighting>& later, std::string_view token, std::string_view node,
    AttemptId running);

/// File in the folder of a database, which is two above an attempt's: the numbers of its own Slurm
/// jobs that have ended, one a line.
inline constexpr std::string_view ended_jobs_file = "ended_jobs";
/// `list`: what stands in that file.
[[nodiscard]] bool lists_job(std::string_view list, std::string_view job);

}  // namespace shardsweep
