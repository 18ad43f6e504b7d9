// SPDX-License-Identifier: Apache-2.0
#include "fleet/outside.hpp"

#include "fleet/plausible.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view no_worker = "outside";
constexpr std::string_view named_worker = "outside ";
/// Tolerance for two rounded numbers: tokens per second, and milliseconds.
constexpr double rounding = 0.02;
constexpr std::size_t least_evidence = 3;
constexpr std::size_t most_evidence = 2000;

/// The next line that its lead would write.
void say(Fold fold, const Policy& policy, const AllocationRow& row, FromLeadBody body) {
  fold_line(
      fold, policy, row.id, FromLead{row.from_lead_n + 1, fold.now, std::move(body)}, std::nullopt);
}

Result<void> wrong(std::string what) {
  return fault(FaultKind::invalid_input, std::move(what));
}

Result<void> check_number(std::string_view name, double value) {
  if (std::isfinite(value) && value >= 0 && value < 9e18) return {};
  return wrong(fmt::format("{} is {}; it must be a number from 0 to 9e18.", name, value));
}

Result<void> check_failure(const OutsideResult& result) {
  if (result.outcome != Outcome::oom && result.outcome != Outcome::crashed)
    return wrong(fmt::format("The outcome '{}' can't be recorded; write completed, oom or crashed.",
        word_of(result.outcome)));
  if (result.tokens_per_s > 0 || result.step_ms > 0)
    return wrong(
        fmt::format("A trial that ended {} has no speed: leave --tokens-per-s and --step-ms out.",
            word_of(result.outcome)));
  const std::string shown = one_line(result.evidence, most_evidence);
  if (shown.size() < least_evidence)
    return wrong(
        fmt::format("A trial that ended {} needs --evidence: the line of its log that "
                    "says so.",
            word_of(result.outcome)));
  return {};
}

}  // namespace

const TrialRow* waiting_trial(const World& world, SweepId sweep, std::string_view slug) {
  for (const auto& [nodes, queue] : world.index().waiting(sweep)) {
    for (const auto& [position, id] : queue.order()) {
      if (world.trials().at(id).slug == slug) return world.trial(id);
    }
  }
  return nullptr;
}

bool is_worker_name(std::string_view name) {
  constexpr std::string_view inner =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  constexpr std::size_t longest = 32;
  return !name.empty() && name.size() <= longest &&
      name.find_first_not_of(inner) == std::string_view::npos &&
      inner.find(name.front()) < inner.size() - 3;
}

AllocationRow outside_allocation(
    AllocationRow row, const std::string& sweep, const HandOut& asked, Timestamp now) {
  row.host =
      asked.worker.empty() ? std::string(no_worker) : std::string(named_worker) + asked.worker;
  row.job_name = fmt::format("{}-outside{}{}_{}", sweep.substr(0, 24),
      asked.worker.empty() ? "" : "-", asked.worker, row.token);
  row.state = State::running;
  row.submission = Submission::accepted;
  row.job_state = JobState::running;
  row.claimed_at = row.running_since = row.last_beat = now;
  row.started = true;
  row.deadline = now + static_cast<Timestamp>(asked.lease_s * 1e6);
  return row;
}

void hold_outside(Fold fold, const Policy& policy, const AllocationRow& row) {
  for (const AttemptId id : open_attempts(fold.world, row.id))
    say(fold, policy, row, Started{.attempt = id, .nonce = {}});
  fold.world.edit(row)->draining = true;
}

std::string worker_of(const std::string& host) {
  return host.starts_with(named_worker) ? host.substr(named_worker.size()) : std::string();
}

std::string why_unwanted(const World& world, const AllocationRow& row) {
  const SweepRow* sweep = world.sweep(row.sweep);
  if (sweep == nullptr || sweep->state == SweepState::cancelled) return "The sweep was cancelled.";
  for (const AttemptId id : open_attempts(world, row.id)) {
    const AttemptRow& attempt = world.attempts().at(id);
    const TrialRow* trial = world.trial(attempt.trial);
    if (attempt.revoked) return "The trial was planned again, so this attempt no longer counts.";
    if (trial == nullptr || trial->state == State::ended) return "The trial was cancelled.";
  }
  return "";
}

