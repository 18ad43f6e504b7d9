// SPDX-License-Identifier: Apache-2.0
// Decision: Two tables say what a verb does to a sweep and to a trial. The daemon applies them
// and decides nothing.
#include "fleet/verbs.hpp"

#include "text/numbers.hpp"

#include <shardsweep/imported.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

using enum SweepEffect;

constexpr std::string_view was_imported = "'{}' was imported. Its trials cannot run.";
constexpr std::string_view is_paused =
    "'{0}' is paused: its trials wait. `shardsweep resume {0}` runs them.";

// Rows: Action. Columns: active, paused, done, cancelled, imported.
constexpr std::array<std::array<SweepRule, 5>, 7> sweep_rules{{
    // pause
    {{{pause, "'{}' is paused. Running trials end by themselves."},
        {unchanged, "'{}' was paused already."},
        {unchanged, "'{}' is done: there is nothing to pause."},
        {unchanged, "'{}' is cancelled: there is nothing to pause."}, {refuse, was_imported}}},
    // resume
    {{{activate}, {activate}, {activate}, {activate}, {refuse, was_imported}}},
    // resume_cancelled
    {{{activate}, {activate}, {activate}, {activate}, {refuse, was_imported}}},
    // cancel
    {{{cancel}, {cancel}, {unchanged}, {unchanged}, {refuse, was_imported}}},
    // cancel_trials
    {{{unchanged}, {unchanged}, {unchanged}, {unchanged}, {refuse, was_imported}}},
    // rerun
    {{{unchanged}, {unchanged, is_paused}, {unchanged}, {activate}, {refuse, was_imported}}},
    // remove
    {{{remove}, {remove}, {remove}, {remove}, {remove}}},
}};

// Rows: Action. Columns: open, settled, interrupted, dropped.
constexpr std::array<std::array<TrialEffect, 4>, 7> trial_rules = [] {
  constexpr auto keep = TrialEffect::unchanged;
  constexpr auto plan = TrialEffect::plan;
  constexpr auto end = TrialEffect::end;
  constexpr auto no = TrialEffect::refuse;
  return std::array<std::array<TrialEffect, 4>, 7>{{
      {keep, keep, keep, keep},  // pause
      {keep, keep, plan, keep},  // resume
      {keep, keep, plan, plan},  // resume_cancelled
      {end, keep, keep, keep},   // cancel
      {end, keep, keep, keep},   // cancel_trials
      {keep, plan, plan, plan},  // rerun
      {no, keep, keep, keep},    // remove
  }};
}();

/// Trials by outcome, or by state where they have none, in the order of the tables.
class Tally {
 public:
  void add(const TrialRow& trial) {
    ++total_;
    if (trial.outcome) {
      ++ended_.at(static_cast<std::size_t>(*trial.outcome));
    } else {
      ++open_.at(static_cast<std::size_t>(trial.state));
    }
  }
  [[nodiscard]] std::string text() const {
    std::vector<std::string> parts;
    for (const State state : {State::planned, State::queued, State::running}) {
      if (const auto count = open_.at(static_cast<std::size_t>(state)); count > 0)
        parts.push_back(fmt::format("{} {}", count, name(state)));
    }
    for (const OutcomeInfo& row : outcome_table) {
      if (const auto count = ended_.at(static_cast<std::size_t>(row.outcome)); count > 0)
        parts.push_back(fmt::format("{} {}", count, row.name));
    }
    const std::string all = counted(total_, "trial");
    return parts.empty() ? all : fmt::format("{}: {}", all, fmt::join(parts, ", "));
  }

 private:
  std::int64_t total_ = 0;
  std::array<std::int64_t, 4> open_{};
  std::array<std::int64_t, outcome_table.size()> ended_{};
};

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\n\r") == std::string::npos;
}

/// Decides one request.
class Decision {
 public:
  Decision(const Request& request, const VerbScope& meant)
      : request_(request),
        sweeps_(meant.sweeps),
        open_(meant.open),
        selected_(meant.selected),
        contents_(meant.contents) {}

