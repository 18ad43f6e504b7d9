// SPDX-License-Identifier: Apache-2.0
// Where the nodes of a job are in the network, as scontrol tells it once: for ranks that Slurm
// itself starts, on nodes without an agent of ours. Nothing here waits.
#pragma once

#include "agent/environment.hpp"
#include "agent/log.hpp"
#include "agent/spawn.hpp"

#include <shardsweep/clock.hpp>

#include <map>
#include <optional>
#include <string>

namespace shardsweep::agent {

class TopologyReport {
 public:
  /// `wanted`: else it is not asked.
  TopologyReport(Environment own, bool wanted);

  /// One look: starts scontrol, takes what it has said, or gives it up. The answer, once.
  [[nodiscard]] std::optional<std::map<std::string, std::string>> step(const Clock& clock,
                                                                       const Log& log);
  /// The first attempt waits for it, but not for long.
  [[nodiscard]] bool is_due() const { return wanted_; }

 private:
  void ask(double now_s, const Log& log);

  Environment environment_;
  bool wanted_;
  std::optional<PipedChild> scontrol_;
  std::string said_;
  double asked_s_ = 0;
};

}  // namespace shardsweep::agent
