// SPDX-License-Identifier: Apache-2.0
// --from-args of `best` and `plan`: where a present configuration ranks.
#include "cli/emitting.hpp"
#include "cli/printing.hpp"
#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "search/sweep_search.hpp"
#include "show/ranked_layouts.hpp"
#include "show/trial_columns.hpp"
#include "sweep/layout_text.hpp"
#include "text/characters.hpp"
#include "text/numbers.hpp"
#include "text/units.hpp"
#include "trainer/configuration.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/load.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t longest_configuration = std::size_t{1} << 20;

/// The trainer whose words a present configuration has: --for, else the sweep's own.
std::string words_of(const Session& session, std::string_view runner) {
  if (!session.options.trainer.log.empty()) return session.options.trainer.log;
  const bool tells = layout_words_of(runner).form != WordsForm::none;
  return tells ? std::string(runner) : usual_family(UsualOn::gpus).words;
}

Result<TrainerLayout> present_layout(
    const Session& session, std::string_view runner, std::int64_t usual_gpus) {
  const Options& options = session.options;
  std::string text = options.trainer.from_args;
  if (text.starts_with('@')) SHARDSWEEP_SET(text, read_file(text.substr(1), longest_configuration));
  std::int64_t gpus = usual_gpus;
  if (!options.trainer.gpus.empty()) {
    constexpr std::int64_t most = 1'000'000'000;
    const auto read = config::parse_count(options.trainer.gpus, {1, most, "--gpus"});
    if (!read) return fault(FaultKind::invalid_input, read.error());
    gpus = *read;
  }
  const auto trainer = words_of(session, runner);
  SHARDSWEEP_TRY(know_trainer(trainer));
  auto layout = layout_of_file(trainer, text, gpus);
  if (!layout && gpus == 0)
    return fault(
        layout.error().kind, fmt::format("--from-args: {}. Give --gpus.", layout.error().what));
  if (!layout) return tl::unexpected(layout.error().in("--from-args"));
  return layout;
}

/// A configuration need not have seq_len: then any will do.
bool is_layout(const Point& point, const TrainerLayout& wanted) {
  auto own = layout_of_point(point);
  if (wanted.seq_len == 0) own.seq_len = 0;
  return own == wanted;
}

/// The one world of all trials; 0: there are several.
std::int64_t only_world(const Plan& plan) {
  std::int64_t world = 0;
  for (const auto& trial : plan.trials) {
    if (world != 0 && world != trial.point.layout.world()) return 0;
    world = trial.point.layout.world();
  }
  return world;
}

/// Rank among values of a cell: 1 is the fastest.
std::int64_t rank_of(double value, const std::vector<double>& all) {
  return 1 + std::count_if(all.begin(), all.end(), [&](double one) { return one > value; });
}

Value positive(double value) {
  return value > 0 ? Value(value) : Value();
}

/// Adds a row with the point's predicted speed and memory, and its rank in the plan's cell.
void add_predicted(Table& table, const PlannedSweep& planned, const Point& point,
    const Prediction& own, const std::string& state) {
  std::vector<double> speeds;
  const PlannedTrial* fastest = nullptr;
  const auto cell_at = [&](const Point& one) {
    return cell_of(planned.sweep.models.at(static_cast<std::size_t>(one.model)), one);
  };
  for (const auto& trial : planned.plan.trials) {
    if (cell_at(trial.point) != cell_at(point)) continue;
    const double speed = trial.prediction.tokens_per_s_per_gpu;
    if (speed <= 0) continue;
    speeds.push_back(speed);
    if (fastest == nullptr || speed > fastest->prediction.tokens_per_s_per_gpu) fastest = &trial;
  }
  const auto& model = planned.sweep.models.at(static_cast<std::size_t>(point.model));
  const double best = fastest == nullptr ? 0 : fastest->prediction.tokens_per_s_per_gpu;
  const double speed = own.tokens_per_s_per_gpu;
  table.rows.push_back({model.name, point.layout.world(), std::int64_t{point.seq_len},
      layout_text(point), state, positive(speed), Value(own.memory_bytes),
      speed > 0 && best > 0 ? Value(rank_of(speed, speeds)) : Value(),
      speeds.empty() ? Value() : Value(static_cast<std::int64_t>(speeds.size())),
      fastest == nullptr ? Value() : Value(layout_text(fastest->point)),
      speed > 0 && best > 0 ? Value(1 - speed / best) : Value()});
}

