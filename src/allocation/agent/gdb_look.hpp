// SPDX-License-Identifier: Apache-2.0
// Where the threads of hung ranks stand, by gdb, for the evidence: where it is installed and
// may attach. Never waits, and leaves nothing behind.
#pragma once

#include "agent/environment.hpp"

#include <shardsweep/allocation_files.hpp>

#include <sys/types.h>

#include <vector>

namespace shardsweep::agent {

class GdbLook {
 public:
  GdbLook() = default;
  GdbLook(const GdbLook&) = delete;
  GdbLook& operator=(const GdbLook&) = delete;
  ~GdbLook() { end(); }

  struct Rank {
    int number = 0;
    pid_t pid = 0;
  };
  /// One gdb for each of the first eight ranks; what it says, or why it may not look, goes to
  /// evidence/gdb.rank.K.txt. Without a gdb on PATH nothing happens.
  void start(const AttemptPaths& attempt, const std::vector<Rank>& ranks, const Environment& own);
  [[nodiscard]] bool is_over();
  /// Kills those that are not through; their ranks go on as they were.
  void end();

 private:
  std::vector<pid_t> looking_;  ///< children that have not been waited for
};

}  // namespace shardsweep::agent
