// SPDX-License-Identifier: Apache-2.0
#include "daemon/desk.hpp"

#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"
#include "fleet/starts.hpp"
#include "fleet/trial_change.hpp"
#include "plan/knowledge_file.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/copied.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/log.hpp>
#include <shardsweep/removal.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::int64_t inbox_rows_per_tick = 5'000;  // takes some 50 ms
constexpr std::int64_t deleted_rows_per_tick = 500;  // each row may be a folder

/// Line on files that a deletion could not remove; empty if it removed all.
std::string kept_text(const std::vector<std::string>& kept) {
  if (kept.empty()) return "";
  return fmt::format(
      "\n{} of the deleted sweeps' files and folders {} still on disk, for example: {}",
      kept.size(), kept.size() == 1 ? "is" : "are", kept.front());
}

}  // namespace

Result<void> RequestDesk::serve() {
  watch_.clear();
  const auto pending = pending_requests(parts_.home);
  if (!pending) {
    log_warning(pending.error().what);
    return {};
  }
  serving_ = !pending->empty();
  storing_.reset();
  // Requests that ended in a fault have nothing more to delete.
  std::erase_if(deleting_, [&](const auto& begun) {
    return std::none_of(pending->begin(), pending->end(),
        [&](const auto& waiting) { return waiting.id == begun.first; });
  });
  if (serving_) fail_point("daemon.request_read");
  for (const PendingRequest& waiting : *pending) {
    if (in_pieces() && deleting_.count(waiting.id) == 0 && needs_the_whole(waiting)) continue;
    SHARDSWEEP_ASSIGN(const bool done, serve_or_refuse(waiting));
    if (!done && !in_pieces()) return {};  // goes on in the next tick
  }
  return {};
}

/// True for requests that have to wait while a submission is half stored or a sweep half deleted:
/// another submission or deletion, and any request about that sweep or about all sweeps.
bool RequestDesk::needs_the_whole(const PendingRequest& waiting) const {
  if (!waiting.request) return false;
  const Request& request = *waiting.request;
  if (request.verb == Verb::stop || request.verb == Verb::clear_node) return false;
  if (request.verb == Verb::submit || request.verb == Verb::remove) return true;
  return request.names.empty() ||
      std::any_of(request.names.begin(), request.names.end(), [this](const auto& name) {
        const auto sweep = name.substr(0, name.find('/'));
        return storing_ ? sweep == *storing_ : !is_kept(sweep);
      });
}

/// True for the name of a sweep that no deletion has taken. The name of a trial is not enough,
/// since its sweep may be going.
bool RequestDesk::is_kept(const std::string& name) const {
  return std::any_of(world_.sweeps().begin(), world_.sweeps().end(), [&](const auto& sweep) {
    return sweep.second.name == name &&
        std::none_of(deleting_.begin(), deleting_.end(), [&](const auto& begun) {
          const auto& left = begun.second.left;
          return std::find(left.begin(), left.end(), sweep.first) != left.end();
        });
  });
}

/// Answer of a request: an earlier daemon's if it has served the request, else it is served now.
/// Nothing: serving goes on in the next tick.
Result<std::optional<Answer>> RequestDesk::answer_to(const PendingRequest& waiting) {
  SHARDSWEEP_ASSIGN(const auto known, parts_.store.answer_to(waiting.id));
  if (known) {
    SHARDSWEEP_ASSIGN(Answer again, decode_answer(waiting.id, *known));
    return std::optional(std::move(again));
  }
  if (!waiting.request) return tl::unexpected<Fault>(waiting.request.error());
  SHARDSWEEP_ASSIGN(std::optional<Answer> answer, serve(*waiting.request));
  if (answer) {
    world_.record(ServedRequest{waiting.id, parts_.clock.now(), encode(*answer)});
    log_info(fmt::format("request {}: {}", waiting.id, answer->text));
  }
  return answer;
}

/// Serves a request. If it makes the daemon find a defect in itself, the request is answered with a
/// fault first, so that it does not end the next daemon too.
Result<bool> RequestDesk::serve_or_refuse(const PendingRequest& waiting) {
  try {
    return in_work_of(0, [&] { return serve_one(waiting); });
  } catch (const BrokenInvariant& broken) {
    Answer answer;
    answer.id = waiting.id;
    answer.fault = {FaultKind::internal, fmt::format("nothing was changed. {}", broken.what())};
    // Answer at once: the next daemon would serve an unanswered request again.
    (void)answer_request(parts_.home, answer);
    throw;
  }
}