/// Trials of one cell on one cluster.
using CellOfTrial = std::pair<CellKey, std::string>;
CellOfTrial cell_of(const ReportedTrial& trial) {
  return {{trial.model, trial.seq_len, trial.nodes, trial.gpus, trial.vars}, trial.cluster};
}

/// Layouts of each cell, as `best` ranks them.
using RankedCells = std::map<CellOfTrial, std::vector<const RankedLayout*>>;

/// A trial and where it stands, with the winner of its cell.
std::vector<Value> ranked_row(const ReportedTrial& trial, const RankedLayout* own,
    const std::vector<const RankedLayout*>& cell) {
  const RankedLayout& best = **std::min_element(
      cell.begin(), cell.end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
  const double behind =
      own == nullptr ? 0 : 1 - own->tokens_per_s_per_gpu / best.tokens_per_s_per_gpu;
  return {trial.trial, trial.model, trial.gpus, trial.layout,
      trial.outcome.empty() ? trial.state : trial.outcome,
      own == nullptr ? Value() : Value(own->tokens_per_s_per_gpu),
      own == nullptr ? Value() : Value(own->rank), std::ssize(cell), best.trial, best.layout,
      own == nullptr ? Value() : Value(behind)};
}

/// One row for each cell that has the layout; `empty_cells`: in how many nothing is ranked yet.
std::vector<std::vector<Value>> ranked_rows(const std::vector<ReportedTrial>& trials,
    const RankedLayouts& layouts, const TrainerLayout& wanted, std::int64_t& empty_cells) {
  std::map<std::pair<std::string, std::string>, const ReportedTrial*> by_name;
  for (const auto& trial : trials)
    by_name.emplace(std::pair(trial.sweep, trial.trial), &trial);
  RankedCells cells;
  std::map<const RankedLayout*, const ReportedTrial*> trial_of;
  for (const RankedLayout& layout : layouts.rows) {
    const auto found = by_name.find({layout.sweep, layout.trial});
    if (found == by_name.end()) continue;
    trial_of.emplace(&layout, found->second);
    cells[cell_of(*found->second)].push_back(&layout);
  }
  // A rank that ran alone is no trial of its layout.
  std::map<CellOfTrial, const ReportedTrial*> asked;
  for (const auto& trial : trials) {
    const Point point = point_of(trial);
    if (point.gpus == point.layout.world() && trial.remeasured == 0 && is_layout(point, wanted))
      asked.emplace(cell_of(trial), &trial);
  }
  std::vector<std::vector<Value>> rows;
  for (const auto& [key, first] : asked) {
    const auto found = cells.find(key);
    if (found == cells.end()) {
      ++empty_cells;
      continue;
    }
    // The best one of layouts that differ in what the words leave out.
    const RankedLayout* own = nullptr;
    for (const auto* layout : found->second) {
      if ((own == nullptr || layout->rank < own->rank) &&
          is_layout(point_of(*trial_of.at(layout)), wanted))
        own = layout;
    }
    rows.push_back(ranked_row(own == nullptr ? *first : *trial_of.at(own), own, found->second));
  }
  return rows;
}

}  // namespace

