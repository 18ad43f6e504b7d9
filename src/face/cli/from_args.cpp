// SPDX-License-Identifier: Apache-2.0
// --from-args of `best` and `plan`: where a present configuration ranks.
#include "cli/emitting.hpp"
#include "cli/printing.hpp"
#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "search/sweep_search.hpp"
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
  if (text.starts_with('@')) {
    SHARDSWEEP_ASSIGN(text, read_file(text.substr(1), longest_configuration));
  }
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

/// A configuration may leave the length of samples to something else.
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
      speed > 0 ? Value(rank_of(speed, speeds)) : Value(),
      speeds.empty() ? Value() : Value(static_cast<std::int64_t>(speeds.size())),
      fastest == nullptr ? Value() : Value(layout_text(fastest->point)),
      speed > 0 && best > 0 ? Value(1 - speed / best) : Value()});
}

/// A trial of the database, with its speed; 0: it is not ranked.
struct KnownTrial {
  ResultRow row;
  Point point;
  std::pair<CellKey, std::string> cell;  ///< and the cluster
  double speed = 0;
};

std::vector<KnownTrial> known_trials(const Table& rows) {
  std::vector<KnownTrial> all;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const ResultRow row(rows, i);
    Point point;
    for (const AxisInfo& axis : axes()) {
      if (const auto value = axis_value(axis, {}, row)) axis.set(point, *value);
    }
    // A rank that ran alone is no trial of its layout, and what was measured again is of another
    // time.
    if (point.gpus != point.layout.world() || row.number("remeasured") != 0) continue;
    point.repeat = 1;
    all.push_back({row, point,
        {{row.text("model"), row.number("seq_len"), point.nodes, point.gpus, row.text("vars")},
            row.text("cluster")},
        row.text("mark").empty() ? row.real("tokens_per_s_per_gpu") : 0});
  }
  return all;
}

/// All repeats of a trial.
struct KnownLayout {
  const KnownTrial* trial = nullptr;  ///< the first one that is ranked, else the first one
  std::vector<double> speeds;