/// Serves a request; false if it is not complete. A served request is not served twice: if its
/// answer can't be written, only the answer is tried again.
Result<bool> RequestDesk::serve_one(const PendingRequest& waiting) {
  if (unsent_.find(waiting.id) == unsent_.end()) {
    auto served = answer_to(waiting);
    if (served && !*served) return false;
    if (!served && served.error().kind == FaultKind::rejected)
      return tl::unexpected<Fault>(served.error());
    if (!served && served.error().kind == FaultKind::busy) return false;
    Answer answer = served ? std::move(**served) : Answer{};
    answer.id = waiting.id;
    if (!served) {
      answer.fault = served.error();
      log_info(fmt::format("request {}: {}", waiting.id, answer.fault->what));
    }
    unsent_.emplace(waiting.id, std::move(answer));
    fail_point("daemon.request_served");
  }
  SHARDSWEEP_TRY(books_.commit());
  fail_point("daemon.request_committed");
  sweeps_.forget_searches();
  if (std::exchange(reload_, false)) SHARDSWEEP_TRY(books_.reload());
  if (const auto told = answer_request(parts_.home, unsent_.at(waiting.id)); !told) {
    // The request is served; only writing its answer is retried.
    log_warning(told.error().what);
    return true;
  }
  unsent_.erase(waiting.id);
  if (waiting.request && !waiting.request->inbox.empty()) {
    fail_point("inbox.answered");
    remove_inbox(waiting.request->inbox);
  }
  return true;
}

Result<std::optional<Answer>> RequestDesk::serve(const Request& request) {
  switch (request.verb) {
    case Verb::submit:
      return serve_submit(request);
    case Verb::pause:
    case Verb::resume:
    case Verb::cancel:
    case Verb::rerun:
      return serve_verb(request);
    case Verb::remove:
      return serve_delete(request);
    case Verb::clear_node:
      return serve_clear_node(request);
    case Verb::next:
      return outside_.next(request);
    case Verb::record:
      return outside_.record(request);
    case Verb::learn:
      return serve_learn(request);
    case Verb::forget:
      return serve_forget(request);
    case Verb::stop:
      asked_to_stop_ = true;
      return Answer{.text = "The daemon stops. Running jobs go on."};
  }
  return fault(FaultKind::invalid_input, "unknown verb");
}

namespace {

/// Trials that left the file keep their measurements: the sentence says where they are.
std::string submitted_text(const SubmitReport& report) {
  if (!report.resubmitted)
    return fmt::format("'{}' submitted: {}", report.name, counted(report.trials, "trial"));
  std::string text =
      fmt::format("'{}' resubmitted: {} trials, {} new, {} known ({} with an outcome)", report.name,
          report.trials, report.fresh, report.known, report.measured);
  if (report.gone > 0)
    text += fmt::format(". {} no longer in the file: `shardsweep results {} --hidden` shows them",
        report.gone, report.name);
  return text;
}

}  // namespace

Result<std::optional<Answer>> RequestDesk::serve_submit(const Request& request) {
  SHARDSWEEP_TRY(books_.commit());
  SHARDSWEEP_ASSIGN(const auto progress,
      parts_.store.accept_inbox(request.inbox, parts_.clock.now(), inbox_rows_per_tick));
  if (!progress.done) {
    storing_ = progress.report.name;
    in_pieces_ = true;
    return std::nullopt;
  }
  // Reading 10^5 trials takes a pass of its own; the same report is made again then.
  if (std::exchange(in_pieces_, false)) {
    storing_ = progress.report.name;
    return std::nullopt;
  }
  SHARDSWEEP_TRY(books_.reload());
  const SubmitReport& report = progress.report;
  Answer answer;
  answer.text = submitted_text(report);
  answer.counts = {{"sweep", report.sweep}, {"trials", report.trials}, {"fresh", report.fresh},
      {"known", report.known}, {"measured", report.measured}, {"gone", report.gone},
      {"left_out", report.left_out}, {"resubmitted", report.resubmitted ? 1 : 0}};
  return answer;
}

