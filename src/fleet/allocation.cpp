// SPDX-License-Identifier: Apache-2.0
#include "fleet/allocation.hpp"

namespace shardsweep {

double silence_s(const AllocationRow& row, Timestamp now) {
  return static_cast<double>(now - row.heard_at.value_or(row.last_beat)) / 1e6;
}

bool is_heard(const AllocationRow& row, Timestamp now) {
  constexpr double recent_s = 60;
  if (row.claimed_at == 0 || row.said_bye || row.backend == "local") return false;
  return silence_s(row, now) < recent_s;
}

Timestamp last_sign(const AllocationRow& row, Timestamp now) {
  return row.last_beat != 0 ? row.last_beat : now;
}

std::optional<Outcome> meaning_of_end(const AllocationRow& row) {
  constexpr double margin_s = 60;  // Slurm checks limits once a minute
  if (row.own_cancel && row.claimed_at != 0 && row.end_outcome == Outcome::cancelled)
    return Outcome::preempted;
  const auto ran_s = static_cast<double>(row.last_beat - row.claimed_at) / 1e6;
  const bool early = row.claimed_at != 0 && ran_s + margin_s < row.time_limit_s;
  if (row.end_outcome == Outcome::timeout && early) return Outcome::reaped;
  return row.end_outcome;
}

bool never_seen(const AllocationRow& row) {
  return row.job_state == JobState::ended && row.claimed_at == 0 && row.job_id.empty() &&
         (row.submission == Submission::committed || row.submission == Submission::unknown);
}

}  // namespace shardsweep
