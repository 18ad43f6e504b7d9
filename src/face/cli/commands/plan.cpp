// SPDX-License-Identifier: Apache-2.0
// plan: what a sweep file would run, what it would not, and why. It judges by the code that
// `submit` judges by, so that what it lists is what would run; the site is read too, since
// its variables are in the identity of a trial. Without a database it answers all the same.
#include "plan/plan.hpp"

#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/emitting.hpp"
#include "cli/grammar.hpp"
#include "cli/passing.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"
#include "fleet/refusals.hpp"
#include "plan/knowledge_file.hpp"
#include "predict/family.hpp"
#include "show/plan_view.hpp"
#include "sweep/identity.hpp"
#include "text/numbers.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/results.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

struct PlanOptions {
  bool explain = false;
  bool all = false;
  bool order = false;  ///< launch by launch
};

/// Trials of a plan that an earlier submission has ended, and what the others will take.
struct EndedAlready {
  std::size_t trials = 0;
  std::size_t ruled_out = 0;         ///< trials that have not ended and are ruled out
  std::vector<std::string> rules{};  ///< rules that hold, as texts
  double left_gpu_s = 0;
};

/// A trial of the sweep's earlier submission.
struct EndedTrial {
  std::string identity;
  std::string slug;
  std::string lane;
  std::optional<Outcome> outcome;
  std::string cause;
  std::int32_t micro_batch = 1;
  std::int32_t nodes = 0;
  std::int32_t gpus = 1;
  Degrees degrees;

  [[nodiscard]] TrialRow row() const {
    return {.slug = slug,
        .lane = lane,
        .micro_batch = micro_batch,
        .nodes = nodes,
        .gpus = gpus,
        .degrees = degrees,
        .outcome = outcome,
        .cause = cause};
  }
};

}  // namespace

template <>
inline constexpr auto described<EndedTrial> = Entries{
    SHARDSWEEP_FIELDS(EndedTrial, identity, slug, lane, outcome, cause, micro_batch, nodes, gpus),
    Part{&EndedTrial::degrees},
};

