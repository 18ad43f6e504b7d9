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
    const std::string node = fold.world.lead_node(allocation.id);
    row->end_reason =
        fmt::format("its lead{}{} wrote nothing for {:.0f} s, but its job still runs",
                    node.empty() ? "" : " on ", node, silence_s(allocation, fold.now));
    row.done();
    fold.world.record(AddEvent{.at = fold.now,
                               .sweep = allocation.sweep,
                               .allocation = allocation.id,
                               .kind = "given up",
                               .detail = allocation.end_reason});
  }
}

}  // namespace shardsweep
