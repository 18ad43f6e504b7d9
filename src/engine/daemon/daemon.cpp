// SPDX-License-Identifier: Apache-2.0
// Decision: A daemon ends when the database has no work left, whatever is in its memory.
// `tests/unit/daemon` plays random sequences against it.
#include "daemon/daemon.hpp"

#include "fleet/allocation.hpp"

#include <shardsweep/copied.hpp>
#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/log.hpp>

#include <algorithm>
#include <utility>

namespace shardsweep {

namespace {

bool due(std::optional<std::chrono::steady_clock::time_point> last, double interval_s,
    std::chrono::steady_clock::time_point now) {
  return !last || now - *last >= std::chrono::duration<double>(interval_s);
}

}  // namespace

Daemon::Daemon(DaemonParts parts)
    : parts_(std::move(parts)),
      sweeps_(parts_, world_),
      stops_(parts_, world_, sweeps_),
      health_(parts_, world_),
      records_(parts_, world_, sweeps_, health_),
      leads_(parts_, world_, sweeps_, health_, channels_, records_, stops_.recent),
      sites_(parts_, world_, sweeps_),
      notifying_(parts_, world_, sweeps_),
      jobs_(parts_, world_, sweeps_, health_, channels_, records_, leads_, sites_, notifying_),
      deciding_(parts_, world_, sweeps_, sites_),
      acts_(parts_, world_, sweeps_, health_, channels_, sites_, leads_),
      outside_(parts_, world_, sweeps_, records_, deciding_),
      desk_(parts_, world_, sweeps_, outside_,
          {.listen = [this] { listen(); },
              .commit = [this] { return commit(); },
              .reload = [this] { return reload(); }}),
      take_([this](const std::string& key, const SchedulerEvent& event) {
        stops_.recent.saw(event);
        health_.note_event(key, event);
        jobs_.take(event);
      }) {}

template <class Work>
std::invoke_result_t<Work> Daemon::guarded(Work work) {
  try {
    return in_work_of(0, work);
  } catch (const BrokenInvariant& broken) {
    return tl::unexpected<Fault>(stops_.stop(broken));
  }
}

Result<void> Daemon::load() {
  return guarded([this]() -> Result<void> {
    SHARDSWEEP_ASSIGN(const auto holder, parts_.store.lease_holder());
    channels_.set_epoch(holder ? holder->epoch : 0);
    boot_id_ = this_process().boot_id;
    SHARDSWEEP_TRY(stops_.read());
    SHARDSWEEP_TRY(reload());
    stops_.record();
    SHARDSWEEP_TRY(commit());
    stops_.told();
    return {};
  });
}

Result<void> Daemon::reload() {
  SHARDSWEEP_ASSIGN(auto rows, parts_.store.load_world());
  stops_.recent.read(rows);
  world_.read(std::move(rows));
  sweeps_.forget_searches();
  deciding_.look_at_all();
  // Policies are needed before anything is folded.
  for (const auto& [id, sweep] : world_.sweeps()) {
    const bool alive = std::any_of(world_.allocations().begin(), world_.allocations().end(),
        [sweep_id = id](const auto& entry) { return entry.second.sweep == sweep_id; });
    if ((!alive && sweep.state != SweepState::active) || sweeps_.is_apart(id)) continue;
    in_work_of(id, [&, sweep = &sweep] {
      if (const auto context = sweeps_.context_of(*sweep); !context)
        log_error(context.error().what);
    });
  }
  return {};
}

Result<void> Daemon::refuse_copy() const {
  const auto copy = copy_text(parts_.home, jobs_.live_folders());
  if (copy) return fault(FaultKind::rejected, *copy);
  return {};
}

Result<void> Daemon::forget_others() {
  return guarded([this] {
    jobs_.forget_others();
    return commit();
  });
}

Result<void> Daemon::tick() {
  Result<void> done = guarded([this] { return pass(); });
  health_.note_sweeps(TroubleKind::unloaded, sweeps_.unloaded());
  health_.note_sweeps(TroubleKind::unwatched, sweeps_.unwatched());
  return health_.note_pass(std::move(done), desk_.has_unsent());
}

Result<void> Daemon::pass() {
  stops_.recent.begin_pass();
  SHARDSWEEP_TRY(renew_lease());
  follow_clock();
  SHARDSWEEP_TRY(desk_.serve());
  observe();
  if (!world_.changes().empty()) fail_point("daemon.folded");
  deciding_.decide();
  samples_.check(world_, sweeps_.apart());
  SHARDSWEEP_TRY(commit());
  INVARIANT(
      world_.changes().empty(), "nothing acts on what is not committed", world_.changes().size());
  jobs_.pack_closed();
  acts_.act();
  // Commit news from acting (a submission's answer) before the next pause.
  sites_.poll(take_);
  SHARDSWEEP_TRY(commit());
  notifying_.notify();
  forget_ended();
  return {};
}

Result<void> Daemon::serve() {
  return guarded([this]() -> Result<void> {
    SHARDSWEEP_TRY(renew_lease());
    follow_clock();
    SHARDSWEEP_TRY(desk_.serve());
    return commit();
  });
}

/// The scheduler first, the files after it: what a job wrote before it ended is then read.
void Daemon::observe() {
  sweeps_.take_back_resumed();
  sites_.look(jobs_.to_look_for(), take_);
  jobs_.end_deferrals();
  listen();
  jobs_.dismiss_unsubmitted();
  jobs_.close_gone();
}

void Daemon::listen() {
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.state == State::ended || sweeps_.is_apart(allocation.sweep)) continue;
    if (is_outside(allocation)) continue;
    in_work_of(allocation.sweep, [&, row = &allocation] { leads_.read(*row); });
  }
  outside_.take_back();
}

