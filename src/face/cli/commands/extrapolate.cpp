// SPDX-License-Identifier: Apache-2.0
// extrapolate: what a sweep's measurements say of numbers of nodes that were not run.
#include "cli/command.hpp"
#include "cli/commands/known_runs.hpp"
#include "cli/grammar.hpp"
#include "cli/printing.hpp"
#include "plan/plan.hpp"
#include "predict/family.hpp"
#include "search/extrapolation.hpp"
#include "show/column.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "text/units.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

/// `gpus`, or `nodes`: the axis of the sweep that says how large its jobs are.
Result<std::string> size_axis(const Session& session, const SweepSpec& spec) {
  const Options& options = session.options;
  const auto has = [](const std::vector<AxisValues>& all, std::string_view name) {
    return std::any_of(
        all.begin(), all.end(), [&](const AxisValues& one) { return one.axis->name == name; });
  };
  const std::string own = has(spec.axes, "gpus") || has(spec.constants, "gpus") ? "gpus" : "nodes";
  const auto& asked = own == "gpus" ? options.asked.gpus : options.asked.nodes;
  const auto& other = own == "gpus" ? options.asked.nodes : options.asked.gpus;
  if (asked.empty() || !other.empty())
    return fault(FaultKind::invalid_input, "'{0}' sets {1}: give --{1}, such as --{1} 16,32.",
        spec.name, own);
  return fmt::format("{}.{}", has(spec.axes, own) ? "axes" : "constants", own);
}

/// Why a size has no layout: of a job that is larger than a node, that; else the plan's reason.
std::string why_no_layout(
    const PlannedSweep& planned, std::string_view axis, std::string_view size) {
  const SweepSpec& sweep = planned.sweep;
  const auto& left_out = planned.plan.left_out_by_constraint;
  if (left_out.size() == 1 && left_out.contains("gpus")) {
    const auto most = sweep.cluster.gpus_per_node;
    return fmt::format(
        "{} has {}{}, and '{}' stays on one node: use --gpus up to {}, or ask about a larger node "
        "with --set cluster.gpus_per_node={}.",
        sweep.cluster.name, counted(most, sweep.cluster.gpu.empty() ? "slot" : "GPU"),
        sweep.cluster.this_machine ? "" : " per node", sweep.name, most, size);
  }
  return fmt::format("no layout of '{}' can run with {} = {}: {}.", sweep.name, axis, size,
      why_nothing_runs(planned.plan));
}

/// The sweep's plan for each number that is asked for.
Result<std::vector<PlannedSweep>> plans_of(const Session& session, const KnownRuns& known) {
  SHARDSWEEP_ASSIGN(const std::string axis, size_axis(session, known.spec));
  const auto& asked =
      axis.ends_with("gpus") ? session.options.asked.gpus : session.options.asked.nodes;
  std::vector<PlannedSweep> plans;
  for (const auto piece : split(asked, ',')) {
    std::vector<std::string> set = session.options.set;
    set.push_back(fmt::format("{}={}", axis, piece));
    auto spec = load_sweep_text(known.text, known.spec.name, {session.installation.presets, set});
    if (!spec) return tl::unexpected<Fault>(spec.error());
    SHARDSWEEP_ASSIGN(auto planned, plan_sweep(session, *std::move(spec)));
    if (planned.plan.trials.empty())
      return fault(
          FaultKind::invalid_input, why_no_layout(planned, axis.substr(axis.find('.') + 1), piece));
    plans.push_back(std::move(planned));
  }
  return plans;
}

/// A layout that may run, with the sweep that holds it.
struct Target {
  const PlannedSweep* planned = nullptr;
  const PlannedTrial* trial = nullptr;
};

std::vector<Target> targets_of(const std::vector<PlannedSweep>& plans, const KnownRuns& known) {
  const auto was_measured = [&](const Point& point) {
    return std::any_of(known.runs.begin(), known.runs.end(), [&](const Experience& one) {
      return one.news.tokens_per_s_per_gpu > 0 && one.point.point == point;
    });
  };
  std::vector<Target> targets;
  for (const PlannedSweep& planned : plans) {
    for (const PlannedTrial& trial : planned.plan.trials) {
      if (trial.point.repeat == 1 && !was_measured(trial.point))
        targets.push_back({&planned, &trial});
    }
  }
  return targets;
}

/// A guess, its cell and the layout that it is about.
struct Guess {
  const ExtrapolatedCell* cell = nullptr;
  const Extrapolation* of = nullptr;
  const Target* target = nullptr;

