// SPDX-License-Identifier: Apache-2.0
#include "fleet/silence.hpp"

#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"

#include <shardsweep/duration.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {
namespace {

/// Time since this process read its last line, else since some process began to miss one.
double quiet_s(const AllocationRow& row, Timestamp now) {
  return to_seconds(now - row.heard_at.value_or(row.quiet_since));
}

std::string why_given_up(const AllocationRow& row, const std::string& node, Timestamp now) {
  const bool elsewhere = runs_elsewhere(row, row.job_state);
  const std::string& place = elsewhere ? row.host : node;
  const std::string lead = place.empty() ? "its lead" : "its lead on " + place;
  const char* const still = elsewhere ? "" : ", but its job still runs";
  if (row.said_bye)
    return fmt::format(
        "{} left {:.0f} s ago ({}){}", lead, quiet_s(row, now), row.end_reason, still);
  return fmt::format("{} wrote nothing for {:.0f} s{}", lead, quiet_s(row, now), still);
}

void give_up(Fold fold, const AllocationRow& allocation, const std::string& why) {
  auto row = fold.world.edit(allocation);
  row->end_outcome = Outcome::node_failure;
  row->end_reason = why;
  row.done();
  fold.world.record(AddEvent{.at = fold.now,
      .sweep = allocation.sweep,
      .allocation = allocation.id,
      .kind = EventKind::given_up,
      .detail = why});
}

/// A lead that was started on another machine and has never spoken: nobody can look for it.
void judge_claim(Fold fold, const Policy& policy, const AllocationRow& allocation) {
  const bool waits = is_unclaimed_elsewhere(allocation, allocation.job_state) &&
      allocation.running_since != 0 && !allocation.end_outcome;
  if (!waits) return;
  const double waited_s = to_seconds(fold.now - allocation.running_since);
  if (waited_s > policy.claim_limit_s)
    give_up(fold, allocation,
        fmt::format("{:.0f} s after its start, shardsweep's agent on another machine had not begun "
                    "to work ({})",
            waited_s, allocation.detail));
}

}  // namespace

void judge_silence(Fold fold, const Policy& policy, const AllocationRow& allocation) {
  judge_claim(fold, policy, allocation);
  const bool speaks = should_speak(allocation);
  if (!speaks) fold.world.listen_anew(allocation, fold.now);
  // Another host's clock may have been ahead: its times of the future count from now.
  if (allocation.quiet_since > fold.now) fold.world.edit(allocation)->quiet_since = fold.now;
  const double half_s = policy.lead_limit_s / 2;
  const Timestamp since = std::max(allocation.heard_at.value_or(0), allocation.listened_since);
  const bool quiet = speaks && (!allocation.heard_at || to_seconds(fold.now - since) > half_s);
  if (!quiet) {
    if (allocation.quiet_since != 0) fold.world.edit(allocation)->quiet_since = 0;
  } else if (allocation.quiet_since == 0) {
    fold.world.edit(allocation)->quiet_since = fold.now;
  } else if (to_seconds(fold.now - allocation.quiet_since) > half_s) {
    give_up(
        fold, allocation, why_given_up(allocation, fold.world.lead_node(allocation.id), fold.now));
  }
}

}  // namespace shardsweep
