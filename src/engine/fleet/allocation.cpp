// SPDX-License-Identifier: Apache-2.0
#include "fleet/allocation.hpp"

#include <shardsweep/duration.hpp>

#include <algorithm>
#include <cmath>

namespace shardsweep {

namespace {

constexpr Timestamp first_deferral = 15'000'000;
constexpr int most_doublings = 5;

Stage stage_after_claim(const AllocationRow& row) {
  if (row.job_state == JobState::running && row.end_outcome == Outcome::node_failure)
    return Stage::silent;
  if (row.draining || row.said_bye) return Stage::draining;
  return row.started ? Stage::running : Stage::claimed;
}

}  // namespace

Stage stage_of(const AllocationRow& row) {
  if (row.state == State::ended) return Stage::closed;
  if (row.job_state == JobState::ended) return Stage::ended;
  if (row.claimed_at != 0) return stage_after_claim(row);
  if (row.job_state == JobState::running) return Stage::starting;
  if (row.job_state == JobState::pending || row.submission == Submission::accepted)
    return Stage::pending;
  return row.submit_after != 0 ? Stage::deferred : Stage::submitted;
}

bool is_outside(const AllocationRow& row) {
  return row.backend == Backend::outside;
}

bool live(const AllocationRow& row) {
  return stage_of(row) != Stage::closed;
}

bool takes_work(const AllocationRow& row) {
  return stage_of(row) < Stage::ended && row.probe_of.empty() && !row.draining && !row.said_bye;
}

bool is_held(const AllocationRow& row) {
  return row.submission == Submission::accepted && row.job_state == JobState::pending &&
      row.hold == Hold::user;
}

bool runs_elsewhere(const AllocationRow& row, JobState seen) {
  const bool is_placed = !row.host.empty() || !row.job_id.empty();
  return row.backend == Backend::local && is_placed && seen == JobState::unknown;
}

bool is_unclaimed_elsewhere(const AllocationRow& row, JobState seen) {
  return row.claimed_at == 0 && runs_elsewhere(row, seen);
}

bool should_speak(const AllocationRow& row) {
  const bool runs = row.job_state == JobState::running || runs_elsewhere(row, row.job_state);
  return row.state == State::running && row.claimed_at != 0 && runs && !row.end_outcome &&
      row.hold != Hold::suspended;
}

bool is_given_up(const AllocationRow& row) {
  return stage_of(row) == Stage::silent;
}

bool never_seen(const AllocationRow& row) {
  return row.job_state == JobState::ended && row.claimed_at == 0 && row.job_id.empty() &&
      (row.submission == Submission::committed || row.submission == Submission::unknown);
}

bool is_to_be_cancelled(const AllocationRow& row, const Policy& policy, Timestamp now) {
  const bool waits = row.job_state == JobState::pending;
  return (waits && (row.draining || row.end_outcome)) || claim_is_late(row, policy, now) ||
      is_given_up(row);
}

bool claim_is_late(const AllocationRow& row, const Policy& policy, Timestamp now) {
  return stage_of(row) == Stage::starting &&
      to_seconds(now - row.running_since) > policy.claim_limit_s;
}

Timestamp put_off_until(const AllocationRow& row, Timestamp now) {
  return now + (first_deferral << std::min(row.deferrals, most_doublings));
}

bool is_due_again(const AllocationRow& row, Timestamp now) {
  constexpr Timestamp longest = first_deferral << most_doublings;
  const bool over = row.submit_after <= now || row.submit_after > now + longest;
  return row.submit_after != 0 && over && live(row) && !row.draining;
}

bool is_put_off_too_often(const AllocationRow& row, bool passes) {
  return row.deferrals >= (passes ? 900 : 5);
}

bool hours_went_by(const AllocationRow& row, Timestamp now) {
  if (row.deadline == 0 || row.claimed_at != 0) return false;
  return to_seconds(row.deadline - now) < row.time_limit_s + 60;
}

double silence_s(const AllocationRow& row, Timestamp now) {
  return to_seconds(now - row.heard_at.value_or(row.last_beat));
}

bool is_heard(const AllocationRow& row, Timestamp now) {
  constexpr double recent_s = 60;
  if (row.claimed_at == 0 || row.said_bye || row.backend == Backend::local) return false;
  // A process that has read no line yet only knows the lead's own clock. If that clock is an hour
  // off, it does not show when the lead spoke.
  return std::abs(silence_s(row, now)) < recent_s;
}

Timestamp last_sign(const AllocationRow& row, Timestamp now) {
  return row.last_beat != 0 ? row.last_beat : now;
}

std::optional<Outcome> meaning_of_end(const AllocationRow& row) {
  constexpr double margin_s = 60;  // Slurm checks limits once a minute
  if (row.own_cancel && row.claimed_at != 0 && row.end_outcome == Outcome::cancelled)
    return Outcome::preempted;
  const double ran_s = to_seconds(row.last_beat - row.claimed_at);
  const bool early = row.claimed_at != 0 && ran_s + margin_s < row.time_limit_s;
  if (row.end_outcome == Outcome::timeout && early) return Outcome::reaped;
  return row.end_outcome;
}

// Decision: The pause between ticks follows the work in hand: 0.25 s beside running attempts,
// longer if only Slurm can bring news. inotify wakes the daemon for a request.

namespace {

/// True for sweeps that are measured outside: no daemon has to run for them.
bool is_elsewhere(const SweepRow& sweep) {
  return sweep.backend == Backend::outside;
}

}  // namespace

bool is_active(const World& world, SweepId id) {
  const SweepRow* sweep = world.sweep(id);
  return sweep != nullptr && sweep->state == SweepState::active;
}

std::set<SweepId> open_sweeps(const World& world) {
  std::set<SweepId> open;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (world.index().is_open(id)) open.insert(id);
  }
  return open;
}

