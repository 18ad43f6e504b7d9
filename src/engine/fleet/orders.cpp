// SPDX-License-Identifier: Apache-2.0
#include "fleet/control.hpp"
#include "fleet/decide.hpp"
#include "fleet/fold.hpp"

#include <optional>

namespace shardsweep {
namespace {

std::optional<SweepState> state_of(const World& world, SweepId id) {
  const SweepRow* sweep = world.sweep(id);
  return sweep == nullptr ? std::nullopt : std::optional(sweep->state);
}

}  // namespace

Orders orders_for(const World& world, const AllocationRow& allocation, bool controlled) {
  Orders orders;
  const auto state = state_of(world, allocation.sweep);
  for (const AttemptId id : open_attempts(world, allocation.id)) {
    const AttemptRow& attempt = world.attempts().at(id);
    orders.assign.push_back(id);
    const TrialRow& trial = world.trials().at(attempt.trial);
    const bool unwanted =
        attempt.revoked || trial.state == State::ended || state == SweepState::cancelled;
    if (unwanted) {
      orders.cancel.push_back(id);
    } else if (attempt.state == State::queued && (trial.hidden || state == SweepState::paused)) {
      orders.revoke.push_back(id);
    }
  }
  orders.probe = !allocation.probe_of.empty() && !allocation.draining;
  if (controlled) orders.control = control_due(world, allocation);
  orders.drain = allocation.draining && !orders.control;
  return orders;
}

}  // namespace shardsweep
