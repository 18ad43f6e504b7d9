// SPDX-License-Identifier: Apache-2.0
// Decision: `--take-over` ends a daemon that was stopped inside a transaction, by pid and start
// time: SQLite's write lock ends in no other way.
#include "daemon/loop.hpp"

#include "text/numbers.hpp"

#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

/// SIGTERM, SIGINT and SIGHUP as a descriptor to poll.
class StopSignals {
 public:
  StopSignals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP})
      ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit on files is an error, not the end
    descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    ::close(descriptor_);
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  /// Waits for a signal, for one of `others` or until `limit` has passed; true for a signal.
  [[nodiscard]] bool wait(std::vector<pollfd> others, std::chrono::milliseconds limit) const {
    others.push_back({descriptor_, POLLIN, 0});
    ::poll(others.data(), others.size(), static_cast<int>(limit.count()));
    signalfd_siginfo info{};
    return ::read(descriptor_, &info, sizeof info) == sizeof info;
  }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

Fault held_by(const Result<std::optional<LeaseHolder>>& holder, const Fault& lock_fault,
    Timestamp now, double lease_ttl_s) {
  if (!holder || !*holder) return lock_fault;
  std::string text = "another daemon has this database: " + describe(**holder);
  const double silent_s = to_seconds(now - (*holder)->renewed);
  if (silent_s > lease_ttl_s) {
    text += fmt::format(
        "; it has not renewed its lease for {:.0f} s (stopped or suspended?): 'shardsweep "
        "daemon "
        "--take-over' replaces it",
        silent_s);
  }
  return {FaultKind::busy, text};
}

/// Takes the lock, which holds on this host, and then the lease, which holds everywhere.
Result<DaemonLock> take_database(const DaemonParts& parts, bool take_over) {
  const auto holder = parts.store.lease_holder();
  const Timestamp now = parts.clock.now();
  const double ttl = parts.policy.lease_ttl_s;
  auto lock = DaemonLock::take(parts.home.lock(), take_over);
  if (!lock && lock.error().kind == FaultKind::busy) {
    return tl::unexpected<Fault>(held_by(holder, lock.error(), now, ttl));
  }
  if (!lock) return lock;
  fail_point("daemon.locked");
  SHARDSWEEP_TRY(holder);
  const bool fresh = *holder && to_seconds(now - (*holder)->renewed) <= ttl;
  if (!take_over && fresh && may_live(**holder) && (*holder)->pid != 0) {
    return tl::unexpected<Fault>(
        held_by(holder, {FaultKind::busy, "another daemon has this database"}, now, ttl));
  }
  LeaseHolder self = this_process();
  self.since = self.renewed = now;
  auto taken = parts.store.take_lease(self);
  if (!taken && taken.error().kind == FaultKind::busy && take_over && *holder) {
    log_warning(fmt::format(
        "the database is {}, in the middle of a write: ending that process", describe(**holder)));
    SHARDSWEEP_TRY(end_holder(**holder));
    taken = parts.store.take_lease(self);
  }
  SHARDSWEEP_TRY(taken);
  return lock;
}

/// Waits for the database. The earlier daemon may be on another host and dead: then its lease has
/// to run out. Or it was told to end a moment ago: then it finishes its tick, and after a kill -9
/// its write to the disk.
Result<DaemonLock> await_database(
    const DaemonParts& parts, const LifeOptions& options, const StopSignals& signals) {
  constexpr std::chrono::seconds again{1};
  const auto until = parts.clock.steady() + std::chrono::duration<double>(options.patience_s);
  for (bool told = false;; told = true) {
    auto lock = take_database(parts, options.take_over);
    const bool wait = !lock && lock.error().kind == FaultKind::busy;
    if (!wait || parts.clock.steady() >= until) return lock;
    if (!told) {
      log_info(fmt::format("{}; waiting up to {:.0f} s until that daemon has ended",
          lock.error().what, options.patience_s));
    }
    if (signals.wait({}, again)) return fault(FaultKind::interrupted, "told to stop");
  }
}

/// True for faults that may pass by themselves; any other fault ends the daemon.
bool goes_on(const Result<void>& tick) {
  if (tick) return true;
  log_error(tick.error().what);
  return worth_retrying(tick.error().kind);
}