std::set<SweepId> sweeps_to_decide(const World& world) {
  std::set<SweepId> all;
  for (const auto& [id, sweep] : world.sweeps()) {
    if (world.index().is_open(id) || !sweep.held.empty()) all.insert(id);
  }
  for (const auto& [id, allocation] : world.allocations())
    all.insert(allocation.sweep);
  return all;
}

bool anything_alive(const World& world, const std::set<SweepId>& apart) {
  const bool allocations =
      std::any_of(world.allocations().begin(), world.allocations().end(), [&](const auto& entry) {
        return live(entry.second) && !is_outside(entry.second) &&
            !apart.contains(entry.second.sweep);
      });
  if (allocations) return true;
  return std::any_of(world.sweeps().begin(), world.sweeps().end(), [&](const auto& entry) {
    if (apart.contains(entry.first) || is_elsewhere(entry.second)) return false;
    if (world.index().any_begun() && world.index().begun(entry.first) > 0) return true;
    return entry.second.state == SweepState::active && !world.index().waiting(entry.first).empty();
  });
}

bool only_waits(const World& world, Timestamp now) {
  // Slurm starts a job within seconds if its nodes are idle.
  constexpr double may_start_s = 10;
  bool any = false;
  for (const auto& [id, row] : world.allocations()) {
    if (!live(row) || is_outside(row)) continue;
    if (row.backend == Backend::local || row.claimed_at != 0) return false;
    const double age_s = to_seconds(now - row.created_at);
    if (age_s >= 0 && age_s < may_start_s) return false;
    any = true;
  }
  // A sweep without live allocations may be held: by the clock, or by other users' jobs.
  for (const auto& [id, sweep] : world.sweeps())
    any = any || (sweep.state == SweepState::active && !sweep.held.empty());
  return any;
}

std::size_t live_in_jobs(const World& world) {
  std::size_t count = 0;
  for (const auto& [id, row] : world.allocations()) {
    if (!live(row) || is_outside(row)) continue;
    if (row.backend == Backend::local) return 0;
    ++count;
  }
  return count;
}

}  // namespace shardsweep