  [[nodiscard]] const Point& point() const { return target->trial->point; }
  /// An interval with ends that far apart answers no question.
  [[nodiscard]] bool tells() const {
    constexpr double most_span = 3;
    const double factor = cell->factor_of(*of);
    return factor * factor <= most_span;
  }
};

/// The first `most` of each cell.
std::vector<Guess> guesses_of(const std::vector<ExtrapolatedCell>& cells,
    const std::vector<Target>& targets, std::size_t most) {
  std::vector<Guess> guesses;
  for (const ExtrapolatedCell& cell : cells) {
    for (const Extrapolation& one :
        std::span(cell.layouts).first(std::min(most, cell.layouts.size())))
      guesses.push_back({&cell, &one, &targets[one.target]});
  }
  return guesses;
}

const View<Guess>& guess_view() {
  using One = const Guess&;
  static const View<Guess> view{{"model",
                                    [](One guess) {
                                      return guess.target->planned->sweep.models
                                          .at(static_cast<std::size_t>(guess.point().model))
                                          .name;
                                    }},
      {"seq_len", [](One guess) { return std::int64_t{guess.point().seq_len}; }},
      {"nodes", [](One guess) { return std::int64_t{guess.point().nodes}; }},
      {"gpus", [](One guess) { return std::int64_t{guess.point().gpus}; }},
      {"layout", [](One guess) { return layout_text(guess.point()); }},
      {"extrapolated_tokens_per_s_per_gpu",
          [](One guess) { return guess.of->tokens_per_s_per_gpu; }, For::all,
          "tokens/s/GPU, guessed",
          [](One guess) {
            return guess.tells() ? grouped(std::llround(guess.of->tokens_per_s_per_gpu))
                                 : std::string("cannot tell");
          }},
      {"low",
          [](One guess) {
            return guess.of->tokens_per_s_per_gpu / guess.cell->factor_of(*guess.of);
          }},
      {"high",
          [](One guess) {
            return guess.of->tokens_per_s_per_gpu * guess.cell->factor_of(*guess.of);
          }},
      {"chance_to_fit", [](One guess) { return guess.of->fits; }, For::all, "chance to fit",
          [](One guess) { return percent_text(guess.of->fits); }},
      {"tested_on_runs", [](One guess) { return static_cast<std::int64_t>(guess.cell->test.runs); },
          For::all, "tested on runs"},
      {"tested_outward",
          [](One guess) {
            return guess.cell->test.runs > 0 ? Value(guess.cell->test.outward) : Value();
          },
          For::all, "tested outward"}};
  return view;
}

/// The least expensive of the first layouts of all cells: with how much more is known after it.
const Target& cheapest(
    const std::vector<ExtrapolatedCell>& cells, const std::vector<Target>& targets) {
  const auto gpu_seconds = [&](const ExtrapolatedCell& cell) {
    const PlannedTrial& trial = *targets[cell.layouts.front().target].trial;
    return trial.prediction.attempt_s * trial.point.gpus;
  };
  const auto found = std::min_element(cells.begin(), cells.end(),
      [&](const auto& a, const auto& b) { return gpu_seconds(a) < gpu_seconds(b); });
  return targets[found->layouts.front().target];
}

/// The sweep with this one point.
SweepSpec sweep_of(const Target& target) {
  SweepSpec sweep = target.planned->sweep;
  const Point& point = target.trial->point;
  sweep.name += "-check";
  sweep.axes.clear();
  sweep.zips.clear();
  sweep.points.clear();
  sweep.excludes.clear();
  sweep.search = {};
  sweep.measure.repeats = 1;
  sweep.global_batch_samples.reset();
  sweep.global_batch_tokens.reset();
  sweep.constants.clear();
  for (const AxisInfo& axis : axes()) {
    const auto value = axis.get(point);
    const bool sizes = axis.name == "nodes" || axis.name == "gpus";
    if (!sizes || (axis.name == "nodes") == (point.nodes > 0))
      sweep.constants.push_back({&axis, false, {value}});
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i)
    sweep.vars[i].values = {sweep.vars[i].values.at(static_cast<std::size_t>(point.vars.at(i)))};
  return sweep;
}