  Result<Steps> make() {
    if (takes_sweeps_alone() && selected_.sweeps.size() < request_.names.size())
      return fault(FaultKind::invalid_input, "{} takes names of sweeps, not of trials.", word());
    for (const auto& [id, sweep] : sweeps_) {
      if (!concerns(sweep) || passes_over(sweep)) continue;
      const SweepRule rule = sweep_rule(action_for(sweep.id), stage(sweep));
      if (rule.effect == refuse)
        return fault(FaultKind::invalid_input, fmt::format(fmt::runtime(rule.note), sweep.name));
      meant_.emplace(sweep.id, rule);
    }
    for (const TrialRow& trial : selected_.trials) {
      if (meant_.contains(trial.sweep)) SHARDSWEEP_TRY(decide(trial));
    }
    for (const auto& [id, sweep] : sweeps_) {
      if (const auto rule = meant_.find(sweep.id); rule != meant_.end())
        decide(sweep, rule->second);
    }
    if (request_.verb == Verb::remove) SHARDSWEEP_TRY(count_contents());
    steps_.action = meant_.empty() ? action_for(0) : action_for(meant_.begin()->first);
    steps_.text = text();
    if (request_.verb != Verb::remove) steps_.counts["trials"] = changed();
    return std::move(steps_);
  }

 private:
  [[nodiscard]] bool whole(SweepId sweep) const {
    return is_blank(request_.where) &&
        std::find(selected_.sweeps.begin(), selected_.sweeps.end(), sweep) !=
        selected_.sweeps.end();
  }
  [[nodiscard]] bool takes_sweeps_alone() const {
    return request_.verb == Verb::pause || request_.verb == Verb::remove;
  }
  [[nodiscard]] bool concerns(const SweepRow& sweep) const {
    if (whole(sweep.id) || takes_sweeps_alone()) return whole(sweep.id);
    return std::any_of(selected_.trials.begin(), selected_.trials.end(),
        [&](const TrialRow& trial) { return trial.sweep == sweep.id; });
  }
  /// Requests without names leave out imported sweeps; pause and resume also leave out cancelled
  /// ones.
  [[nodiscard]] bool passes_over(const SweepRow& sweep) const {
    if (!request_.names.empty()) return false;
    const bool only_live = request_.verb == Verb::pause || request_.verb == Verb::resume;
    return sweep.backend == Backend::imported ||
        (only_live && sweep.state == SweepState::cancelled);
  }
  [[nodiscard]] SweepStage stage(const SweepRow& sweep) const {
    const auto found = open_.find(sweep.id);
    return stage_of(sweep, found != open_.end() && found->second);
  }
  /// A trial that is named is resumed whoever cancelled it.
  [[nodiscard]] Action action_for(SweepId sweep) const {
    switch (request_.verb) {
      case Verb::pause:
        return Action::pause;
      case Verb::cancel:
        return whole(sweep) ? Action::cancel : Action::cancel_trials;
      case Verb::rerun:
        return Action::rerun;
      case Verb::remove:
        return Action::remove;
      default:
        break;
    }
    const bool by_name = std::find(selected_.sweeps.begin(), selected_.sweeps.end(), sweep) ==
        selected_.sweeps.end();
    return request_.cancelled || (by_name && sweep != 0) ? Action::resume_cancelled
                                                         : Action::resume;
  }

  Result<void> decide(const TrialRow& trial) {
    const Action action = action_for(trial.sweep);
    const TrialStage stage = stage_of(trial);
    const TrialEffect effect = trial_rule(action, stage);
    tally_.add(trial);
    if (stage == TrialStage::open) {
      ++left_open_;
    } else {
      ++ended_;
    }
    if (stage == TrialStage::dropped) ++dropped_;
    if (effect == TrialEffect::unchanged) return {};
    if (effect == TrialEffect::refuse)
      return fault(FaultKind::invalid_input,
          "{} has not ended. Cancel its sweep first: `shardsweep cancel "
          "{}`.",
          trial.slug, name_of(trial.sweep));
    const CancelledBy by = effect != TrialEffect::end ? CancelledBy::nobody
        : action == Action::cancel                    ? CancelledBy::sweep
                                                      : CancelledBy::name;
    if (effect == TrialEffect::end && trial.prior) ++restored_;
    ++changed_in_[trial.sweep];
    // A trial that the file no longer has says nothing about the sweep.
    if (effect == TrialEffect::end && !trial.prior && !trial.hidden) ++cancelled_in_[trial.sweep];
    steps_.trials.push_back({trial, effect, by});
    return {};
  }

