// SPDX-License-Identifier: Apache-2.0
// An allocation of a test's own with its real lead on this machine.
//
// Nothing here depends on how busy the machine is. Each limit and lease is longer than CTest's
// own limit, unless a test sets one whose end is the only thing that can happen; each moment is
// a line, a file, or a fail point. How soon something is found is shown by tests/soak, and each
// limit by tests/unit/attempt and tests/unit/agent with a clock moved by hand.
#pragma once

#include "programs/agent/daemon_side.hpp"
#include "tools/lib/fail_points.hpp"

#include <map>

namespace shardsweep::test {

/// Never reached: a limit in a test that is not about it.
inline constexpr double no_limit_s = 10 * patience_s;
/// Of a limit before whose end nothing can happen.
inline constexpr double at_once_s = 0.2;

class Allocation : public DaemonSide {
 public:
  Allocation();
  ~Allocation() override;

  std::map<std::string, std::string> environment;  ///< of the lead, besides our own

  void start();
  /// A program of that name comes first on the lead's PATH. `script` follows #!/bin/sh.
  void put_on_path(const std::string& name, const std::string& script);
  /// Where lead, guard and node agent die or stand still: NAME[:n]:ACTION[,…] of
  /// include/shardsweep/fail_point.hpp. Before start().
  void fail_at(const std::string& points) { armed_ = points; }
  /// Until one of them is there; its pid.
  pid_t wait_at(const std::string& point);
  /// Lets a process that stops at a point go on, once it stands still: the point is told before.
  static void let_go_on(pid_t stopped);
  void go_on(const std::string& point) const { points_.go_on(point); }
  /// Exit code of the lead, or -signal.
  [[nodiscard]] std::optional<int> wait_exit();

  [[nodiscard]] pid_t lead() const { return lead_; }
  [[nodiscard]] pid_t guard() const;
  [[nodiscard]] pid_t node_agent() const;

 private:
  FailPoints points_;  ///< not below folder(), whose disk may be full
  std::string armed_;
  pid_t lead_ = 0;
  std::optional<int> exit_;
};

/// An srun of the nodes n7 and n8, which both get its input. When one of the two ends, the
/// other one goes on.
extern const std::string two_node_srun;

}  // namespace shardsweep::test
