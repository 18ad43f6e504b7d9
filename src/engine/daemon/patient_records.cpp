// SPDX-License-Identifier: Apache-2.0
#include "daemon/patient_records.hpp"

#include "fleet/plausible.hpp"
#include "predict/memory.hpp"

#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

/// A fault if they are there and can't be read: then nothing may be concluded. What a lead
/// has `packed` is there, whether this host sees it yet or not.
Result<RecordsSummary> read_records(
    const AttemptPaths& paths, const std::string& nonce, bool packed) {
  SHARDSWEEP_ASSIGN(const bool pack_is_there, look_for(paths.pack()));
  // This host may see an old state of the folder: the pack is whole.
  if (packed && !pack_is_there)
    return fault(FaultKind::unavailable, paths.pack().string() + " is not there");
  SHARDSWEEP_ASSIGN(const bool folder_is_there, look_for(paths.dir));
  if (!pack_is_there && !folder_is_there) return RecordsSummary{};
  SHARDSWEEP_ASSIGN(const AttemptRecords records, read_attempt_records(paths));
  return summarise_records(records.text, nonce);
}

std::optional<std::int64_t> parameters_for(const SweepSpec& sweep, const Point& point) {
  if (!sweep.runner.is_shardbench()) return std::nullopt;
  return parameters(sweep.models.at(static_cast<std::size_t>(point.model)));
}

}  // namespace

/// Tried again, ever more rarely, for longer than an NFS client believes what it knows: what
/// can't be read must not hold up its trial for ever. While nothing at all can be stored there
/// is no limit.
std::optional<RecordsSummary> PatientRecords::read(
    const AttemptPaths& paths, const std::string& nonce, bool packed, SweepId sweep) {
  using namespace std::chrono_literals;
  constexpr auto first_pause = 500ms;
  constexpr auto longest_pause = 10s;
  const double limit_s = sweeps_.policy_of(sweep).records_limit_s;
  const std::chrono::duration<double> limit(limit_s);
  const auto now = parts_.clock.steady();
  const auto known = unreadable_.find(nonce);
  const auto nothing = [](const std::string& why) {
    RecordsSummary summary;
    summary.unreadable = why;
    return summary;
  };
  if (known != unreadable_.end()) {
    if (!known->second.given_up.empty()) return nothing(known->second.given_up);
    if (now < known->second.again) return std::nullopt;
  }
  auto read = read_records(paths, nonce, packed);
  if (read) {
    if (unreadable_.erase(nonce) > 0) tell(sweep);
    return std::move(*read);
  }
  health_.doubt_storage();
  Unreadable& one =
      unreadable_.try_emplace(nonce, Unreadable{now, now, first_pause, sweep, parts_.clock.now()})
          .first->second;
  one.why = read.error().what;
  if (health_.storage_fails()) one.since = now;
  if (now - one.since < limit) {
    if (one.again == one.since)
      log_warning(fmt::format("{}: tried again for {:g} s", read.error().what, limit_s));
    one.again = now + one.pause;
    one.pause = std::min<std::chrono::milliseconds>(one.pause * 2, longest_pause);
    tell(sweep);
    return std::nullopt;
  }
  one.given_up = "the attempt's folder can't be read: " + one.why;
  log_warning(one.given_up);
  tell(sweep);
  return nothing(one.given_up);
}

/// Tells `status` for which records the sweep waits.
void PatientRecords::tell(SweepId sweep) {
  const SweepRow* row = world_.sweep(sweep);
  if (row == nullptr) return;
  std::int32_t waiting = 0;
  const Unreadable* first = nullptr;
  for (const auto& [nonce, one] : unreadable_) {
    if (one.sweep != sweep || !one.given_up.empty()) continue;
    ++waiting;
    if (first == nullptr || one.told_since < first->told_since) first = &one;
  }
  health_.note_unreadable(row->name, waiting, first == nullptr ? 0 : first->told_since,
      first == nullptr ? "" : first->why);
}

/// Why a result can't be true; empty if nothing is known against it.
Result<std::string> PatientRecords::doubt_of(
    const AttemptRow& attempt, const AddMeasurement& result) {
  const TrialRow* trial = world_.trial(attempt.trial);
  const SweepRow* sweep = trial == nullptr ? nullptr : world_.sweep(trial->sweep);
  if (sweep == nullptr) return "";
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(*sweep));
  SHARDSWEEP_ASSIGN(const Point point, parts_.store.point_of(attempt.trial, context->spec));
  const double steps = result.metric("steps") + result.metric("warmup");
  SHARDSWEEP_ASSIGN(auto losses, parts_.store.losses_of_others(attempt.trial, steps));
  return why_implausible(result.metrics,
      {.n_params = parameters_for(context->spec, point),
          .tokens_per_step = point.layout.global_batch() * point.seq_len,
          .gpus = static_cast<std::int32_t>(point.layout.world()),
          .losses = std::move(losses)});
}

/// Marks a result that can't be true, or is of another version than its trial. One that can't
/// be judged is believed.
void PatientRecords::judge(const AttemptRow& attempt, RecordsSummary& records) {
  if (!records.result || !records.doubt.empty()) return;
  auto doubt = doubt_of(attempt, *records.result);
  const auto runner = parts_.store.runner_of(attempt.trial);
  if (!runner) log_warning(runner.error().what);
  // The program of another day is measured again because it is another one.
  const TrialRow* trial = world_.trial(attempt.trial);
  const bool of_sweep = trial == nullptr || trial->software.empty();
  if (runner && doubt && doubt->empty() && of_sweep)
    doubt = why_other_runner(*runner, {records.runner, records.runner_version});
  if (!doubt) return log_warning(doubt.error().what);
  if (doubt->empty()) return;
  records.result->mark = Mark::implausible;
  records.doubt = *doubt;
}

}  // namespace shardsweep
