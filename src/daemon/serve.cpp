// SPDX-License-Identifier: Apache-2.0
// Requests of commands: each is done, committed, answered, and only then forgotten.
#include "daemon/daemon.hpp"
#include "domain/nodes.hpp"
#include "domain/starts.hpp"
#include "domain/trial_change.hpp"

#include <shardsweep/imported.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::int64_t inbox_rows_per_tick = 5'000;  // some 50 ms

Fault unknown_sweep(const std::string& name) {
  return {FaultKind::invalid_input, fmt::format("no sweep is called '{}'", name)};
}

/// Ended without a verdict on the layout, and not by the layout's doing: worth another try.
bool interrupted(Outcome outcome) {
  return outcome == Outcome::cancelled || info(outcome).retry == Retry::elsewhere;
}

/// Nothing of it can run: it was measured elsewhere.
Result<void> refuse_imported(const SweepRow& sweep) {
  if (sweep.backend != imported_backend) return {};
  return fault(FaultKind::invalid_input,
               fmt::format("'{}' was imported: there is nothing of it to run", sweep.name));
}

bool concerns(const std::vector<TrialRow>& trials, const SweepRow& sweep) {
  return std::any_of(trials.begin(), trials.end(),
                     [&](const TrialRow& trial) { return trial.sweep == sweep.id; });
}

}  // namespace

Result<void> Daemon::serve_requests() {
  watch_.clear();
  const auto pending = pending_requests(parts_.home);
  if (!pending) {
    log_warning(pending.error().what);
    return {};
  }
  serving_ = !pending->empty();
  for (const PendingRequest& waiting : *pending) {
    SHARDSWEEP_ASSIGN(const bool done, serve_one(waiting));
    if (!done) return {};  // goes on in the next tick
  }
  return {};
}

/// False where it is not done yet. What is done is done once: where its answer can't be written
/// the answer alone is tried again.
Result<bool> Daemon::serve_one(const PendingRequest& waiting) {
  if (unsent_.find(waiting.id) == unsent_.end()) {
    // What it changes is committed before the tick decides: no change is left to tell of it.
    decided_ = false;
    Answer answer;
    auto served =
        waiting.request
            ? serve(*waiting.request)
            : Result<std::optional<Answer>>(tl::unexpected<Fault>(waiting.request.error()));
    if (served) {
      if (!*served) return false;
      answer = std::move(**served);
    } else {
      if (served.error().kind == FaultKind::rejected)
        return tl::unexpected<Fault>(served.error());
      if (served.error().kind == FaultKind::busy) return false;
      answer.fault = served.error();
    }
    answer.id = waiting.id;
    log_info(fmt::format("request {}: {}", waiting.id,
                         answer.fault ? answer.fault->what : answer.text));
    unsent_.emplace(waiting.id, std::move(answer));
  }
  SHARDSWEEP_TRY(commit());
  forget_searches();
  if (const auto told = answer_request(parts_.home, unsent_.at(waiting.id)); !told) {
    log_warning(told.error().what);
    return false;
  }
  unsent_.erase(waiting.id);
  if (waiting.request && waiting.request->verb == Verb::submit) {
    std::error_code ignored;
    std::filesystem::remove(waiting.request->inbox, ignored);
  }
  return true;
}

Result<std::optional<Answer>> Daemon::serve(const Request& request) {
  switch (request.verb) {
    case Verb::submit:
      return serve_submit(request);
    case Verb::pause:
      return serve_state(request, SweepState::paused);
    case Verb::resume:
      return serve_state(request, SweepState::active);
    case Verb::cancel:
      if (request.where.empty() &&
          std::all_of(request.names.begin(), request.names.end(), [&](const auto& name) {
            return std::any_of(world_.sweeps.begin(), world_.sweeps.end(),
                               [&](const SweepRow& sweep) { return sweep.name == name; });
          })) {
        return serve_state(request, SweepState::cancelled);
      }
      return serve_trials(request);
    case Verb::rerun:
      return serve_trials(request);
    case Verb::clear_node:
      return serve_clear_node(request);
    case Verb::stop:
      asked_to_stop_ = true;
      return Answer{.text = "the daemon stops; what runs goes on"};
  }
  return fault(FaultKind::invalid_input, "unknown verb");
}

