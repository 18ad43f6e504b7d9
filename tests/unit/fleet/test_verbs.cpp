// SPDX-License-Identifier: Apache-2.0
#include "fleet/trial_change.hpp"
#include "fleet/verbs.hpp"

#include <shardsweep/imported.hpp>

#include <doctest/doctest.h>

#include <ostream>
#include <set>
#include <utility>

using namespace shardsweep;

namespace {

constexpr std::array actions{Action::pause, Action::resume, Action::resume_cancelled,
    Action::cancel, Action::cancel_trials, Action::rerun, Action::remove};

/// Every trial that can be stored: a state without an outcome, or `ended` with one.
std::vector<TrialRow> all_trials() {
  std::vector<TrialRow> all;
  TrialId id = 0;
  const auto add = [&](State state, std::optional<Outcome> outcome, CancelledBy by) {
    TrialRow row{.id = ++id, .sweep = 1, .slug = "t" + std::to_string(id), .lane = "l"};
    row.state = state;
    row.outcome = outcome;
    row.cancelled_by = by;
    all.push_back(row);
  };
  for (const State state : {State::planned, State::queued, State::running})
    add(state, {}, CancelledBy::nobody);
  for (const OutcomeInfo& info : outcome_table) {
    if (info.outcome != Outcome::cancelled) add(State::ended, info.outcome, CancelledBy::nobody);
  }
  for (const CancelledBy by :
      {CancelledBy::nobody, CancelledBy::sweep, CancelledBy::name, CancelledBy::budget})
    add(State::ended, Outcome::cancelled, by);
  return all;
}

struct Asked {
  Request request;
  VerbScope meant{.sweeps = {{1, {.id = 1, .name = "s", .backend = Backend::local}}},
      .open = {},
      .selected = {{1}, {}},
      .contents = {{1, {}}}};
  std::map<SweepId, SweepRow>& sweeps = meant.sweeps;
  std::map<SweepId, bool>& open = meant.open;
  TrialSelection& selected = meant.selected;

  explicit Asked(Verb verb) {
    request.verb = verb;
    request.names = {"s"};
  }
  Asked& with(std::vector<TrialRow> trials) {
    selected.trials = std::move(trials);
    for (const TrialRow& trial : selected.trials)
      open[trial.sweep] = open[trial.sweep] || trial.state != State::ended;
    return *this;
  }
  [[nodiscard]] Result<Steps> steps() const { return steps_of(request, meant); }
};

std::string lines(const Result<Steps>& steps) {
  return steps ? steps->text : "refused: " + steps.error().what;
}

TrialRow with_end(Outcome outcome, CancelledBy by = CancelledBy::nobody) {
  TrialRow row{.id = 1, .sweep = 1, .slug = "t1", .lane = "l"};
  row.state = State::ended;
  row.outcome = outcome;
  row.cancelled_by = by;
  return row;
}

}  // namespace

TEST_CASE("what every verb does to every trial") {
  for (const TrialRow& trial : all_trials()) {
    CAPTURE(name(trial.state));
    CAPTURE(trial.outcome ? name(*trial.outcome) : "none");
    CAPTURE(static_cast<int>(trial.cancelled_by));
    const bool open = trial.state != State::ended;
    const bool by_name = trial.cancelled_by == CancelledBy::name;
    const bool interrupted = !open && !by_name &&
        (trial.outcome == Outcome::cancelled || info(*trial.outcome).retry == Retry::elsewhere);
    for (const Action action : actions) {
      CAPTURE(action_words.at(static_cast<std::size_t>(action)));
      TrialEffect expected = TrialEffect::unchanged;
      if (action == Action::rerun && !open) expected = TrialEffect::plan;
      if (action == Action::resume && interrupted) expected = TrialEffect::plan;
      if (action == Action::resume_cancelled && (interrupted || (!open && by_name)))
        expected = TrialEffect::plan;
      const bool cancels = action == Action::cancel || action == Action::cancel_trials;
      if (cancels && open) expected = TrialEffect::end;
      if (action == Action::remove && open) expected = TrialEffect::refuse;
      CHECK(trial_rule(action, stage_of(trial)) == expected);
    }
  }
}