bool Daemon::busy() const {
  return desk_.serving() || anything_alive(world_, sweeps_.apart()) || notifying_.busy();
}

Result<bool> Daemon::nothing_left() {
  return guarded([this] { return look_for_work(); });
}

Result<bool> Daemon::look_for_work() {
  if (busy()) return false;
  // Work of sweeps that are held apart waits for `resume`, though the database counts it.
  if (!sweeps_.apart().empty()) return true;
  SHARDSWEEP_ASSIGN(const bool left, parts_.store.work_left());
  if (!left) return true;
  log_warning("the database has work unknown to this daemon; reading the database again");
  SHARDSWEEP_TRY(reload());
  return false;
}

std::vector<pollfd> Daemon::descriptors() const {
  std::vector<pollfd> all{{desk_.descriptor(), POLLIN, 0}};
  for (const auto& more : {sites_.descriptors(), notifying_.descriptors()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

Result<void> Daemon::renew_lease() {
  const auto now = parts_.clock.steady();
  // A gap in our own loop (stopped, suspended): somebody may have taken over meanwhile.
  const bool gap = due(std::exchange(last_tick_, now), 4 * parts_.policy.idle_tick_s, now);
  if (!gap && !due(last_renewal_, parts_.policy.lease_renew_s, now)) return {};
  last_renewal_ = now;
  fail_point("daemon.renew");
  return parts_.store.renew_lease(parts_.clock.now());
}

/// Adjusts waiting times to the wall clock, which somebody may set.
void Daemon::follow_clock() {
  const auto steady = std::chrono::duration_cast<std::chrono::microseconds>(
      parts_.clock.steady().time_since_epoch());
  world_.follow_clock({boot_id_, parts_.clock.now() - steady.count()});
}

Result<void> Daemon::commit() {
  if (world_.changes().empty()) return {};
  fail_point("daemon.commit");
  auto done = parts_.store.commit(world_.changes());
  if (!done && worth_retrying(done.error().kind)) {
    // Changes stay in memory and are committed with the next tick's; nothing acts on them before.
    return tl::unexpected<Fault>(done.error().in("commit"));
  }
  SHARDSWEEP_TRY(done);
  fail_point("daemon.committed");
  sweeps_.tell_searches();
  stops_.recent.committed(world_.changes());
  notifying_.see(world_.take_changes());
  return {};
}

void Daemon::forget_ended() {
  if (std::exchange(forgotten_, world_.version()) == world_.version()) return;
  channels_.forget(world_.forget_ended());
}

/// Jobs wait for hours, looks at them are far apart, and lanes have work ahead: the more of
/// what is alive is in other hands, the less a tick finds; and the more lanes, the more it
/// costs.
std::chrono::milliseconds Daemon::pause() const {
  // Fewer idle ticks than what renew_lease() takes for a gap; and a lead that has come up, or
  // has nothing more to do, finds work before it gives its nodes back.
  double longest = 2.5 * parts_.policy.idle_tick_s;
  double shortest = parts_.policy.tick_s;
  for (const auto& [id, context] : sweeps_.all()) {
    longest = std::min(longest, 0.5 * context.spec.policy.lane.idle_limit_s);
    shortest = std::min(shortest, context.spec.policy.tick_s);
  }
  constexpr double quick_lanes = 8;  // number of lanes that are looked at in every tick
  const bool settled =
      !desk_.serving() && deciding_.all_decided() && acts_.all_said() && !settling();
  constexpr std::chrono::milliseconds between_pieces{1};  // requests are looked for anyway
  if (desk_.in_pieces()) return between_pieces;
  const bool waits = settled && only_waits(world_, parts_.clock.now());
  double seconds = parts_.policy.idle_tick_s;
  if (busy() && !waits) {
    seconds = shortest;
    const auto lanes = static_cast<double>(live_in_jobs(world_));
    if (settled)
      seconds = std::clamp(seconds * lanes / quick_lanes, seconds, std::max(seconds, longest));
  } else if (waits) {
    seconds = longest;
  }
  return std::chrono::milliseconds(std::max<std::int64_t>(1, std::int64_t(seconds * 1000)));
}

}  // namespace shardsweep