Result<ExitCode> rank_in_plan(const Session& session, const PlannedSweep& planned) {
  const RunnerSpec& runner = planned.sweep.runner;
  SHARDSWEEP_ASSIGN(const TrainerLayout wanted,
      present_layout(session,
          runner.trainer.words.empty() ? runner.known_as() : runner.trainer.words,
          only_world(planned.plan)));
  Table table;
  table.columns = {"model", "gpus", "seq_len", "layout", "point", "predicted_tokens_per_s_per_gpu",
      "predicted_memory_bytes", "rank", "of", "fastest", "behind_share"};
  const Predictor predictor(planned.sweep.cluster, family_of(planned.sweep.runner));
  for (const auto& trial : planned.plan.trials) {
    if (is_layout(trial.point, wanted) && trial.point.repeat == 1)
      add_predicted(table, planned, trial.point, trial.prediction, "in the plan");
  }
  for (const auto& left : planned.plan.left_out) {
    if (!is_layout(left.point, wanted) || left.point.repeat != 1) continue;
    const auto& model = planned.sweep.models.at(static_cast<std::size_t>(left.point.model));
    const auto guess = predictor.predict(model, planned.sweep.measure, left.point);
    add_predicted(table, planned, left.point, guess, "left out: " + left.verdict.why);
  }
  if (table.rows.empty())
    return fault(FaultKind::invalid_input,
        "{} on {} is not a point of '{}': add its values to the axes. 'shardsweep plan' lists the "
        "points.",
        layout_text(wanted), counted(wanted.gpus(), "GPU"), planned.sweep.name);
  const bool any_speed = std::any_of(planned.plan.trials.begin(), planned.plan.trials.end(),
      [](const auto& trial) { return trial.prediction.tokens_per_s_per_gpu > 0; });
  if (!any_speed && !planned.plan.trials.empty())
    say("The cluster file has no speed of its GPUs, so no layout is predicted to be faster than "
        "another.");
  return print_table(table,
      table_style(session,
          {"layout", "rank", "of", "fastest", "behind_share", "predicted_tokens_per_s_per_gpu",
              "point", "model", "gpus", "predicted_memory_bytes"}));
}

Result<ExitCode> rank_among_results(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const Options& options = session.options;
  const Selection selection = selection_of(options);
  SHARDSWEEP_ASSIGN(const auto trials, reader->trials(selection));
  SHARDSWEEP_ASSIGN(Table ranked, reader->layouts(selection));
  const auto first_world = trials.empty() ? 0 : trials.front().gpus;
  const bool one_world = std::all_of(
      trials.begin(), trials.end(), [&](const auto& one) { return one.gpus == first_world; });
  SHARDSWEEP_ASSIGN(const TrainerLayout wanted,
      present_layout(session, trials.empty() ? std::string() : trials.front().runner,
          one_world ? first_world : 0));
  Table table;
  table.columns = {"trial", "model", "gpus", "layout", "outcome", "tokens_per_s_per_gpu", "rank",
      "of", "best", "best_layout", "behind_share"};
  std::int64_t empty_cells = 0;
  table.note = ranked.note;
  table.rows = ranked_rows(trials, ranked_layouts(std::move(ranked)), wanted, empty_cells);
  if (table.rows.empty() && empty_cells > 0)
    return fault(FaultKind::invalid_input,
        "The layout {} on {} is in {}, and nothing is measured there yet.", layout_text(wanted),
        counted(wanted.gpus(), "GPU"), counted(empty_cells, "cell"));
  if (table.rows.empty())
    return fault(FaultKind::invalid_input,
        "No trial has the layout {} on {}. 'shardsweep plan SWEEP.yaml --from-args' predicts it.",
        layout_text(wanted), counted(wanted.gpus(), "GPU"));
  if (empty_cells > 0)
    say("Not shown: {} with this layout, because nothing is measured there yet.",
        counted(empty_cells, "cell"));
  return print_table(table,
      table_style(session,
          {"trial", "rank", "of", "tokens_per_s_per_gpu", "behind_share", "best_layout", "layout",
              "outcome", "model", "gpus"}));
}

}  // namespace shardsweep