void say_how_sure(const std::vector<ExtrapolatedCell>& cells) {
  for (const ExtrapolatedCell& cell : cells) {
    if (cell.test.runs > 0) continue;
    say("These intervals come from the time model alone; this sweep's runs can't test them. A test "
        "needs 19 runs of one size, and runs of a smaller size that is no further from it than "
        "these sizes are from your runs.");
    return;
  }
  say("95 % intervals, from how well this sweep's small jobs predict its large ones.");
}

Result<ExitCode> run_extrapolate(const Session& session) {
  const Options& options = session.options;
  SHARDSWEEP_ASSIGN(const KnownRuns known, known_runs(session, options.names.front()));
  SHARDSWEEP_ASSIGN(const auto plans, plans_of(session, known));
  const auto targets = targets_of(plans, known);
  std::vector<SearchPoint> points;
  for (const Target& target : targets) {
    const Point& point = target.trial->point;
    points.push_back(
        {.model = target.planned->sweep.models.at(static_cast<std::size_t>(point.model)),
            .point = point,
            .traits = {}});
  }
  const auto& family = family_of_runner(known.spec.runner.known_as());
  // --set may have made it larger; what has run fits into it all the same.
  const ClusterSpec& cluster = plans.front().sweep.cluster;
  const auto cells = extrapolate(cluster, Predictor(cluster, family), known.runs, points);
  if (cells.empty())
    return fault(FaultKind::invalid_input,
        "'{}' has measured every layout of these sizes. 'shardsweep best' prints the fastest.",
        known.spec.name);
  const auto guesses = guesses_of(cells, targets, static_cast<std::size_t>(options.asked.top));
  auto view = guess_view();
  const bool for_people = is_for_people(session.options.format);
  // A sweep over GPUs has no nodes.
  const bool no_nodes = std::all_of(
      guesses.begin(), guesses.end(), [](const Guess& one) { return one.point().nodes == 0; });
  if (for_people && no_nodes)
    std::erase_if(view, [](const Column<Guess>& one) { return one.name == "nodes"; });
  SHARDSWEEP_TRY(print_result(view_text(view, guesses,
      table_style(session,
          {"layout", "extrapolated_tokens_per_s_per_gpu", "low", "high", "gpus", "nodes", "model",
              "seq_len", "chance_to_fit"}))));
  if (!std::all_of(guesses.begin(), guesses.end(), [](const Guess& one) { return one.tells(); }))
    say("Some intervals span more than a factor of 3, so nothing can be concluded there: measure "
        "these layouts.");
  say_how_sure(cells);
  const Target& check = cheapest(cells, targets);
  const double gpu_hours = check.trial->prediction.attempt_s * check.trial->point.gpus / hour_s;
  if (options.out.empty()) {
    say("One run tests them: {} on {} GPUs, about {:.2g} GPU-hours. --write FILE makes a sweep of "
        "it.",
        layout_text(check.trial->point), check.trial->point.gpus, gpu_hours);
    return ExitCode::done;
  }
  SHARDSWEEP_TRY(write_new_file(options.out, explain_sweep(sweep_of(check))));
  say("Wrote {}: {} on {} GPUs, about {:.2g} GPU-hours. Next: shardsweep submit {}", options.out,
      layout_text(check.trial->point), check.trial->point.gpus, gpu_hours, options.out);
  return ExitCode::done;
}

}  // namespace

extern const Command command_extrapolate{.name = "extrapolate",
    .heading = Heading::results,
    .help = "Guess speeds on node counts that were not run.",
    .examples =
        "shardsweep extrapolate my-sweep --nodes 16,32\n"
        "shardsweep extrapolate my-sweep --nodes 16 --write 16.yaml",
    .declare =
        [](Grammar& grammar) {
          Options& options = grammar.options();
          constexpr std::int64_t most_layouts = 100;
          grammar.option("names", options.names, "SWEEP", "The sweep.").required().times(1, 1);
          grammar.option("--nodes", options.asked.nodes, "N", "Numbers of nodes, such as 16,32.");
          grammar.option(
              "--gpus", options.asked.gpus, "N", "Numbers of GPUs, if the sweep sets gpus.");
          grammar.option("--set", options.set, "KEY=VALUE",
              "Override a value of the sweep, such as cluster.gpus_per_node=8. Repeatable.");
          grammar.option("--top", options.asked.top, "N", "Layouts to show of each cell.")
              .whole_number(1, most_layouts);
          grammar.option("--write", options.out, "FILE",
              "Write a sweep file of one trial that tests the nearest guess.");
          grammar.format();
        },
    .run = run_extrapolate};

}  // namespace shardsweep