/// Applies the tables of fleet/verbs to the database as it is now. Leads may have measured for
/// hours without a daemon, so their news is folded in first: an ended trial is not cancelled.
Result<Steps> RequestDesk::steps_for(const Request& request) {
  SHARDSWEEP_TRY(check_scope(request));
  books_.listen();
  SHARDSWEEP_TRY(books_.commit());
  VerbScope meant{.sweeps = world_.sweeps()};
  SHARDSWEEP_ASSIGN(
      meant.selected, parts_.store.select_trials(request.names, trials_meant(request)));
  for (const SweepId id : open_sweeps(world_))
    meant.open[id] = true;
  if (request.verb == Verb::remove) {
    for (const SweepId sweep : meant.selected.sweeps) {
      SHARDSWEEP_ASSIGN(meant.contents[sweep], parts_.store.contents_of(sweep));
    }
  }
  return steps_of(request, meant);
}

Result<Answer> RequestDesk::serve_verb(const Request& request) {
  SHARDSWEEP_ASSIGN(const Steps steps, steps_for(request));
  Answer answer;
  answer.text = steps.text;
  answer.counts = steps.counts;
  for (const TrialStep& step : steps.trials)
    apply(step, request);
  for (const SweepStep& step : steps.sweeps)
    apply(step, request);
  return answer;
}

void RequestDesk::apply(const TrialStep& step, const Request& request) {
  // Ended trials may be in the database alone.
  const TrialRow* known = world_.trial(step.trial.id);
  const TrialRow& trial = known == nullptr ? world_.adopt(step.trial) : *known;
  // If the whole sweep is meant, the sweep's own event says so.
  if (request.verb == Verb::rerun || step.cancelled_by == CancelledBy::name)
    world_.record(AddEvent{.at = parts_.clock.now(),
        .sweep = trial.sweep,
        .trial = trial.id,
        .kind = event_of(request.verb),
        .detail = request.from});
  auto row = world_.edit(trial);
  if (step.effect == TrialEffect::end) {
    const std::string cause =
        step.cancelled_by == CancelledBy::sweep ? "Cancelled with its sweep." : "Cancelled.";
    end_trial(
        *row, {.outcome = Outcome::cancelled, .cause = cause, .cancelled_by = step.cancelled_by});
  } else {
    plan_again(*row);
    row->charged = row->elsewhere = 0;
    // Revoke the attempt: while it is being cancelled, it says nothing about the trial any more.
    for (const AttemptId id : world_.index().attempts_at(trial.id)) {
      const AttemptRow& attempt = world_.attempts().at(id);
      if (attempt.state != State::ended) world_.edit(attempt)->revoked = true;
    }
  }
}

void RequestDesk::apply(const SweepStep& step, const Request& request) {
  const SweepRow* known = world_.sweep(step.id);
  if (known == nullptr) return;
  auto sweep = world_.edit(*known);
  // Only living trials of a cancelled sweep are in memory.
  if (sweep->state == SweepState::cancelled) reload_ = true;
  if (step.effect == SweepEffect::activate) sweep->state = SweepState::active;
  if (step.effect == SweepEffect::pause) sweep->state = SweepState::paused;
  if (step.effect == SweepEffect::cancel) sweep->state = SweepState::cancelled;
  sweep->failed_starts = sweep->failed_nodes = 0;
  sweep.done();
  world_.record(AddEvent{.at = parts_.clock.now(),
      .sweep = sweep->id,
      .kind = event_of(request.verb),
      .detail = request.from});
  if (step.effect != SweepEffect::activate) drain_all(sweep->id);
}

void RequestDesk::drain_all(SweepId sweep) {
  for (const auto& [id, allocation] : world_.allocations()) {
    if (allocation.sweep == sweep) world_.edit(allocation)->draining = true;
  }
}