/// Waits until a signal or a descriptor has something to say, or the next tick is due.
bool wait_for_tick(const StopSignals& signals, const Daemon& daemon) {
  return signals.wait(daemon.descriptors(), daemon.pause());
}

/// Serves requests for at most a minute; a daemon answers the rest.
Result<void> serve_requests(Daemon& daemon, const DaemonParts& parts) {
  constexpr std::chrono::seconds most{60};
  const auto until = parts.clock.steady() + most;
  do {
    SHARDSWEEP_TRY(daemon.serve());
  } while (daemon.serving() && parts.clock.steady() < until);
  return {};
}

/// Ticks until there is a reason to end. True if the lease is given back already.
Result<bool> live(Daemon& daemon, const DaemonParts& parts, const LifeOptions& options,
    const StopSignals& signals) {
  const auto first_work_by =
      parts.clock.steady() + std::chrono::duration<double>(options.first_work_s);
  bool worked = false;
  for (;;) {
    const auto tick = daemon.tick();
    if (options.beside) options.beside();
    const bool last = options.once && !daemon.settling();
    if (last || !goes_on(tick)) SHARDSWEEP_TRY(tick);
    if (last || daemon.asked_to_stop()) return false;
    worked = worked || daemon.busy();
    if (options.until_idle && (worked || parts.clock.steady() >= first_work_by)) {
      SHARDSWEEP_ASSIGN(const bool left, leave_if_idle(daemon, parts));
      if (left) return true;
    }
    if (wait_for_tick(signals, daemon)) return false;
  }
}

/// The database is busy because another daemon is at work: what one pass was to do is done by it.
/// One that is silent does nothing.
bool is_done_by_another(const DaemonParts& parts, const Fault& why) {
  if (why.kind != FaultKind::busy) return false;
  const auto holder = parts.store.lease_holder();
  if (!holder || !*holder) return lock_holder(parts.home.lock()).has_value();
  return to_seconds(parts.clock.now() - (*holder)->renewed) <= parts.policy.lease_ttl_s;
}

}  // namespace

Result<bool> leave_if_idle(Daemon& daemon, const DaemonParts& parts) {
  SHARDSWEEP_ASSIGN(const bool idle, daemon.nothing_left());
  if (!idle) return false;
  SHARDSWEEP_TRY(parts.store.release_lease());
  fail_point("daemon.released");
  const auto waiting = pending_requests(parts.home);
  if (waiting && waiting->empty()) return true;
  LeaseHolder self = this_process();
  self.since = self.renewed = parts.clock.now();
  SHARDSWEEP_TRY(parts.store.take_lease(self));
  SHARDSWEEP_TRY(daemon.load());
  return false;
}

std::string describe(const LeaseHolder& holder) {
  return fmt::format(
      "held by pid {} on {} since {}", holder.pid, holder.host, utc_in_sentence(holder.since));
}

Result<bool> run_daemon(DaemonParts parts, const LifeOptions& options) {
  const StopSignals signals;
  const auto lock = await_database(parts, options, signals);
  if (!lock) {
    // Print nothing: cron would mail each line.
    if (options.once && is_done_by_another(parts, lock.error())) return false;
    return tl::unexpected(lock.error());
  }
  fail_point("daemon.leased");
  parts.stays = !options.once;
  Daemon daemon(parts);
  SHARDSWEEP_TRY(daemon.load());
  const auto own = options.forget_others ? Result<void>() : daemon.refuse_copy();
  if (!own) SHARDSWEEP_TRY(parts.store.release_lease());
  SHARDSWEEP_TRY(own);
  if (options.serve_only || options.forget_others) {
    const auto served = options.serve_only ? serve_requests(daemon, parts) : daemon.forget_others();
    SHARDSWEEP_TRY(parts.store.release_lease());
    SHARDSWEEP_TRY(served);
    return false;
  }
  log_info(fmt::format("daemon {} has {}", ::getpid(), parts.home.database.string()));
  SHARDSWEEP_ASSIGN(const bool left, live(daemon, parts, options, signals));
  log_info(left ? "nothing is left to do" : "stopped; running trials go on");
  if (!left) SHARDSWEEP_TRY(parts.store.release_lease());
  return left;
}

}  // namespace shardsweep
