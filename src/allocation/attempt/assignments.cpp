// SPDX-License-Identifier: Apache-2.0
#include "attempt/assignments.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace shardsweep {

// Decision: A lead starts nothing that cannot end before its job does.

bool WallTime::fits(double predicted_s) const {
  if (!left_s) return true;
  const double needed_s = predicted_s > 0 ? predicted_s * margin + grace_s : stop_before_end_s;
  return needed_s <= *left_s - stop_before_end_s;
}

bool WallTime::is_up() const {
  return left_s && *left_s <= stop_before_end_s;
}

WallTime wall_time_of(const AllocationSpec& spec, std::optional<double> left_s) {
  return {left_s, spec.limits.time_margin, spec.grace_s, spec.limits.stop_before_end_s};
}

std::optional<JobEndAnswer> job_end_in(std::string_view text) {
  const std::string_view word = trimmed(text);
  // Ask again after "Unknown", which promises nothing: it is not in this list.
  constexpr std::array<std::string_view, 5> never{
      "NONE", "None", "UNLIMITED", "Unlimited", "INFINITE"};
  if (std::find(never.begin(), never.end(), word) != never.end()) return JobEndAnswer{};
  std::int64_t seconds = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, seconds);
  // Numbers outside 2001 to 5138 are no times in seconds.
  constexpr std::int64_t earliest = 1'000'000'000;
  constexpr std::int64_t latest = 100'000'000'000;
  if (error != std::errc() || stop != end || seconds < earliest || seconds > latest)
    return std::nullopt;
  return JobEndAnswer{seconds * 1'000'000};
}

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

// Decision: An attempt without its program or without storage is `lost` and never charged: the
// lead waits for both. `said_lines` keeps lines until they are written.

namespace {

constexpr double look_again_s = 1;
// A program that is being installed is back within seconds.
constexpr double first_pause_s = 5;
constexpr int most_failed_starts = 3;

}  // namespace

void StartGate::note_end(const Ending& ending, double now_s) {
  if (ending.outcome == Outcome::lost) doubted_ = true;
  if (!ending.found_code.empty()) changed_ = ending.cause;
  if (ending.start_error == 0) {
    failed_starts_ = 0;
    return;
  }
  last_failure_ = ending.cause;
  start_again_s_ = now_s + first_pause_s * (1 << failed_starts_++);
}

std::string StartGate::start_fault() const {
  if (!changed_.empty()) return changed_;
  return failed_starts_ < most_failed_starts ? "" : "no program could be started: " + last_failure_;
}

bool StartGate::is_open(double now_s, const StorageLook& look, const GateNews& log) {
  return now_s >= start_again_s_ && storage_works(now_s, look, log);
}

bool StartGate::storage_works(double now_s, const StorageLook& look, const GateNews& log) {
  const bool shut = !fault_.empty();
  if (shut && now_s < looked_at_s_ + look_again_s) return false;
  looked_at_s_ = now_s;
  const std::string fault = look(doubted_);
  doubted_ = !fault.empty();
  fault_ = fault.empty() ? "" : "no file could be written: " + fault;
  if (!fault.empty() && !shut) log("starting no attempt for now: " + fault_);
  if (fault.empty() && shut) log("starting attempts again: files can be written");
  return fault.empty();
}

}  // namespace shardsweep