TEST_CASE("what every verb does to every sweep") {
  const auto effect = [](Action action, SweepStage stage) {
    return sweep_rule(action, stage).effect;
  };
  const std::set<SweepStage> live{SweepStage::active, SweepStage::paused};
  for (const SweepStage stage :
      {SweepStage::active, SweepStage::paused, SweepStage::done, SweepStage::cancelled}) {
    CAPTURE(static_cast<int>(stage));
    CHECK(effect(Action::pause, stage) ==
        (stage == SweepStage::active ? SweepEffect::pause : SweepEffect::unchanged));
    CHECK(effect(Action::resume, stage) == SweepEffect::activate);
    CHECK(effect(Action::resume_cancelled, stage) == SweepEffect::activate);
    CHECK(effect(Action::cancel, stage) ==
        (live.contains(stage) ? SweepEffect::cancel : SweepEffect::unchanged));
    CHECK(effect(Action::cancel_trials, stage) == SweepEffect::unchanged);
    CHECK(effect(Action::rerun, stage) ==
        (stage == SweepStage::cancelled ? SweepEffect::activate : SweepEffect::unchanged));
    CHECK(effect(Action::remove, stage) == SweepEffect::remove);
  }
  for (const Action action : actions) {
    const SweepRule rule = sweep_rule(action, SweepStage::imported);
    CHECK(rule.effect == (action == Action::remove ? SweepEffect::remove : SweepEffect::refuse));
    CHECK(rule.note.empty() == (action == Action::remove));
  }
}

TEST_CASE("a sweep is done while nothing of it is open") {
  SweepRow sweep{.id = 1, .name = "s", .backend = Backend::local};
  CHECK(stage_of(sweep, true) == SweepStage::active);
  CHECK(stage_of(sweep, false) == SweepStage::done);
  sweep.state = SweepState::paused;
  CHECK(stage_of(sweep, false) == SweepStage::paused);
  sweep.state = SweepState::cancelled;
  CHECK(stage_of(sweep, true) == SweepStage::cancelled);
  sweep.backend = Backend::imported;
  CHECK(stage_of(sweep, false) == SweepStage::imported);
}

TEST_CASE("a verb says counts by state and outcome, then what it did") {
  Asked cancel(Verb::cancel);
  cancel.with(all_trials());
  CHECK(lines(cancel.steps()) ==
      "cancel: 19 trials: 1 planned, 1 queued, 1 running, 1 completed, 1 oom, 1 hung, 1 "
      "timeout, 1 node_failure, 1 comm_error, 1 preempted, 1 crashed, 1 reaped, 4 cancelled, "
      "1 rejected, 1 lost, 1 skipped\n"
      "3 cancelled; 16 had already ended.");
  CHECK(cancel.steps()->sweeps.size() == 1);

  Asked rerun(Verb::rerun);
  rerun.with({with_end(Outcome::completed), with_end(Outcome::oom)});
  rerun.sweeps.at(1).state = SweepState::cancelled;
  CHECK(lines(rerun.steps()) ==
      "rerun: 2 trials: 1 completed, 1 oom\n"
      "2 planned again. Results keep the earlier measurements until new ones are there.\n"
      "'s' was cancelled and is active again.");
  rerun.sweeps.at(1).state = SweepState::paused;
  rerun.request.dry_run = true;
  CHECK(lines(rerun.steps()) ==
      "rerun: 2 trials: 1 completed, 1 oom\n"
      "2 would be planned again. Results keep the earlier measurements until new ones are "
      "there.\n"
      "'s' is paused: its trials wait. `shardsweep resume s` runs them.\n"
      "Dry run: nothing was changed.");

  Asked nothing(Verb::rerun);
  CHECK(lines(nothing.with({}).steps()).find("\nNo trial matches; nothing to rerun.") !=
      std::string::npos);

  Asked resume(Verb::resume);
  resume.with({with_end(Outcome::lost), with_end(Outcome::cancelled, CancelledBy::name)});
  CHECK(lines(resume.steps()) ==
      "resume: 2 trials: 1 cancelled, 1 lost\n"
      "'s' resumed: 1 planned again, 0 had not ended.\n"
      "Not resumed: 1 trial cancelled by name. --cancelled resumes them too.");
  resume.request.cancelled = true;
  CHECK(resume.steps()->trials.size() == 2);

  Asked remove(Verb::remove);
  remove.meant.contents = {{1, {.trials = 3, .attempts = 2, .measurements = 1}}};
  CHECK(lines(remove.with({with_end(Outcome::oom)}).steps()) ==
      "delete: 1 trial: 1 oom\n's' deleted.\n"
      "3 trials, 2 attempts, 1 measurement and their files are gone.");
  remove.request.dry_run = true;
  CHECK(lines(remove.steps()) ==
      "delete: 1 trial: 1 oom\n's' would be deleted.\n"
      "3 trials, 2 attempts, 1 measurement and their files would go.\n"
      "Dry run: nothing was changed.");
  remove.meant.contents.at(1).live = 2;
  CHECK(lines(remove.steps()) ==
      "refused: delete: 2 of its attempts and jobs have not ended yet. Try again when "
      "`shardsweep status` shows none running.");
  TrialRow open = with_end(Outcome::oom);
  open.state = State::queued;
  open.outcome.reset();
  CHECK(lines(remove.with({open}).steps()) ==
      "refused: t1 has not ended. Cancel its sweep first: `shardsweep cancel s`.");
}

