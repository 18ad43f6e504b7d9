// SPDX-License-Identifier: Apache-2.0
#include "fleet/silence.hpp"

#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"

#include <fmt/format.h>

namespace shardsweep {
namespace {

double seconds_between(Timestamp from, Timestamp to) {
  return static_cast<double>(to - from) * 1e-6;
}

std::string why_given_up(const AllocationRow& row, const std::string& node, Timestamp now) {
  const std::string lead = node.empty() ? "its lead" : "its lead on " + node;
  if (row.said_bye)
    return fmt::format("{} left {:.0f} s ago ({}), but its job still runs", lead,
                       silence_s(row, now), row.end_reason);
  return fmt::format("{} wrote nothing for {:.0f} s, but its job still runs", lead,
                     silence_s(row, now));
}

}  // namespace

void judge_silence(Fold fold, const Policy& policy, const AllocationRow& allocation) {
  // The login node's clock was set back: its times of the future count from now.
  if (allocation.heard_at > fold.now) fold.world.edit(allocation)->heard_at = fold.now;
  if (allocation.quiet_since > fold.now) fold.world.edit(allocation)->quiet_since = fold.now;
  const double half_s = policy.lead_limit_s / 2;
  const bool quiet = should_speak(allocation) && silence_s(allocation, fold.now) > half_s;
  if (!quiet) {
    if (allocation.quiet_since != 0) fold.world.edit(allocation)->quiet_since = 0;
  } else if (allocation.quiet_since == 0) {
    fold.world.edit(allocation)->quiet_since = fold.now;
  } else if (seconds_between(allocation.quiet_since, fold.now) > half_s) {
    auto row = fold.world.edit(allocation);
    row->end_outcome = Outcome::node_failure;
    row->end_reason = why_given_up(allocation, fold.world.lead_node(allocation.id), fold.now);
    row.done();
    fold.world.record(AddEvent{.at = fold.now,
                               .sweep = allocation.sweep,
                               .allocation = allocation.id,
                               .kind = "given up",
                               .detail = allocation.end_reason});
  }
}

}  // namespace shardsweep