  void decide(const SweepRow& sweep, const SweepRule& rule) {
    SweepEffect effect = rule.effect;
    const bool any = changed_in_[sweep.id] > 0;
    // Cancel the sweep only if one of its trials is cancelled. Trials that go back to an earlier
    // outcome were measured before.
    if (effect == cancel && cancelled_in_[sweep.id] == 0) effect = unchanged;
    if (effect == activate && request_.verb == Verb::rerun && !any) effect = unchanged;
    const bool about_trials = request_.verb == Verb::rerun;
    if (!rule.note.empty() && (any || !about_trials))
      notes_.push_back(fmt::format(fmt::runtime(rule.note), sweep.name));
    if (effect == activate && request_.verb == Verb::rerun)
      notes_.push_back(fmt::format("'{}' was cancelled and is active again.", sweep.name));
    if (effect == unchanged) return;
    ++steps_.counts["sweeps"];
    named_.push_back(fmt::format("'{}'", sweep.name));
    steps_.sweeps.push_back({sweep.id, effect});
  }

  [[nodiscard]] std::string name_of(SweepId id) const {
    const auto found = sweeps_.find(id);
    return found == sweeps_.end() ? "" : found->second.name;
  }
  [[nodiscard]] std::int64_t changed() const {
    return static_cast<std::int64_t>(steps_.trials.size());
  }

  [[nodiscard]] std::string text() const {
    std::vector<std::string> lines;
    if (request_.verb != Verb::pause) {
      lines.push_back(fmt::format("{}: {}", word(), tally_.text()));
      lines.push_back(sentence());
    }
    if (request_.verb == Verb::remove) lines.push_back(contents_text());
    constexpr std::size_t most_notes = 10;
    const std::size_t shown = std::min(most_notes, notes_.size());
    lines.insert(lines.end(), notes_.begin(), notes_.begin() + static_cast<std::ptrdiff_t>(shown));
    if (notes_.size() > shown)
      lines.push_back(fmt::format("The same for {} more sweeps.", notes_.size() - shown));
    if (lines.empty()) lines.emplace_back("There is no sweep to pause.");
    if (request_.dry_run) lines.emplace_back("Dry run: nothing was changed.");
    return fmt::format("{}", fmt::join(lines, "\n"));
  }
  [[nodiscard]] std::string_view word() const { return word_of(request_.verb); }
  [[nodiscard]] std::string sentence() const {
    const std::string_view be = request_.dry_run ? "would be " : "";
    switch (request_.verb) {
      case Verb::cancel: {
        std::string text = fmt::format("{} {}cancelled; ", changed() - restored_, be);
        if (restored_ > 0) text += fmt::format("{} keep their earlier outcome; ", restored_);
        return text + fmt::format("{} had already ended.", ended_);
      }
      case Verb::rerun: {
        if (changed() == 0 && left_open_ == 0) return "No trial matches; nothing to rerun.";
        std::string text = fmt::format("{} {}planned again", changed(), be);
        if (left_open_ > 0) text += fmt::format("; {} had not ended yet", left_open_);
        return text + ". Results keep the earlier measurements until new ones are there.";
      }
      case Verb::resume:
        return resumed(be);
      default:
        return fmt::format("{} {}deleted.", fmt::join(named_, ", "), be);
    }
  }
  [[nodiscard]] std::string resumed(std::string_view be) const {
    if (named_.empty()) return "There is no sweep to resume.";
    if (changed() == 0 && left_open_ == 0 && dropped_ == 0)
      return fmt::format("{}: nothing is left to run.", fmt::join(named_, ", "));
    constexpr std::size_t most_named = 10;
    std::string text = named_.size() > most_named
        ? counted(static_cast<std::int64_t>(named_.size()), "sweep")
        : fmt::format("{}", fmt::join(named_, ", "));
    text +=
        fmt::format(" {}resumed: {} planned again, {} had not ended.", be, changed(), left_open_);
    if (dropped_ > 0 && !request_.cancelled && changed() < ended_)
      text += fmt::format("\nNot resumed: {} cancelled by name. --cancelled resumes them too.",
          counted(dropped_, "trial"));
    return text;
  }

