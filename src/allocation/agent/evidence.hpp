// SPDX-License-Identifier: Apache-2.0
// Before the ranks of a hung attempt are ended: what they can still tell. Never waits: the
// attempt's loop calls step() until it says that it is done.
#pragma once

#include "agent/environment.hpp"
#include "node/inspection.hpp"

#include <shardsweep/allocation_files.hpp>

#include <sys/types.h>

#include <map>
#include <optional>
#include <vector>

namespace shardsweep::agent {

// Stacks of hung ranks for the evidence, by gdb: if it is installed and may attach. Never waits,
// and leaves nothing behind.

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

class EvidenceTaking {
 public:
  struct Rank {
    int number = 0;
    pid_t pid = 0;  ///< a child that has not been waited for
  };

  /// Copies the flight recorders, looks at every process and asks those that have a handler for
  /// it for a backtrace (SIGQUIT), which goes to the rank's output. `seen`: node, attempt, why.
  /// Then gdb looks at them, for `gdb_s` at most; 0: it does not.
  EvidenceTaking(AttemptPaths paths, NodeEvidence seen, std::vector<Rank> ranks, double limit_s,
      double gdb_s, double now_s);

  /// True when backtraces and gdb are through or their limits have passed. NODE.json is written
  /// before gdb begins.
  [[nodiscard]] bool step(double now_s);

 private:
  struct Output {
    std::uintmax_t before = 0;
    std::uintmax_t at_last_look = 0;
  };

  void copy_recorder(int rank);
  void ask_for_backtrace(const Rank& rank);
  [[nodiscard]] bool answered();
  void ask_gdb(double now_s);
  void write();

  AttemptPaths paths_;
  NodeEvidence seen_;
  std::vector<Rank> ranks_;
  double deadline_s_;
  double gdb_s_;
  std::optional<double> gdb_deadline_s_;  ///< empty: gdb has not been asked yet
  GdbLook gdb_;
  std::map<int, Output> asked_;  ///< outputs of gdb by rank
};

/// Last line of a rank's output, cut to 200 bytes.
[[nodiscard]] std::string last_line_of(const std::filesystem::path& log);

}  // namespace shardsweep::agent
