// SPDX-License-Identifier: Apache-2.0
// What of an attempt differs where its program is a trainer that writes no records.
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"

namespace shardsweep::agent {

void RunningAttempt::follow_trainer() {
  if (!spec_.trainer) return;
  const int nodes = node_.ranks_are_step
                        ? 1
                        : (spec_.world + spec_.ranks_per_node - 1) / spec_.ranks_per_node;
  auto logs = TrainerLogs::make(spec_, paths_, nodes, node_.index);
  if (!logs) {
    evidence_.push_back({clock_.now(), Outcome::rejected, logs.error().what, SaidBy::agent});
    return;
  }
  trainer_ = *std::move(logs);
  if (has_rank_zero()) trainer_->begin(clock_);
}

/// Its version is not told by all logs: a program beside the first rank looks for it.
void RunningAttempt::start_probe(RankProcess like) {
  if (!trainer_) return;
  like.group = ranks_.empty() ? 0 : ranks_.front().pid;
  probe_.start(spec_, std::move(like), trainer_->probe_output());
}

/// True while the ranks are gone and it has to be waited for.
bool RunningAttempt::probe_is_due() {
  constexpr double probe_limit_s = 10;
  if (!probe_.runs()) return false;
  const double now_s = seconds_of(clock_);
  if (!probe_awaited_s_) probe_awaited_s_ = now_s;
  if (now_s - *probe_awaited_s_ < probe_limit_s) return true;
  probe_.end();
  return false;
}

/// What it would print is not known to mean what we read.
void RunningAttempt::refuse_version() {
  if (!trainer_ || trainer_->refused().empty() || !evidence_.empty()) return;
  evidence_.push_back({clock_.now(), Outcome::rejected, trainer_->refused(), SaidBy::agent});
}

/// Everything that printed is gone. That the log of an attempt that was cut short ends early is
/// no fault.
void RunningAttempt::finish_trainer() {
  if (!trainer_) return;
  if (cutting_ || cut_elsewhere_) {
    trainer_->finish_cut(clock_, cutting_ ? CutBy::this_node : CutBy::another);
  } else {
    trainer_->finish(clock_, !evidence_.empty());
  }
  if (trainer_->has_result()) measured_ = true;
  // Records are read back where rank 0 is; its node may have ended before.
  if (trainer_->error() && !has_rank_zero())
    take_record(ranks_.back().number, *trainer_->error());
  if (!trainer_->fault().empty()) log_.line("its records: " + trainer_->fault());
}

/// Of a runner rank 0 writes it, of a trainer whoever prints the train steps.
bool RunningAttempt::result_is_due() const {
  return trainer_ ? !trainer_->is_elsewhere() : has_rank_zero();
}

}  // namespace shardsweep::agent