namespace {

TrialRow row_of(const Point& point, std::string lane) {
  const Layout& layout = point.layout;
  return {.lane = std::move(lane),
      .micro_batch = layout.micro_batch,
      .nodes = point.nodes,
      .gpus = point.gpus,
      .degrees = {
          layout.dp, layout.tp, layout.pp, layout.cp, layout.ep, layout.vpp, layout.grad_accum}};
}

/// Rules that hold: two were refused by it, and none was not.
std::vector<RefusedRule> rules_of(const std::vector<TrialRow>& ended) {
  std::vector<const TrialRow*> refused;
  for (const TrialRow& row : ended) {
    if (row.outcome == Outcome::rejected) refused.push_back(&row);
  }
  auto rules = refused_rules(refused);
  std::erase_if(rules, [&](const RefusedRule& rule) {
    return std::any_of(
        ended.begin(), ended.end(), [&](const TrialRow& row) { return rule.ends_by(row); });
  });
  return rules;
}

/// A database that is not there, or does not answer, knows of none.
EndedAlready ended_already(const Session& session, const PlannedSweep& planned) {
  const auto reader = Reader::open(session.home.database);
  if (!reader) return {};
  const auto ended = (*reader)->rows<EndedTrial>(Listing::ended_trials, {planned.sweep.name});
  if (!ended || ended->empty()) return {};
  std::set<std::string> identities;
  std::vector<TrialRow> rows;
  for (const EndedTrial& trial : *ended) {
    identities.insert(trial.identity);
    rows.push_back(trial.row());
  }
  const auto rules = rules_of(rows);
  EndedAlready result;
  const Identifier names(planned.sweep, planned.capabilities, planned.site_env);
  for (const PlannedTrial& trial : planned.plan.trials) {
    const Point& point = trial.point;
    if (identities.contains(names.identity(point))) {
      ++result.trials;
      continue;
    }
    const auto row = rules.empty() ? TrialRow() : row_of(point, names.lane_key(point));
    const auto rule = std::find_if(
        rules.begin(), rules.end(), [&](const RefusedRule& one) { return one.covers(row); });
    if (rule != rules.end()) {
      ++result.ruled_out;
    } else {
      result.left_gpu_s += trial.prediction.attempt_s * point.gpus;
    }
  }
  for (const RefusedRule& rule : rules)
    result.rules.push_back(rule.text);
  return result;
}

/// "The search learns from 412 runs of 2 earlier sweeps and 1 imported file: a, b,
/// imported:0123abcd." Empty: from none. What a daemon does (daemon/search.cpp), by what is
/// measured now.
std::string learning_sentence(const Session& session, const SweepSpec& sweep, const Plan& plan) {
  if (!sweep.search.remembers()) return "";
  const auto reader = Reader::open(session.home.database);
  if (!reader) return "";
  const auto& from = sweep.search.learn_from;
  const auto sweeps = earlier_sweeps(session, **reader, [&](const SweepSpec& theirs) {
    return theirs.name != sweep.name && from.includes(theirs.name) && is_kin(sweep, theirs);
  });
  const auto files = imported_knowledge(**reader);
  if (!sweeps || !files) return "";
  std::set<Dtype> dtypes;
  for (const auto& trial : plan.trials)
    dtypes.insert(trial.point.dtype);
  EarlierRuns all(std::move(dtypes));
  std::vector<std::string> names;
  for (const EarlierSweep& one : *sweeps) {
    auto runs = earlier_runs(one.spec, one.rows, session.clock.now());
    if (!runs.empty()) names.push_back(one.name);
    all.add(std::move(runs));
  }
  const auto own = std::ssize(names);
  for (const KnowledgeText& one : *files) {
    if (!from.includes(one.name)) continue;
    const auto file = read_knowledge(one.text, one.name);
    auto runs = file ? earlier_runs(sweep, *file) : std::vector<EarlierRun>();
    if (!runs.empty()) names.push_back(one.name);
    all.add_file(std::move(runs));
  }
  if (names.empty()) return "";
  std::vector<std::string> origins;
  if (own > 0) origins.push_back(counted(own, "earlier sweep"));
  if (own < std::ssize(names)) origins.push_back(counted(std::ssize(names) - own, "imported file"));
  const auto others = all.of_other_dtype();
  if (all.latest().empty())
    return fmt::format("The search learns from no earlier run: {} of {} {} in another dtype.",
        counted(others, "run"), fmt::join(names, ", "), others == 1 ? "is" : "are");
  return fmt::format(
      "The search learns from {} of {}: {}.{} 'search: {{learn_from: none}}' begins without.",
      counted(std::ssize(all.latest()), "run"), fmt::join(origins, " and "), fmt::join(names, ", "),
      others == 0 ? ""
                  : fmt::format(" {} in another dtype {} not used.", counted(others, "run"),
                        others == 1 ? "is" : "are"));
}

void say_ended(const Session& session, const PlannedSweep& planned, const EndedAlready& ended) {
  const std::size_t trials = planned.plan.trials.size();
  const std::size_t left = trials - ended.trials - ended.ruled_out;
  for (const std::string& rule : ended.rules)
    say("Not run, because the trainer has refused it twice: " + rule);
  say("{} of the {} trials have ended in {} and do not run again.{} {}", ended.trials, trials,
      session.home.database.string(),
      ended.ruled_out == 0
          ? ""
          : fmt::format(" {} more {} refused for the same reason and {} not start.",
                ended.ruled_out, ended.ruled_out == 1 ? "is" : "are",
                ended.ruled_out == 1 ? "does" : "do"),
      left == 0 ? "None is left."
                : fmt::format("{} left: {} GPU-hours predicted.",
                      left == 1 ? "1 is" : fmt::format("{} are", left),
                      amount_text(ended.left_gpu_s / 3600)));
}

Result<ExitCode> run_plan(const Session& session) {
  if (session.options.of<PlanOptions>().explain) {
    SHARDSWEEP_ASSIGN(const SweepSpec sweep, load_sweep_file(session));
    return deliver(explain_sweep(sweep));
  }
  SHARDSWEEP_ASSIGN(PlannedSweep planned, plan_file(session));
  if (!session.options.trainer.point.empty() && session.options.trainer.emit.empty())
    return fault(FaultKind::invalid_input, "--point belongs to --emit");
  say_notes(planned.notes);
  const bool alone =
      !session.options.trainer.emit.empty() || !session.options.trainer.from_args.empty();
  const auto access = alone ? std::nullopt : site_of_plan(session, planned);
  if (!planned.refusal.empty()) say("refused when submitted: " + planned.refusal);
  say_missing(planned);
  if (!session.options.trainer.emit.empty()) return emit_plan(session, planned);
  if (!session.options.trainer.from_args.empty()) return rank_in_plan(session, planned);
  // The site belongs to the identity of trials. Without a site nothing is submitted either.
  if (access) {
    SHARDSWEEP_TRY(add_site(planned, *access));
    say_notes(beyond_partitions(session, planned, *access));
  }
  if (planned.sweep.runner.snapshot != SnapshotKind::none)
    SHARDSWEEP_TRY(note_code(session, planned.sweep, Taking::hash_alone));
  if (session.options.of<PlanOptions>().order) {
    return deliver(plan_story_text(plan_story(planned.sweep, planned.plan), table_style(session)));
  }
  // A plan of a million trials is written as it is formatted.
  Result<void> written;
  const auto flush = [&written](fmt::memory_buffer& text) {
    if (written) written = print_result({text.data(), text.size()});
    text.clear();
  };
  fmt::memory_buffer out;
  const auto style = table_style(session);
  write_plan(out, planned.sweep, planned.capabilities, planned.plan,
      {.format = session.options.format,
          .whole = session.options.of<PlanOptions>().all || ::isatty(STDOUT_FILENO) == 0,
          .flush = flush,
          .terminal = session.options.wide ? Terminal{} : style.terminal,
          .usual_width = session.options.wide ? std::nullopt : style.usual_width});
  flush(out);
  SHARDSWEEP_TRY(written);
  // The notes have said why.
  if (planned.plan.trials.empty() || !planned.refusal.empty()) return ExitCode::failed;
  if (const auto learns = learning_sentence(session, planned.sweep, planned.plan); !learns.empty())
    say(learns);
  if (const auto ended = ended_already(session, planned); ended.trials > 0)
    say_ended(session, planned, ended);
  return ExitCode::done;
}

}  // namespace

extern const Command command_plan{.name = "plan",
    .heading = Heading::daily,
    .help = "Show what would run, what would not, and why.",
    .examples =
        "shardsweep plan sweep.yaml\n"
        "shardsweep plan sweep.yaml --set axes.tp=2,4 --order",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<PlanOptions>();
          grammar.sweep_file();
          grammar.site();
          grammar.format();
          grammar.flag("--explain", own.explain, "Print the whole sweep with every default.");
          grammar.flag("--all", own.all, "List every trial, also on a terminal.");
          grammar.flag("--order", own.order,
              "Print each cell's launches in order (predicted speed, chance to fit, why), and each "
              "point left out with its rule.");
          declare_emit(grammar);
          declare_point(grammar, "--point", "With --emit: trials to print, ");
        },
    .run = run_plan};

}  // namespace shardsweep