std::string why_taken_back(const World& world, const AllocationRow& row, Timestamp now) {
  if (std::string why = why_unwanted(world, row); !why.empty()) return why;
  return row.deadline <= now ? "The point's lease ended before a result was recorded." : "";
}

bool is_still_wanted(const World& world, const OutsideAttempt& late) {
  const SweepRow* sweep = world.sweep(late.sweep);
  const TrialRow* trial = world.trial(late.trial);
  if (late.revoked || trial == nullptr || sweep == nullptr) return false;
  if (sweep->state != SweepState::active) return false;
  return trial->state == State::planned || trial->outcome == Outcome::lost;
}

void close_outside(Fold fold, const Policy& policy, AllocationId id, const Ending& ending,
    const std::optional<RecordsSummary>& records) {
  const AllocationRow* row = fold.world.allocation(id);
  if (row == nullptr) return;
  for (const AttemptId attempt : open_attempts(fold.world, id))
    fold_line(fold, policy, id,
        FromLead{row->from_lead_n + 1, fold.now,
            Ended{.attempt = attempt, .nonce = {}, .ending = ending, .pack = {}}},
        records);
  {
    auto edit = fold.world.edit(*row);
    edit->said_bye = true;
    edit->job_state = JobState::ended;
  }
  fold_gone(fold, policy, id, {},
      ending.source == SaidBy::daemon ? ending.cause : std::string("recorded"));
}

void take_back(Fold fold, const Policy& policy, AllocationId id, const std::string& why) {
  close_outside(fold, policy, id,
      {.outcome = Outcome::lost, .cause = why, .source = SaidBy::daemon}, std::nullopt);
}

Result<void> check(const OutsideResult& result, const OutsidePoint& point) {
  SHARDSWEEP_TRY(check_number("--tokens-per-s", result.tokens_per_s));
  SHARDSWEEP_TRY(check_number("--step-ms", result.step_ms));
  SHARDSWEEP_TRY(check_number("--memory", result.peak_memory_bytes));
  if (result.steps < 0) return wrong("--steps has to be above 0.");
  if (point.device_memory_bytes > 0 && result.peak_memory_bytes > point.device_memory_bytes)
    return wrong(fmt::format("--memory says {} of a GPU, and one has {}.",
        bytes_text(result.peak_memory_bytes), bytes_text(point.device_memory_bytes)));
  if (result.outcome != Outcome::completed) return check_failure(result);
  if (!result.evidence.empty()) return wrong("--evidence belongs to --outcome oom or crashed.");
  if (result.tokens_per_s <= 0 && result.step_ms <= 0)
    return wrong("The speed is missing: give --tokens-per-s or --step-ms.");
  const auto told = other_tokens(
      result.tokens_per_s, result.step_ms, static_cast<double>(point.tokens_per_step), rounding);
  if (!told) return {};
  return wrong(fmt::format(
      "--tokens-per-s and --step-ms are of {} tokens per train step, and this point "
      "has {}. --tokens-per-s is that of all {}.",
      grouped(std::llround(*told)), grouped(point.tokens_per_step), counted(point.gpus, "GPU")));
}

AddMeasurement measurement_of(
    const OutsideResult& result, const OutsidePoint& point, const std::string& worker) {
  const auto tokens = static_cast<double>(point.tokens_per_step);
  const double step_ms = result.step_ms > 0 ? result.step_ms : tokens / result.tokens_per_s * 1e3;
  const double tokens_per_s =
      result.tokens_per_s > 0 ? result.tokens_per_s : tokens / step_ms * 1e3;
  AddMeasurement measurement;
  measurement.metrics = {{"tokens_per_s", tokens_per_s},
      {"tokens_per_s_per_gpu", tokens_per_s / point.gpus}, {"train_step_ms", step_ms},
      {"tokens_per_step", tokens}};
  if (result.peak_memory_bytes > 0)
    measurement.metrics.emplace("peak_memory_bytes", result.peak_memory_bytes);
  if (result.steps > 0) measurement.metrics.emplace("steps", static_cast<double>(result.steps));
  measurement.hosts = worker.empty() ? R"(["outside"])" : fmt::format(R"(["outside {}"])", worker);
  return measurement;
}

}  // namespace shardsweep
