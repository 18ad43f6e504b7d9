// SPDX-License-Identifier: Apache-2.0
// An attempt whose ranks have ended on every node, and what its lead makes of it: from what the
// nodes have said, what the lead held against it, whether a result is durable, and what the
// flight recorders say together. Who reads the files is agent/lead. Pure.
#pragma once

#include "attempt/classify.hpp"
#include "attempt/gpu_use.hpp"
#include "attempt/hang.hpp"

#include <shardsweep/protocol.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace shardsweep {

/// Reports of lead and nodes on one attempt.
struct EndedAttempt {
  Assign assign;
  AttemptSpec spec;
  std::optional<Evidence> own;             ///< evidence of the lead itself
  std::map<std::string, NodeEnded> nodes;  ///< reports by node name; nodes that did not report are
                                           ///< missing
  std::map<std::int32_t, std::string> names;
  bool is_step = false;     ///< the ranks are a Slurm step's: its one agent does not know their
                            ///< nodes
  bool time_is_up = false;  ///< the job's time is over
};

struct Settlement {
  Assign assign;
  Ending ending;
  bool node_failed = false;
  bool told_to_stop = false;
  bool packed = false;
  Pace pace{};  ///< pace of its GPUs, if node agents looked
};

/// Reads the flight recorders; empty: there are none, or reading failed.
using ReadRecorders = std::function<std::optional<RecorderReading>()>;

/// All but `packed`. `measured`: a result record with its nonce is durable. The recorders are
/// read only if ranks have waited for each other.
[[nodiscard]] Settlement judge_ended(
    const EndedAttempt& attempt, bool measured, const ReadRecorders& recorders);

}  // namespace shardsweep
