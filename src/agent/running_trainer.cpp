// SPDX-License-Identifier: Apache-2.0
// What of an attempt differs where its program is a trainer that writes no records.
#include "agent/running_attempt.hpp"

namespace shardsweep::agent {

void RunningAttempt::follow_trainer() {
  if (!spec_.trainer) return;
  auto logs = TrainerLogs::make(spec_, paths_);
  if (!logs) {
    evidence_.push_back({clock_.now(), Outcome::rejected, logs.error().what, "agent"});
    return;
  }
  trainer_ = *std::move(logs);
  if (has_rank_zero()) trainer_->begin(clock_);
}

/// Everything that printed is gone. A log that ends early because the attempt was cut short
/// has no fault.
void RunningAttempt::finish_trainer() {
  if (!trainer_) return;
  trainer_->finish(clock_, cutting_ || !evidence_.empty());
  if (trainer_->has_result()) measured_ = true;
  if (!trainer_->fault().empty()) log_.line("its records: " + trainer_->fault());
}

/// Of a runner rank 0 writes it, of a trainer whoever prints the train steps.
bool RunningAttempt::result_is_due() const {
  return trainer_ ? !trainer_->is_elsewhere() : has_rank_zero();
}

}  // namespace shardsweep::agent