TEST_CASE("a done sweep stays done when it is cancelled") {
  Asked cancel(Verb::cancel);
  cancel.with({with_end(Outcome::completed)});
  CHECK(cancel.steps()->sweeps.empty());
  // Its rerun is taken back: nothing of it is cancelled.
  TrialRow again = with_end(Outcome::completed);
  plan_again(again);
  cancel.with({again});
  CHECK(cancel.steps()->sweeps.empty());
  CHECK(lines(cancel.steps()) ==
      "cancel: 1 trial: 1 planned\n"
      "0 cancelled; 1 keep their earlier outcome; 0 had already ended.");
}

TEST_CASE("a sweep is not cancelled for a trial that its file no longer has") {
  TrialRow again = with_end(Outcome::completed);
  again.state = State::queued;
  again.prior = std::exchange(again.outcome, std::nullopt);
  TrialRow gone{.id = 2, .sweep = 1, .slug = "t2", .lane = "l"};
  gone.state = State::running;
  gone.hidden = true;
  const auto steps = Asked(Verb::cancel).with({again, gone}).steps();
  REQUIRE(steps);
  CHECK(steps->trials.size() == 2);
  CHECK(steps->sweeps.empty());
}

TEST_CASE("a trial that is named is resumed, whoever cancelled it") {
  Asked resume(Verb::resume);
  resume.request.names = {"t1"};
  resume.selected = {{}, {with_end(Outcome::cancelled, CancelledBy::name)}};
  resume.sweeps.at(1).state = SweepState::cancelled;
  REQUIRE(resume.steps());
  CHECK(resume.steps()->trials.size() == 1);
  CHECK(resume.steps()->sweeps.front().effect == SweepEffect::activate);
}

TEST_CASE("a request without a scope changes nothing") {
  const auto refused = [](Verb verb, std::vector<std::string> names, const std::string& where,
                           bool all) {
    Request request;
    request.verb = verb;
    request.names = std::move(names);
    request.where = where;
    request.all = all;
    const auto checked = check_scope(request);
    return checked ? std::string() : checked.error().what;
  };
  for (const Verb verb : {Verb::resume, Verb::cancel, Verb::rerun}) {
    CAPTURE(static_cast<int>(verb));
    CHECK(refused(verb, {"s"}, " \t", false).find("blank") != std::string::npos);
    CHECK(refused(verb, {}, "tp = 8", false).find("--all") != std::string::npos);
    CHECK(refused(verb, {}, "tp = 8", true).empty());
    CHECK(refused(verb, {"s"}, "tp = 8", false).empty());
    CHECK_FALSE(refused(verb, {"s"}, "", true).empty());
  }
  CHECK(refused(Verb::pause, {}, "", false).empty());
  CHECK(refused(Verb::resume, {}, "", false).empty());
  CHECK_FALSE(refused(Verb::cancel, {}, "", false).empty());
  CHECK_FALSE(refused(Verb::rerun, {}, "", false).empty());
  CHECK_FALSE(refused(Verb::remove, {}, "", true).empty());
}

TEST_CASE("without a name imported sweeps are passed over, and named ones are refused") {
  Asked all(Verb::rerun);
  all.sweeps.at(1).backend = Backend::imported;
  all.with({with_end(Outcome::completed)});
  CHECK(lines(all.steps()) == "refused: 's' was imported. Its trials cannot run.");
  all.request.names.clear();
  all.request.all = true;
  REQUIRE(all.steps());
  CHECK(all.steps()->trials.empty());
}