Result<std::optional<Answer>> Daemon::serve_submit(const Request& request) {
  SHARDSWEEP_TRY(commit());
  SHARDSWEEP_ASSIGN(
      const auto progress,
      parts_.store.accept_inbox(request.inbox, parts_.clock.now(), inbox_rows_per_tick));
  if (!progress.done) return std::nullopt;
  SHARDSWEEP_TRY(reload());
  const SubmitReport& report = progress.report;
  Answer answer;
  answer.text = report.resubmitted
                    ? fmt::format(
                          "'{}' resubmitted: {} trials, {} new, {} known ({} with an "
                          "outcome), {} gone",
                          report.name, report.trials, report.fresh, report.known,
                          report.measured, report.gone)
                    : fmt::format("'{}' submitted: {} trials", report.name, report.trials);
  answer.counts = {{"sweep", report.sweep},       {"trials", report.trials},
                   {"fresh", report.fresh},       {"known", report.known},
                   {"measured", report.measured}, {"gone", report.gone},
                   {"left_out", report.left_out}, {"resubmitted", report.resubmitted ? 1 : 0}};
  return answer;
}

void Daemon::plan_trial(TrialRow row) {
  plan_again(row);
  row.charged = row.elsewhere = 0;
  // An attempt that is still to be cancelled says nothing about the trial any more.
  for (auto& [id, attempt] : world_.attempts) {
    if (attempt.trial != row.id || attempt.state == State::ended) continue;
    attempt.revoked = true;
    changes_.emplace_back(PutAttempt{.row = attempt});
  }
  changes_.emplace_back(trial_change(row, ""));
  world_.trials[row.id] = std::move(row);
}

void Daemon::cancel_trial(TrialRow row, CancelledBy by) {
  changes_.emplace_back(end_trial(
      row,
      {.outcome = Outcome::cancelled, .cause = "cancelled on request", .cancelled_by = by}));
  world_.trials[row.id] = std::move(row);
}

void Daemon::cancel_sweep(const SweepRow& sweep, Answer& answer) {
  std::vector<TrialRow> open;
  for (const auto& [id, trial] : world_.trials) {
    if (trial.sweep == sweep.id && trial.state != State::ended) open.push_back(trial);
  }
  for (const TrialRow& trial : open) {
    cancel_trial(trial, CancelledBy::sweep);
  }
  answer.counts["trials"] += static_cast<std::int64_t>(open.size());
}

Result<void> Daemon::resume_sweep(const SweepRow& sweep, Answer& answer) {
  SHARDSWEEP_ASSIGN(const auto ended,
                    parts_.store.select_trials({sweep.name}, "state = 'ended'"));
  for (const TrialRow& trial : ended) {
    if (trial.hidden || !trial.outcome || !interrupted(*trial.outcome)) continue;
    plan_trial(trial);
    ++answer.counts["trials"];
  }
  return {};
}

/// All of them where none is named.
Result<std::vector<SweepRow*>> Daemon::sweeps_named(const std::vector<std::string>& names) {
  std::vector<SweepRow*> found;
  for (SweepRow& sweep : world_.sweeps) {
    if (names.empty()) found.push_back(&sweep);
  }
  for (const std::string& name : names) {
    const auto sweep = std::find_if(world_.sweeps.begin(), world_.sweeps.end(),
                                    [&](const SweepRow& row) { return row.name == name; });
    if (sweep == world_.sweeps.end()) return tl::unexpected<Fault>(unknown_sweep(name));
    found.push_back(&*sweep);
  }
  return found;
}

