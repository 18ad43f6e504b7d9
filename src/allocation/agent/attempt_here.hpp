// SPDX-License-Identifier: Apache-2.0
// What is given when a node agent launches an attempt, and does not change while it lives:
// whoever works for the attempt (its ranks, records, programs, storage) refers to one of these.
#pragma once

#include "agent/log.hpp"
#include "agent/reap.hpp"
#include "attempt/findings.hpp"
#include "attempt/node_machine.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace shardsweep::agent {

struct AttemptHere {
  NodeIdentity node;
  const Clock& clock;
  const Log& log;
  AttemptSpec spec;
  AttemptPaths paths;

  [[nodiscard]] bool has_rank_zero() const { return node.index == 0; }
  [[nodiscard]] double now_s() const { return seconds_of(clock); }
  [[nodiscard]] Moment now() const { return {now_s(), clock.now()}; }
  /// Nodes on which its ranks are.
  [[nodiscard]] int nodes() const {
    return (spec.world + spec.ranks_per_node - 1) / spec.ranks_per_node;
  }
  /// Output file of a rank; -1: of the srun that starts all ranks.
  [[nodiscard]] std::filesystem::path log_of(int rank) const {
    return rank < 0 ? paths.dir / "step.out" : paths.rank_log(rank);
  }
};

}  // namespace shardsweep::agent
