// SPDX-License-Identifier: Apache-2.0
// The life of an allocation, as its row says it, with every limit on it. Pure: rows in, answers
// out. fold_line() and fold_scheduler() move it on; silence.hpp finds a lead that is silent.
//
//        ┌──"not now"──► deferred ──its time──┐
//        │                                    │
//   submitted ◄───────────────────────────────┘
//        │      ◄── no look finds its job: submitted again
//        │ accepted
//        ▼
//     pending ──nodes──► starting ──claim──► claimed ──attempt──► running
//                            │                  │                    │
//                            │                  └────────┬───────────┘
//                            │             no more work, │ or no line for lead_limit_s
//                            │                           ├──────────────► silent
//                            │                           ▼                  │
//                            │                        draining              │ cancelled
//        claim_limit_s, then │                           │                  │
//                  cancelled ▼                           ▼                  ▼
//     (from every stage) ──the job ends, is refused, or is not found──► ended ──► closed
//
// Ended: its job is over, its files are read once more. Closed: what was in it has its end.
//
// Decision: A lead that spoke within a minute outranks a queue without its job. Ends take the
// lead's clock, never the time of reading.
#pragma once

#include "fleet/world.hpp"

#include <shardsweep/policy.hpp>
#include <shardsweep/rows.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>

namespace shardsweep {

enum class Stage : std::uint8_t {
  submitted,  ///< asked for, or about to be
  deferred,   ///< told "not now": it is in no queue
  pending,    ///< waits for its nodes
  starting,   ///< has its nodes, and no lead has claimed it
  claimed,    ///< a lead is there, and no attempt has started
  running,    ///< some attempt has started
  draining,   ///< gets no more work
  silent,     ///< given up: its job is cancelled as long as it runs
  ended,
  closed,
};
template <>
inline constexpr std::array<std::string_view, 10> word_table<Stage>{"submitted", "deferred",
    "pending", "starting", "claimed", "running", "draining", "silent", "ended", "closed"};

[[nodiscard]] Stage stage_of(const AllocationRow& row);

// ---- what follows from the stage

/// True if the attempt runs elsewhere: it has no job and no lead, and ends with its deadline.
[[nodiscard]] bool is_outside(const AllocationRow& row);
/// True unless it is closed.
[[nodiscard]] bool live(const AllocationRow& row);
/// True if it may be given attempts.
[[nodiscard]] bool takes_work(const AllocationRow& row);
/// Held at its submission, until release() lets it start.
[[nodiscard]] bool is_held(const AllocationRow& row);
/// True if a look that found the job in state `seen` can't judge it, because the lead runs on
/// another machine than this one.
[[nodiscard]] bool runs_elsewhere(const AllocationRow& row, JobState seen);
/// Condition of runs_elsewhere() for an allocation that no lead has claimed. `running_since` is
/// then the time of the first look that found it so.
[[nodiscard]] bool is_unclaimed_elsewhere(const AllocationRow& row, JobState seen);
/// True if the lead's silence counts as an end. A suspended job can't speak and goes on later, so
/// its silence does not count. A lead that has left counts: after a restart of slurmd, Slurm may
/// never learn that the job is over.
[[nodiscard]] bool should_speak(const AllocationRow& row);
/// True for an allocation that was given up for its silence: it is cancelled as long as its job
/// runs.
[[nodiscard]] bool is_given_up(const AllocationRow& row);
/// Clean looks have found no job for an allocation that was, or may have been, submitted, and
/// no lead has claimed it.
[[nodiscard]] bool never_seen(const AllocationRow& row);
/// True if it waits in the queue and no sweep wants it to start (again). Also true if it runs and
/// its claim is late or its lead is silent.
[[nodiscard]] bool is_to_be_cancelled(
    const AllocationRow& row, const Policy& policy, Timestamp now);

// ---- its limits

/// True if the job has run for longer than policy.claim_limit_s without a claim.
[[nodiscard]] bool claim_is_late(const AllocationRow& row, const Policy& policy, Timestamp now);
/// Time at which a submission that was put off is due again: after 15 s, 30 s, … 8 min. A limit
/// that other jobs fill passes when they end.
[[nodiscard]] Timestamp put_off_until(const AllocationRow& row, Timestamp now);
/// True if the time of put_off_until() has come, or if the clock was set back since.
[[nodiscard]] bool is_due_again(const AllocationRow& row, Timestamp now);
/// True if a submission was put off for too long: eight minutes if the limit may be the job's own,
/// five days if the limit passes when other jobs end.
[[nodiscard]] bool is_put_off_too_often(const AllocationRow& row, bool passes);
/// True if the job waited until it could no longer end within its hours. Slurm calls that DEADLINE,
/// and refuses a job that comes so late.
[[nodiscard]] bool hours_went_by(const AllocationRow& row, Timestamp now);

// ---- its lead and its end

/// Seconds since the lead's last line was read. Only a process that has read no line uses the time
/// that the lead wrote. The lead's clock may be off, so no allocation is given up by it
/// (silence.hpp).
[[nodiscard]] double silence_s(const AllocationRow& row, Timestamp now);
/// True if the lead spoke within the last minute: a file system may show a line that late.
[[nodiscard]] bool is_heard(const AllocationRow& row, Timestamp now);
/// End of an attempt whose lead did not report it: the lead's last sign of life, by the lead's own
/// clock. A daemon may read of it hours later.
[[nodiscard]] Timestamp last_sign(const AllocationRow& row, Timestamp now);
/// Outcome of an attempt whose job ended under it. Slurm's word is not enough in two cases:
/// shardsweep itself cancels a job that Slurm has put back into the queue, and an administrator may
/// have lowered the time limit.
[[nodiscard]] std::optional<Outcome> meaning_of_end(const AllocationRow& row);

// Holders of what is alive: how long a daemon may pause, and whether it may leave.

[[nodiscard]] bool is_active(const World& world, SweepId id);

/// Sweeps with a trial that its file has and that has not ended.
[[nodiscard]] std::set<SweepId> open_sweeps(const World& world);

/// Sweeps that a decision can change: they are open, have an allocation, or wait for a reason that
/// may be over. No other sweep needs a decision.
[[nodiscard]] std::set<SweepId> sweeps_to_decide(const World& world);

/// True while a daemon has something to wait for. `apart`: sweeps that nobody waits for.
[[nodiscard]] bool anything_alive(const World& world, const std::set<SweepId>& apart = {});

/// True if all asked-for work has waited in a cluster's queue for a while: only its scheduler or a
/// request can bring news.
[[nodiscard]] bool only_waits(const World& world, Timestamp now);

/// Number of live allocations, each with a file to read in every tick. 0 if one of them is on the
/// daemon's own machine: nothing is assigned ahead there, so each end must be answered at once.
[[nodiscard]] std::size_t live_in_jobs(const World& world);

}  // namespace shardsweep