Result<void> Daemon::set_sweep(SweepRow& sweep, SweepState state, const Request& request,
                               Answer& answer) {
  sweep.state = state;
  sweep.failed_starts = sweep.failed_nodes = 0;
  changes_.emplace_back(stored(sweep));
  changes_.emplace_back(
      AddEvent{.at = parts_.clock.now(),
               .sweep = sweep.id,
               .kind = std::string(verb_words[static_cast<std::size_t>(request.verb)]),
               .detail = request.from});
  if (state == SweepState::cancelled) cancel_sweep(sweep, answer);
  if (state == SweepState::active) return resume_sweep(sweep, answer);
  for (auto& [id, allocation] : world_.allocations) {
    if (allocation.sweep != sweep.id || allocation.draining) continue;
    allocation.draining = true;
    changes_.emplace_back(PutAllocation{.row = allocation});
  }
  return {};
}

Result<Answer> Daemon::serve_state(const Request& request, SweepState state) {
  SHARDSWEEP_TRY(commit());
  SHARDSWEEP_ASSIGN(const auto sweeps, sweeps_named(request.names));
  Answer answer;
  for (SweepRow* sweep : sweeps) {
    // Without a name those that are over stay as they are.
    if (request.names.empty() && sweep->state == SweepState::cancelled) continue;
    SHARDSWEEP_TRY(refuse_imported(*sweep));
    SHARDSWEEP_TRY(set_sweep(*sweep, state, request, answer));
    ++answer.counts["sweeps"];
  }
  const std::int64_t count = answer.counts["sweeps"];
  answer.text =
      fmt::format("{}: {} sweep{}", sweep_state_words[static_cast<std::size_t>(state)], count,
                  count == 1 ? "" : "s");
  if (answer.counts.count("trials") != 0) {
    answer.text += fmt::format(", {} trials {}", answer.counts["trials"],
                               state == SweepState::active ? "queued again" : "cancelled");
  }
  return answer;
}

Result<Answer> Daemon::serve_clear_node(const Request& request) {
  Answer answer;
  for (const std::string& name : request.names) {
    const auto node = world_.nodes.find(name);
    if (node == world_.nodes.end()) {
      return fault(
          FaultKind::invalid_input,
          fmt::format("nothing speaks against a node '{}' (see shardsweep nodes)", name));
    }
    clear_node({world_, parts_.clock.now(), changes_}, node->second, request.from);
    ++answer.counts["nodes"];
  }
  answer.text = fmt::format("cleared: {}", fmt::join(request.names, ", "));
  return answer;
}

Result<Answer> Daemon::serve_trials(const Request& request) {
  SHARDSWEEP_TRY(commit());
  SHARDSWEEP_ASSIGN(const auto chosen,
                    parts_.store.select_trials(request.names, request.where));
  Answer answer;
  const bool rerun = request.verb == Verb::rerun;
  std::set<SweepId> imported;
  for (const SweepRow& sweep : world_.sweeps) {
    if (const auto refused = refuse_imported(sweep); refused) continue;
    // Meant by name it is a mistake, by an expression over everything it is not.
    if (!request.names.empty() && concerns(chosen, sweep))
      SHARDSWEEP_TRY(refuse_imported(sweep));
    imported.insert(sweep.id);
  }
  for (const TrialRow& stored : chosen) {
    if (imported.contains(stored.sweep)) continue;
    const auto known = world_.trials.find(stored.id);
    const TrialRow& trial = known == world_.trials.end() ? stored : known->second;
    if (rerun != (trial.state == State::ended)) continue;
    changes_.emplace_back(AddEvent{.at = parts_.clock.now(),
                                   .sweep = trial.sweep,
                                   .trial = trial.id,
                                   .kind = rerun ? "rerun" : "cancel",
                                   .detail = request.from});
    if (rerun) {
      plan_trial(trial);
    } else {
      cancel_trial(trial, CancelledBy::name);
    }
    ++answer.counts["trials"];
  }
  answer.text = fmt::format("{} of {} trials {}", answer.counts["trials"], chosen.size(),
                            rerun ? "queued again" : "cancelled");
  return answer;
}

}  // namespace shardsweep