/// Deletes in pieces: a sweep of a million trials must not stop the tick. Files go before their
/// rows, so that a crash leaves the rows to find the rest.
Result<std::optional<Answer>> RequestDesk::serve_delete(const Request& request) {
  auto begun = deleting_.find(request.id);
  if (begun == deleting_.end()) {
    SHARDSWEEP_ASSIGN(const Steps steps, steps_for(request));
    Deletion deletion;
    deletion.answer.text = steps.text;
    deletion.answer.counts = steps.counts;
    for (const SweepStep& step : steps.sweeps) {
      deletion.left.push_back(step.id);
      std::error_code ignored;
      if (const SweepRow* sweep = world_.sweep(step.id))
        std::filesystem::remove(parts_.home.secrets_of(sweep->name), ignored);
    }
    begun = deleting_.emplace(request.id, std::move(deletion)).first;
  }
  std::vector<SweepId>& left = begun->second.left;
  const auto forget = [&](Store::Folder kind, const std::string& dir) {
    if (dir.empty()) return;
    if (const auto gone = forget_folder(kind, dir); !gone)
      begun->second.kept.push_back(gone.error().what);
  };
  SHARDSWEEP_ASSIGN(
      const bool gone, parts_.store.delete_sweep(left.back(), deleted_rows_per_tick, forget));
  if (gone) {
    sweeps_.forget(left.back());
    left.pop_back();
  }
  if (!left.empty()) return std::nullopt;
  Answer answer = std::move(begun->second.answer);
  answer.text += kept_text(begun->second.kept);
  deleting_.erase(begun);
  reload_ = true;
  return answer;
}

Result<void> RequestDesk::forget_folder(Store::Folder kind, const std::string& named) {
  const auto dir = folder_here(parts_.home, named);
  if (other_database(parts_.home, dir)) return {};  // the original's, of which this is a copy
  const auto remove = [kind](const std::filesystem::path& path) {
    return kind == Store::Folder::attempt ? remove_attempt(AttemptPaths{path}) : remove_tree(path);
  };
  auto gone = remove(dir);
  // A job that went on while the database was moved has left files in both places.
  const auto also = folder_here(parts_.home, named);
  if (gone && also != dir && !other_database(parts_.home, also)) gone = remove(also);
  fail_point("delete.folder");
  if (kind == Store::Folder::attempt) return gone;
  // Controls and short runs are named after their allocation.
  const std::string token = dir.filename().string();
  for (const char* const name : {"control.{}.start", "control.{}.end", "probe.{}"}) {
    const AttemptPaths paths{parts_.home.attempts() / fmt::format(fmt::runtime(name), token)};
    if (auto removed = remove_attempt(paths); !removed) gone = std::move(removed);
  }
  return gone;
}

/// The command has read the file, and names it in its messages: what it sends is read once more
/// before it is kept.
Result<Answer> RequestDesk::serve_learn(const Request& request) {
  SHARDSWEEP_ASSIGN(auto text, read_own_file(request.inbox, most_bytes_of_knowledge));
  SHARDSWEEP_ASSIGN(const auto file, read_knowledge(text, request.inbox));
  const auto name = knowledge_name(text);
  SHARDSWEEP_ASSIGN(const bool known, knows(name));
  if (!known) world_.record(AddKnowledge{name, parts_.clock.now(), std::move(text)});
  return Answer{.text = fmt::format("{} {}", name, known ? "was imported before" : "imported"),
      .document = name,
      .counts = {{"runs", std::ssize(file.runs)}, {"fresh", known ? 0 : 1}}};
}

Result<bool> RequestDesk::knows(const std::string& knowledge) {
  SHARDSWEEP_ASSIGN(const auto all, parts_.store.knowledge(parts_.clock.now()));
  return std::any_of(
      all.begin(), all.end(), [&](const KnowledgeText& one) { return one.name == knowledge; });
}

Result<Answer> RequestDesk::serve_forget(const Request& request) {
  for (const std::string& name : request.names) {
    SHARDSWEEP_ASSIGN(const bool known, knows(name));
    if (!known)
      return fault(FaultKind::invalid_input,
          "no imported file is named {} (see shardsweep knowledge)", in_quotes(name));
  }
  for (const std::string& name : request.names)
    world_.record(ForgetKnowledge{name, parts_.clock.now()});
  return Answer{.text = fmt::format("forgotten: {}", fmt::join(request.names, ", ")),
      .counts = {{"files", std::ssize(request.names)}}};
}

Result<Answer> RequestDesk::serve_clear_node(const Request& request) {
  Answer answer;
  for (const std::string& name : request.names) {
    const NodeRow* node = world_.node(name);
    if (node == nullptr) {
      return fault(FaultKind::invalid_input,
          "nothing is held against node '{}', so there is nothing to clear (see "
          "shardsweep nodes)",
          name);
    }
    clear_node({world_, parts_.clock.now()}, *node, request.from);
    ++answer.counts["nodes"];
  }
  answer.text = fmt::format("cleared: {}", fmt::join(request.names, ", "));
  return answer;
}

}  // namespace shardsweep
