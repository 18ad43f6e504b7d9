// SPDX-License-Identifier: Apache-2.0
// The processes of an attempt's ranks on this node: children of the node agent, in one process
// group. None is waited for before the attempt's end. A rank that has exited stays a zombie
// until then, so its pid, which is the group's number too, can't become a stranger's. If the
// node agent dies, its guard inherits and ends them.
#pragma once

#include "agent/spawn.hpp"
#include "machine/descriptor.hpp"

#include <sys/types.h>

#include <optional>
#include <vector>

namespace shardsweep::agent {

class RankGroup {
 public:
  struct Living {
    int rank = 0;
    pid_t pid = 0;
  };

  /// `report`: why its program was not started, if it was not.
  void add(int rank, pid_t pid, Descriptor report = {});
  /// Exits since the last call. `has_runtime`: a container's runtime, whose exit code tells the
  /// signal that ended the rank.
  [[nodiscard]] std::vector<RankExit> take_exits(bool has_runtime);
  /// Waits for children that are no ranks, as far as they have ended.
  void reap_orphans() const;
  /// Signals the group, and children that have left it.
  void signal_all(int signal) const;
  void kill() const;

  /// The process group; 0: no rank has been started.
  [[nodiscard]] pid_t group() const { return ranks_.empty() ? 0 : ranks_.front().pid; }
  [[nodiscard]] bool all_gone() const;
  [[nodiscard]] std::vector<Living> living() const;
  /// Ranks in the order of their start.
  [[nodiscard]] std::vector<int> numbers() const;

 private:
  struct Rank {
    int number = 0;
    pid_t pid = 0;
    bool gone = false;
    Descriptor report{};
  };
  std::vector<Rank> ranks_;
};

}  // namespace shardsweep::agent
