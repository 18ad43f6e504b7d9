// SPDX-License-Identifier: Apache-2.0
#include "attempt/assignments.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep {

AssignmentNews Assignments::apply(const ToLead& line) {
  AssignmentNews news;
  if (line.epoch < epoch_) return news;
  epoch_ = line.epoch;
  if (const auto* one = std::get_if<Assign>(&line.body)) assign(*one, news);
  if (const auto* one = std::get_if<Revoke>(&line.body)) revoke(one->attempt, news);
  if (const auto* one = std::get_if<Cancel>(&line.body)) cancel(*one, news);
  if (std::holds_alternative<Drain>(line.body)) {
    draining_ = true;
    news.revoked = give_back();
  }
  return news;
}

void Assignments::assign(const Assign& assign, AssignmentNews& news) {
  if (!seen_.insert(assign.attempt).second) return;
  const auto unwanted = unwanted_.find(assign.attempt);
  if (unwanted != unwanted_.end()) {
    news.cancelled.emplace_back(assign, unwanted->second);
  } else if (draining_) {
    news.revoked.push_back(assign.attempt);
  } else {
    queue_.push_back(assign);
  }
}

void Assignments::revoke(AttemptId attempt, AssignmentNews& news) {
  // An attempt that was never assigned here will not be started either.
  const bool fresh = seen_.insert(attempt).second;
  if (take(attempt) || fresh) news.revoked.push_back(attempt);
}

void Assignments::cancel(const Cancel& cancel, AssignmentNews& news) {
  if (auto waiting = take(cancel.attempt)) {
    news.cancelled.emplace_back(*std::move(waiting), cancel.why);
  } else if (cancel.attempt == running_) {
    news.end_running = cancel;
  } else if (!seen_.contains(cancel.attempt)) {
    unwanted_.emplace(cancel.attempt, cancel.why);
  }
}

std::optional<Assign> Assignments::take(AttemptId attempt) {
  const auto found = std::find_if(
      queue_.begin(), queue_.end(), [&](const Assign& one) { return one.attempt == attempt; });
  if (found == queue_.end()) return std::nullopt;
  Assign taken = *found;
  queue_.erase(found);
  return taken;
}

std::optional<NextAssignment> Assignments::next() {
  if (queue_.empty()) return std::nullopt;
  NextAssignment next{queue_.front(), ""};
  queue_.pop_front();
  const auto oom = oom_.find(next.assign.lane);
  if (oom != oom_.end() && next.assign.micro_batch > oom->second.micro_batch) {
    next.skipped_because = fmt::format(
        "micro_batch {} ran out of memory ({})", oom->second.micro_batch, oom->second.trial);
  } else {
    running_ = next.assign.attempt;
  }
  return next;
}

void Assignments::ended(const Assign& assign, Outcome outcome) {
  if (running_ == assign.attempt) running_ = 0;
  if (outcome != Outcome::oom || assign.lane.empty()) return;
  const auto [at, fresh] =
      oom_.try_emplace(assign.lane, OutOfMemory{assign.micro_batch, assign.trial});
  if (!fresh && assign.micro_batch < at->second.micro_batch)
    at->second = {assign.micro_batch, assign.trial};
}

std::vector<AttemptId> Assignments::give_back() {
  std::vector<AttemptId> waiting;
  for (const auto& one : queue_)
    waiting.push_back(one.attempt);
  queue_.clear();
  return waiting;
}

std::vector<AttemptId> Assignments::give_back_unfit(const WallTime& time) {
  std::vector<AttemptId> unfit;
  for (const auto& one : queue_) {
    if (!time.fits(one.predicted_s)) unfit.push_back(one.attempt);
  }
  std::erase_if(queue_, [&](const Assign& one) { return !time.fits(one.predicted_s); });
  return unfit;
}

}  // namespace shardsweep