  /// Counts what is deleted with the sweeps; running trials must end first.
  Result<void> count_contents() {
    for (const SweepStep& step : steps_.sweeps) {
      const SweepContents& has = contents_.at(step.id);
      if (has.live > 0)
        return fault(FaultKind::invalid_input,
            "delete: {} of its attempts and jobs have not ended yet. Try "
            "again when `shardsweep status` shows none running.",
            has.live);
      steps_.counts["trials"] += has.trials;
      steps_.counts["attempts"] += has.attempts;
      steps_.counts["measurements"] += has.measurements;
    }
    return {};
  }
  [[nodiscard]] std::string contents_text() const {
    const auto count = [&](const char* of) {
      const auto found = steps_.counts.find(of);
      return found == steps_.counts.end() ? 0 : found->second;
    };
    return fmt::format("{}, {}, {} and their files{}", counted(count("trials"), "trial"),
        counted(count("attempts"), "attempt"), counted(count("measurements"), "measurement"),
        request_.dry_run ? " would go." : " are gone.");
  }

  const Request& request_;
  const std::map<SweepId, SweepRow>& sweeps_;
  const std::map<SweepId, bool>& open_;
  const TrialSelection& selected_;
  const std::map<SweepId, SweepContents>& contents_;
  std::map<SweepId, SweepRule> meant_;
  Steps steps_;
  Tally tally_;
  std::int64_t left_open_ = 0;
  std::int64_t ended_ = 0;
  std::int64_t dropped_ = 0;
  std::int64_t restored_ = 0;
  std::map<SweepId, std::int64_t> changed_in_;
  std::map<SweepId, std::int64_t> cancelled_in_;
  std::vector<std::string> notes_;
  std::vector<std::string> named_;
};

}  // namespace

SweepRule sweep_rule(Action action, SweepStage stage) {
  return sweep_rules.at(static_cast<std::size_t>(action)).at(static_cast<std::size_t>(stage));
}

TrialEffect trial_rule(Action action, TrialStage stage) {
  return trial_rules.at(static_cast<std::size_t>(action)).at(static_cast<std::size_t>(stage));
}

SweepStage stage_of(const SweepRow& sweep, bool open) {
  if (sweep.backend == Backend::imported) return SweepStage::imported;
  if (sweep.state == SweepState::cancelled) return SweepStage::cancelled;
  if (sweep.state == SweepState::paused) return SweepStage::paused;
  return open ? SweepStage::active : SweepStage::done;
}

TrialStage stage_of(const TrialRow& trial) {
  if (trial.state != State::ended || !trial.outcome) return TrialStage::open;
  if (trial.outcome == Outcome::cancelled)
    return trial.cancelled_by == CancelledBy::name ? TrialStage::dropped : TrialStage::interrupted;
  return info(*trial.outcome).retry == Retry::elsewhere ? TrialStage::interrupted
                                                        : TrialStage::settled;
}

Result<void> check_scope(const Request& request) {
  const std::string_view word = word_of(request.verb);
  const bool named = !request.names.empty();
  const auto wrong = [&](std::string_view why) -> Result<void> {
    return fault(FaultKind::invalid_input, "{}: {}", word, why);
  };
  if (named && request.all) return wrong("give names or --all, not both.");
  if (!request.where.empty() && is_blank(request.where))
    return wrong("--where is blank. Write an expression, or leave it out.");
  if (request.verb == Verb::remove)
    return named ? Result<void>() : wrong("name the sweeps to delete.");
  if (!request.where.empty() && !named && !request.all)
    return wrong("--where needs a sweep's name, or --all for every sweep.");
  const bool needs_name = request.verb == Verb::cancel || request.verb == Verb::rerun;
  if (needs_name && !named && !request.all)
    return wrong("name sweeps or trials, or give --all for every sweep.");
  return {};
}

std::string trials_meant(const Request& request) {
  return request.verb == Verb::pause ? "0" : request.where;
}

Result<Steps> steps_of(const Request& request, const VerbScope& meant) {
  SHARDSWEEP_TRY(check_scope(request));
  return Decision(request, meant).make();
}

}  // namespace shardsweep
