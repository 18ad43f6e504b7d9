// SPDX-License-Identifier: Apache-2.0
// A daemon's life: take the database, tick until told to stop or nothing is left, give it back.
#pragma once

#include "daemon/daemon.hpp"

#include <functional>
#include <string>

namespace shardsweep {

struct LifeOptions {
  bool until_idle = false;  ///< ends when nothing runs, waits to run or has been asked for
  bool once = false;        ///< `tick`: one pass, or none if another daemon is at work
  /// Answers the requests that are there and ends; sweeps that wait stay as they are.
  bool serve_only = false;
  /// Lets go of jobs that are another database's, and ends.
  bool forget_others = false;
  double first_work_s = 0;         ///< time that a daemon waits for its first work
  double patience_s = 0;           ///< time to wait for another daemon to release the database
  std::function<void()> beside{};  ///< called with every tick; must not wait
  bool take_over = false;          ///< replaces a daemon that is stopped or can't be reached
};

/// Runs a daemon in this process. `busy` if another one holds the database: the message
/// names its host, pid and since when. SIGTERM and SIGINT end it after the tick; what runs goes
/// on.
/// True if nothing was left to do.
[[nodiscard]] Result<bool> run_daemon(DaemonParts parts, const LifeOptions& options);

/// True if the daemon may end: the database has no work left, the lease is given back, and a
/// last look finds no request. Where a request came meanwhile, the lease is taken again. A
/// request that comes later finds no daemon, and its command starts the next one.
[[nodiscard]] Result<bool> leave_if_idle(Daemon& daemon, const DaemonParts& parts);

/// "held by pid 123 on login1 since 2026-01-01 12:00:00 UTC"
[[nodiscard]] std::string describe(const LeaseHolder& holder);

}  // namespace shardsweep
