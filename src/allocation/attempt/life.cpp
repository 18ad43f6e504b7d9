// SPDX-License-Identifier: Apache-2.0
#include "attempt/life.hpp"

#include <shardsweep/invariant.hpp>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

// A rank whose peer has failed needs a moment to notice, to say so and to leave.
constexpr double peer_grace_s = 2;
// Slurm asks the other tasks to leave, and sends SIGKILL after its KillWait: 30 s, if a site
// has not set it.
constexpr double step_end_s = 60;
// Children of a rank that end with it (a loader's pipe closes) are not called leaked.
constexpr double settle_s = 0.1;
// Time after SIGKILL after which a process counts as stuck in state D. Nothing here can help; the
// node is out.
constexpr double unkillable_s = 30;

}  // namespace

AttemptLife::AttemptLife(const AttemptSpec& spec, bool has_rank_zero, double now_s)
    : attempt_(spec.attempt),
      nonce_(spec.nonce),
      grace_s_(spec.limits.grace_s),
      has_rank_zero_(has_rank_zero),
      watch_(spec, now_s),
      cut_(spec),
      since_s_(now_s) {}

void AttemptLife::enter(Stage stage, double now_s) {
  INVARIANT(stage > stage_, "an attempt's stages follow each other", attempt_, stage_, stage);
  stage_ = stage;
  since_s_ = now_s;
}

void AttemptLife::see(int rank, const Record& record, Moment now) {
  // Rank 0 speaks for the world; the others only have something to say when they fail.
  if (rank == 0 || !has_rank_zero_) watch_.see(record, now.s);
  if (record.type == RecordType::result && record.nonce == nonce_) findings_.see_result();
  if (rank == 0 && runs()) hopeless_ = cut_.see(record) || hopeless_;
  if (record.type != RecordType::error) return;
  // Complaints of ranks after our own SIGTERM follow from it.
  if (stage_ == Stage::ending && (is_cut_here() || record.t == 0)) return;
  findings_.add_failure(evidence_of_error(record, rank, now.at), now.s);
}

void AttemptLife::see_exit(int rank, const std::optional<Evidence>& failure, Moment now) {
  if (!runs()) return;
  if (!failure) {
    findings_.see_early_exit(rank, now.at);
    watch_.see_early_exit(now.s);
    return;
  }
  findings_.add_failure(*failure, now.s);
}

void AttemptLife::see_failing(Evidence failure, double now_s) {
  failing_ = std::move(failure);
  failing_since_s_ = now_s;
}

void AttemptLife::stretch(double gap_s) {
  watch_.stretch(gap_s);
  failing_since_s_ += gap_s;
  findings_.stretch(gap_s);
}

AttemptLife::Order AttemptLife::next_of_running(const Around& around, Moment now) {
  if (findings_.may_be_told_next(now.s)) return Order::wait;
  const auto failed_at_s = findings_.failed_at_s();
  if (around.ranks_gone) {
    if (!failed_at_s && around.awaits_version) return Order::wait;
    enter(Stage::settling, now.s);
    return Order::settle;
  }
  if (!around.refused_version.empty()) {
    refuse_version(around.refused_version, now.at);
  } else if (failed_at_s) {
    if (now.s - *failed_at_s <= std::min(peer_grace_s, grace_s_)) return Order::wait;
  } else if (failing_) {
    // Ranks that stand still meanwhile wait for a peer that is gone.
    if (now.s - failing_since_s_ <= step_end_s) return Order::wait;
    findings_.add_failure(*failing_, now.s);
  } else if (hopeless_ && !findings_.measured()) {
    cut_by_ = CutBy::this_node;
  } else {
    return Order::judge;
  }
  begin_ending(now.s);
  return Order::terminate;
}

AttemptLife::Order AttemptLife::next_of_ending(bool ranks_gone, double now_s) {
  if (ranks_gone) {
    enter(Stage::settling, now_s);
    return Order::settle;
  }
  if (now_s - since_s_ < grace_s_) return Order::wait;
  if (now_s - since_s_ >= grace_s_ + unkillable_s) enter(Stage::reaping, now_s);
  return Order::kill;
}

AttemptLife::Order AttemptLife::next_of_settling(bool left, double now_s) {
  if (left && now_s - since_s_ < settle_s) return Order::wait;
  enter(Stage::reaping, now_s);
  return Order::reap;
}

bool AttemptLife::has_reaped(bool clean, double now_s) const {
  return clean || now_s - since_s_ >= unkillable_s;
}

AttemptLife::Order AttemptLife::end(Outcome outcome, const std::string& why, Moment now) {
  const bool by_limit = outcome == Outcome::hung || outcome == Outcome::timeout;
  const bool by_peer = outcome == Outcome::crashed;
  // An attempt that is preempted or cancelled has no time for the rest of the evidence.
  if (stage_ == Stage::looking && !by_limit && !by_peer) {
    begin_ending(now.s);
    return Order::terminate;
  }
  if (!runs()) return Order::wait;
  findings_.add({now.at, {outcome, why, by_limit ? SaidBy::policy : SaidBy::request}});
  enter(by_limit ? Stage::looking : Stage::ending, now.s);
  return by_limit ? Order::look : Order::terminate;
}

std::optional<Suspect> AttemptLife::suspicion(double now_s, const std::vector<int>& living) const {
  // Only the node of rank 0 can tell: the records are there.
  if (!runs() || findings_.failed_at_s() || failing_ || !has_rank_zero_) return std::nullopt;
  const auto verdict = watch_.judge(now_s);
  if (!verdict || verdict->outcome != Outcome::hung) return std::nullopt;
  return Suspect{attempt_, watch_.limit_s(), findings_.with_early_exit(verdict->cause, living)};
}

/// Rejects a trainer whose version is unknown: its output may not mean what we read.
void AttemptLife::refuse_version(const std::string& why, Timestamp at) {
  if (!why.empty() && findings_.empty())
    findings_.add({at, {Outcome::rejected, why, SaidBy::agent}});
}

void AttemptLife::set_cut_elsewhere() {
  if (!cut_by_) cut_by_ = CutBy::another;
}

}  // namespace shardsweep