  /// The median; 0: it is not ranked.
  [[nodiscard]] double speed() const {
    if (speeds.empty()) return 0;
    std::vector<double> sorted = speeds;
    std::sort(sorted.begin(), sorted.end());
    const auto half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
};
using KnownCells = std::map<decltype(KnownTrial::cell), std::vector<KnownLayout>>;

KnownCells cells_of(const std::vector<KnownTrial>& trials) {
  KnownCells cells;
  std::map<std::pair<decltype(KnownTrial::cell), std::string>, std::vector<std::size_t>> places;
  for (const KnownTrial& one : trials) {
    auto& layouts = cells[one.cell];
    // Layouts with one name may differ in what the name leaves out, so their points are compared,
    // too.
    auto& alike = places[{one.cell, one.row.text("layout")}];
    auto found = std::find_if(alike.begin(), alike.end(),
        [&](std::size_t place) { return layouts[place].trial->point == one.point; });
    if (found == alike.end()) {
      found = alike.insert(alike.end(), layouts.size());
      layouts.push_back({&one, {}});
    }
    KnownLayout& layout = layouts[*found];
    if (one.speed <= 0) continue;
    if (layout.speeds.empty()) layout.trial = &one;
    layout.speeds.push_back(one.speed);
  }
  return cells;
}

/// Row of a layout and its rank in the cell; empty if no layout of the cell is ranked.
std::vector<Value> ranked_row(const KnownLayout& own, const std::vector<KnownLayout>& cell) {
  std::vector<double> speeds;
  const KnownLayout* best = nullptr;
  for (const KnownLayout& other : cell) {
    if (other.speeds.empty()) continue;
    speeds.push_back(other.speed());
    if (best == nullptr || other.speed() > best->speed()) best = &other;
  }
  if (best == nullptr) return {};
  const KnownTrial& one = *own.trial;
  const bool ranked = !own.speeds.empty();
  const std::string outcome = one.row.text("outcome");
  return {one.row.text("trial"), one.row.text("model"), one.point.layout.world(),
      one.row.text("layout"), outcome.empty() ? one.row.text("state") : outcome,
      positive(own.speed()), ranked ? Value(rank_of(own.speed(), speeds)) : Value(),
      static_cast<std::int64_t>(speeds.size()), best->trial->row.text("trial"),
      best->trial->row.text("layout"), ranked ? Value(1 - own.speed() / best->speed()) : Value()};
}

/// One row for each cell that has it; `empty_cells`: in how many nothing is ranked yet.
std::vector<std::vector<Value>> ranked_rows(
    const std::vector<KnownTrial>& trials, const TrainerLayout& wanted, std::int64_t& empty_cells) {
  std::vector<std::vector<Value>> rows;
  for (const auto& [name, cell] : cells_of(trials)) {
    for (const KnownLayout& own : cell) {
      if (!is_layout(own.trial->point, wanted)) continue;
      auto row = ranked_row(own, cell);
      if (row.empty()) {
        ++empty_cells;
      } else {
        rows.push_back(std::move(row));
      }
    }
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
        fmt::format("{} on {} is no point of '{}'. Its axes have to hold it: "
                    "'shardsweep plan' lists the points.",
            layout_text(wanted), counted(wanted.gpus(), "GPU"), planned.sweep.name));
  const bool any_speed = std::any_of(planned.plan.trials.begin(), planned.plan.trials.end(),
      [](const auto& trial) { return trial.prediction.tokens_per_s_per_gpu > 0; });
  if (!any_speed)
    say("The cluster file has no speed of its GPUs, so no layout is predicted to be faster "
        "than "
        "another.");
  return print_table(table,
      table_style(session,
          {"layout", "rank", "of", "fastest", "behind_share", "predicted_tokens_per_s_per_gpu",
              "point", "model", "gpus", "predicted_memory_bytes"}));
}

Result<ExitCode> rank_among_results(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const Options& options = session.options;
  auto columns = point_columns();
  for (const char* more :
      {"layout", "vars", "state", "outcome", "mark", "tokens_per_s_per_gpu", "runner", "cluster"})
    columns.emplace_back(more);
  SHARDSWEEP_ASSIGN(const Table rows,
      reader->results(
          {.selection = {.names = options.names, .where = options.where}, .columns = columns}));
  const auto all = known_trials(rows);
  const bool one_world = std::all_of(all.begin(), all.end(), [&](const KnownTrial& one) {
    return one.point.layout.world() == all.front().point.layout.world();
  });
  SHARDSWEEP_ASSIGN(const TrainerLayout wanted,
      present_layout(session, all.empty() ? std::string() : all.front().row.text("runner"),
          one_world && !all.empty() ? all.front().point.layout.world() : 0));
  Table table;
  table.columns = {"trial", "model", "gpus", "layout", "outcome", "tokens_per_s_per_gpu", "rank",
      "of", "best", "best_layout", "behind_share"};
  std::int64_t empty_cells = 0;
  table.rows = ranked_rows(all, wanted, empty_cells);
  if (table.rows.empty() && empty_cells > 0)
    return fault(FaultKind::invalid_input,
        fmt::format("The layout {} on {} is in {}, and nothing is measured there yet.",
            layout_text(wanted), counted(wanted.gpus(), "GPU"), counted(empty_cells, "cell")));
  if (table.rows.empty())
    return fault(FaultKind::invalid_input,
        fmt::format("No trial has the layout {} on {}. 'shardsweep plan SWEEP.yaml "
                    "--from-args' predicts it.",
            layout_text(wanted), counted(wanted.gpus(), "GPU")));
  if (empty_cells > 0)
    say(fmt::format("Not shown: {} with this layout where nothing is measured yet.",
        counted(empty_cells, "cell")));
  return print_table(table,
      table_style(session,
          {"trial", "rank", "of", "tokens_per_s_per_gpu", "behind_share", "best_layout", "layout",
              "outcome", "model", "gpus"}));
}

}  // namespace shardsweep
