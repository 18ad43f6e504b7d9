// SPDX-License-Identifier: Apache-2.0
#include "cli/emitting.hpp"

#include "cli/points_meant.hpp"
#include "cli/printing.hpp"
#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "show/comparison.hpp"
#include "sweep/batch_script.hpp"
#include "sweep/identity.hpp"
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
#include <tuple>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr std::size_t longest_configuration = std::size_t{1} << 20;
constexpr std::string_view as_batch_script = "sbatch";

/// One row's values by their columns.
class Row {
 public:
  Row(const Table& table, std::size_t row) : table_(table), row_(table.rows.at(row)) {}

  [[nodiscard]] std::int64_t number(std::string_view column) const {
    const auto* value = std::get_if<std::int64_t>(&at(column));
    return value == nullptr ? 0 : *value;
  }
  [[nodiscard]] std::string text(std::string_view column) const {
    const auto* value = std::get_if<std::string>(&at(column));
    return value == nullptr ? std::string() : *value;
  }
  [[nodiscard]] double real(std::string_view column) const {
    const auto* value = std::get_if<double>(&at(column));
    return value == nullptr ? 0 : *value;
  }

 private:
  [[nodiscard]] const Value& at(std::string_view column) const {
    static const Value none;
    const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
    return found == table_.columns.end()
               ? none
               : row_.at(static_cast<std::size_t>(found - table_.columns.begin()));
  }

  const Table& table_;
  const std::vector<Value>& row_;
};

TrainerLayout layout_of_point(const Point& point) {
  const Layout& layout = point.layout;
  return {
      .dp = layout.dp,
      .tp = layout.tp,
      .pp = layout.pp,
      .cp = layout.cp,
      .ep = layout.ep,
      .dp_replicate = layout.dp_replicate,
      .micro_batch = layout.micro_batch,
      .grad_accum = layout.grad_accum,
      .seq_len = point.seq_len,
      .zero = layout.zero,
      .recompute = std::string(recompute_words.at(static_cast<std::size_t>(layout.recompute))),
      .schedule = std::string(schedule_words.at(static_cast<std::size_t>(layout.schedule))),
      .sequence_parallel = layout.sequence_parallel};
}

/// An axis that no trainer's words are known for here, where its value is not the default; with
/// that value. Empty where there is none.
std::string axis_without_words(const Point& point) {
  for (const char* name : {"vpp", "rank_order", "bucket_mb", "overlap"}) {
    const AxisInfo& axis = *find_axis(name);
    const auto value = axis.get(point);
    if (value != axis.default_value) return fmt::format("{} {}", name, axis_text(axis, value));
  }
  return {};
}

/// A point, and what it is called. Its sweep is needed for a job script alone: an imported
/// table has none.
struct Emitted {
  const SweepSpec* sweep = nullptr;
  Point point;
  std::string name;
  std::string model;
};

std::string head_of(const Emitted& one) {
  return fmt::format("{}: {} on {}", one.name, one.model,
                     counted(one.point.layout.world(), "GPU"));
}

Result<std::string> block_of(const Session& session, const Emitted& one) {
  const std::string& words = session.options.emit;
  const std::string head = head_of(one);
  if (words == as_batch_script)
    return batch_script(*one.sweep, one.point,
                        {.name = one.sweep->name,
                         .comment = head,
                         .program = session.installation.runner.string(),
                         .slots_per_node = one.sweep->cluster.gpus_per_node});
  if (const auto axis = axis_without_words(one.point); !axis.empty())
    return fault(FaultKind::invalid_input,
                 fmt::format("{}: {} has no words for {}", head, words, axis));
  auto block = configuration_of(words, layout_of_point(one.point));
  if (!block) return fault(block.error().kind, fmt::format("{}: {}", head, block.error().what));
  // JSON has no comments: what a block is stands on standard error.
  const bool comments = words != "deepspeed" && words != "picotron";
  if (!comments) say(head);
  return comments ? fmt::format("# {}\n{}", head, *block) : *std::move(block);
}

Result<ExitCode> emit_all(const Session& session, const std::vector<Emitted>& all) {
  std::string text;
  for (const Emitted& one : all) {
    SHARDSWEEP_ASSIGN(const std::string block, block_of(session, one));
    text += block;
  }
  SHARDSWEEP_TRY(print_result(text));
  return ExitCode::done;
}

/// The trials that are meant: of a sweep those that are the best of their cells.
Result<std::vector<std::string>> trials_of(Reader& reader,
                                           const std::vector<std::string>& names,
                                           const std::string& where) {
  std::vector<std::string> trials;
  for (const std::string& name : names) {
    SHARDSWEEP_ASSIGN(const Table rows,
                      reader.results({.selection = {.names = {name}}, .columns = {"trial"}}));
    if (rows.rows.size() == 1) {
      trials.push_back(name);
      continue;
    }
    SHARDSWEEP_ASSIGN(const Table best, reader.best({.names = {name}, .where = where}));
    if (best.rows.empty())
      return fault(FaultKind::invalid_input,
                   fmt::format("'{}' has no measurement yet. Name one of its trials: "
                               "`shardsweep results {}` lists them.",
                               name, name));
    for (std::size_t i = 0; i < best.rows.size(); ++i)
      trials.push_back(Row(best, i).text("trial"));
  }
  return trials;
}

std::string sql_quoted(std::string_view text) {
  std::string sql = "'";
  for (const char c : text)
    sql += c == '\'' ? std::string("''") : std::string(1, c);
  return sql + "'";
}

std::vector<std::string> point_columns() {
  std::vector<std::string> columns{"sweep", "trial"};
  for (const AxisInfo& axis : axes())
    columns.emplace_back(axis.name);
  return columns;
}

/// A value of a column as the axis counts it; none: no value of this axis.
std::optional<std::int64_t> axis_value(const AxisInfo& axis, const SweepSpec& sweep,
                                       const Row& row) {
  const auto text = row.text(axis.name);
  if (axis.kind == AxisKind::model) {
    const auto found = std::find_if(sweep.models.begin(), sweep.models.end(),
                                    [&](const ModelSpec& one) { return one.name == text; });
    if (found == sweep.models.end()) return std::nullopt;
    return found - sweep.models.begin();
  }
  if (axis.kind == AxisKind::toggle && !text.empty()) return text == "true" || text == "on";
  if (axis.kind != AxisKind::word) return row.number(axis.name);
  const auto word = std::find(axis.words.begin(), axis.words.end(), text);
  if (word == axis.words.end()) return std::nullopt;
  return word - axis.words.begin();
}

Result<Point> point_of_row(Reader& reader, const SweepSpec& sweep, const Row& row) {
  Point point;
  for (const AxisInfo& axis : axes()) {
    if (const auto value = axis_value(axis, sweep, row)) axis.set(point, *value);
  }
  point.vars.assign(sweep.vars.size(), 0);
  SHARDSWEEP_ASSIGN(const Table vars,
                    reader.query(fmt::format(
                        "SELECT j.key AS name, CAST(j.value AS TEXT) AS value FROM trials "
                        "AS t, json_each(t.vars) AS j WHERE t.slug = {}",
                        sql_quoted(row.text("trial")))));
  for (std::size_t i = 0; i < vars.rows.size(); ++i) {
    const Row var(vars, i);
    for (std::size_t n = 0; n < sweep.vars.size(); ++n) {
      const auto& values = sweep.vars[n].values;
      const auto value = std::find(values.begin(), values.end(), var.text("value"));
      if (sweep.vars[n].name == var.text("name") && value != values.end())
        point.vars[n] = static_cast<std::int32_t>(value - values.begin());
    }
  }
  return point;
}

/// Sweeps as they were submitted, by name.
class StoredSweeps {
 public:
  StoredSweeps(const Session& session, Reader& reader) : session_(session), reader_(reader) {}
  Result<const SweepSpec*> of(const std::string& name) {
    if (const auto known = sweeps_.find(name); known != sweeps_.end()) return &known->second;
    SHARDSWEEP_ASSIGN(const std::string text, reader_.resolved(name));
    SHARDSWEEP_ASSIGN(SweepSpec sweep,
                      load_sweep_text(text, name, {session_.installation.presets, {}}));
    return &sweeps_.emplace(name, std::move(sweep)).first->second;
  }

 private:
  const Session& session_;
  Reader& reader_;
  std::map<std::string, SweepSpec> sweeps_;
};

// ---- --from-args

/// The trainer whose words a present configuration has: --for, else the sweep's own.
std::string words_of(const Session& session, std::string_view runner) {
  if (!session.options.log.empty()) return session.options.log;
  const auto known = configurable_trainers();
  const bool own = std::find(known.begin(), known.end(), runner) != known.end();
  return own ? std::string(runner) : "megatron";
}

Result<TrainerLayout> present_layout(const Session& session, std::string_view runner,
                                     std::int64_t usual_gpus) {
  const Options& options = session.options;
  std::string text = options.from_args;
  if (text.starts_with('@')) {
    SHARDSWEEP_ASSIGN(text, read_file(text.substr(1), longest_configuration));
  }
  std::int64_t gpus = usual_gpus;
  if (!options.run_gpus.empty()) {
    constexpr std::int64_t most = 1'000'000'000;
    const auto read = config::parse_count(options.run_gpus, {1, most, "--gpus"});
    if (!read) return fault(FaultKind::invalid_input, read.error());
    gpus = *read;
  }
  const auto trainer = words_of(session, runner);
  auto layout = layout_of(trainer, text, gpus);
  if (!layout && gpus == 0)
    return fault(layout.error().kind,
                 fmt::format("--from-args: {}. Give --gpus.", layout.error().what));
  if (!layout) return tl::unexpected(layout.error().in("--from-args"));
  return layout;
}

std::string text_of(const TrainerLayout& one) {
  std::string text = fmt::format("dp{} tp{} pp{} mb{} ga{} z{}", one.dp, one.tp, one.pp,
                                 one.micro_batch, one.grad_accum, one.zero);
  if (one.cp > 1) text += fmt::format(" cp{}", one.cp);
  if (one.ep > 1) text += fmt::format(" ep{}", one.ep);
  if (one.recompute != "none") text += " " + one.recompute;
  if (one.sequence_parallel) text += " sp";
  if (one.schedule != "1f1b") text += " " + one.schedule;
  if (one.dp_replicate > 1) text += fmt::format(" dpr{}", one.dp_replicate);
  return text;
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

using CellOfPoint =
    std::tuple<std::int32_t, std::int32_t, std::int32_t, std::vector<std::int32_t>>;
CellOfPoint cell_of_point(const Point& point) {
  return {point.model, point.seq_len, point.gpus, point.vars};
}

/// Rank among values of a cell: 1 is the fastest.
std::int64_t rank_of(double value, const std::vector<double>& all) {
  return 1 + std::count_if(all.begin(), all.end(), [&](double one) { return one > value; });
}

Value positive(double value) {
  return value > 0 ? Value(value) : Value();
}

/// Its predicted speed and memory beside those of the plan's cell.
void add_predicted(Table& table, const Planned& planned, const Point& point,
                   const Prediction& own, const std::string& state) {
  std::vector<double> speeds;
  const PlannedTrial* fastest = nullptr;
  for (const auto& trial : planned.plan.trials) {
    if (cell_of_point(trial.point) != cell_of_point(point)) continue;
    const double speed = trial.prediction.tokens_per_s_per_gpu;
    speeds.push_back(speed);
    if (fastest == nullptr || speed > fastest->prediction.tokens_per_s_per_gpu)
      fastest = &trial;
  }
  const auto& model = planned.sweep.models.at(static_cast<std::size_t>(point.model));
  const double best = fastest == nullptr ? 0 : fastest->prediction.tokens_per_s_per_gpu;
  const double speed = own.tokens_per_s_per_gpu;
  table.rows.push_back(
      {model.name, point.layout.world(), std::int64_t{point.seq_len},
       text_of(layout_of_point(point)), state, positive(speed), Value(own.memory_bytes),
       speed > 0 ? Value(rank_of(speed, speeds)) : Value(),
       static_cast<std::int64_t>(speeds.size()),
       fastest == nullptr ? Value() : Value(text_of(layout_of_point(fastest->point))),
       speed > 0 && best > 0 ? Value(1 - speed / best) : Value()});
}

/// A trial of the database, with its speed; 0: it is not ranked.
struct KnownTrial {
  Row row;
  Point point;
  std::tuple<std::string, std::int64_t, std::int64_t, std::string> cell;
  double speed = 0;
};

std::vector<KnownTrial> known_trials(const Table& rows) {
  std::vector<KnownTrial> all;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    const Row row(rows, i);
    Point point;
    for (const AxisInfo& axis : axes()) {
      if (const auto value = axis_value(axis, {}, row)) axis.set(point, *value);
    }
    // A rank that ran alone is no trial of its layout.
    if (point.gpus != point.layout.world()) continue;
    all.push_back(
        {row,
         point,
         {row.text("model"), row.number("seq_len"), point.layout.world(), row.text("vars")},
         row.text("mark").empty() ? row.real("tokens_per_s_per_gpu") : 0});
  }
  return all;
}

/// Beside the ranked trials of its cell.
std::vector<Value> ranked_row(const KnownTrial& one, const std::vector<KnownTrial>& all) {
  std::vector<double> speeds;
  const KnownTrial* best = nullptr;
  for (const KnownTrial& other : all) {
    if (other.cell != one.cell || other.speed <= 0) continue;
    speeds.push_back(other.speed);
    if (best == nullptr || other.speed > best->speed) best = &other;
  }
  const bool ranked = one.speed > 0;
  return {one.row.text("trial"),
          one.row.text("model"),
          one.point.layout.world(),
          one.row.text("layout"),
          one.row.text("outcome"),
          positive(one.speed),
          ranked ? Value(rank_of(one.speed, speeds)) : Value(),
          static_cast<std::int64_t>(speeds.size()),
          best == nullptr ? Value() : Value(best->row.text("trial")),
          best == nullptr ? Value() : Value(best->row.text("layout")),
          ranked && best != nullptr ? Value(1 - one.speed / best->speed) : Value()};
}

}  // namespace

std::vector<std::string> emit_words() {
  std::vector<std::string> words;
  for (const auto trainer : configurable_trainers())
    words.emplace_back(trainer);
  words.emplace_back(as_batch_script);
  return words;
}

Result<ExitCode> emit_best(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  std::vector<std::string> names = session.options.names;
  if (names.empty()) {
    SHARDSWEEP_ASSIGN(const Table best, reader->best({.where = session.options.where}));
    for (std::size_t i = 0; i < best.rows.size(); ++i)
      names.push_back(Row(best, i).text("trial"));
  }
  SHARDSWEEP_ASSIGN(const auto trials, trials_of(*reader, names, session.options.where));
  StoredSweeps sweeps(session, *reader);
  std::vector<Emitted> all;
  for (const std::string& trial : trials) {
    SHARDSWEEP_ASSIGN(const Table table, reader->results({.selection = {.names = {trial}},
                                                          .columns = point_columns()}));
    const Row row(table, 0);
    static const SweepSpec no_sweep;
    const SweepSpec* sweep = &no_sweep;
    if (session.options.emit == as_batch_script) {
      SHARDSWEEP_ASSIGN(sweep, sweeps.of(row.text("sweep")));
    }
    SHARDSWEEP_ASSIGN(Point point, point_of_row(*reader, *sweep, row));
    all.push_back({sweep, std::move(point), row.text("trial"), row.text("model")});
  }
  return emit_all(session, all);
}

Result<ExitCode> emit_plan(const Session& session, const Planned& planned) {
  SHARDSWEEP_ASSIGN(const auto meant, points_meant(planned, session.options.point));
  const Identifier names(planned.sweep, planned.capabilities);
  std::vector<Emitted> all;
  all.reserve(meant.size());
  for (const PlannedTrial* trial : meant)
    all.push_back({&planned.sweep, trial->point, names.slug(trial->point),
                   planned.sweep.models.at(static_cast<std::size_t>(trial->point.model)).name});
  return emit_all(session, all);
}

Result<ExitCode> rank_in_plan(const Session& session, const Planned& planned) {
  SHARDSWEEP_ASSIGN(
      const TrainerLayout wanted,
      present_layout(session, planned.sweep.runner.known_as(), only_world(planned.plan)));
  Table table;
  table.columns = {"model",
                   "gpus",
                   "seq_len",
                   "layout",
                   "point",
                   "predicted_tokens_per_s_per_gpu",
                   "predicted_memory_bytes",
                   "rank",
                   "of",
                   "fastest",
                   "behind_share"};
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
    return fault(
        FaultKind::invalid_input,
        fmt::format("{} on {} is no point of '{}'. Its axes have to hold it: "
                    "'shardsweep plan' lists the points.",
                    text_of(wanted), counted(wanted.gpus(), "GPU"), planned.sweep.name));
  return print_table(
      table, table_style(session, {"layout", "rank", "of", "fastest", "behind_share",
                                   "predicted_tokens_per_s_per_gpu", "point", "model", "gpus",
                                   "predicted_memory_bytes"}));
}

Result<ExitCode> rank_among_results(const Session& session) {
  SHARDSWEEP_ASSIGN(const auto reader, Reader::open(session.home.database));
  const Options& options = session.options;
  auto columns = point_columns();
  for (const char* more :
       {"layout", "vars", "outcome", "mark", "tokens_per_s_per_gpu", "runner"})
    columns.emplace_back(more);
  SHARDSWEEP_ASSIGN(
      const Table rows,
      reader->results(
          {.selection = {.names = options.names, .where = options.where}, .columns = columns}));
  const auto all = known_trials(rows);
  const bool one_world = std::all_of(all.begin(), all.end(), [&](const KnownTrial& one) {
    return one.point.layout.world() == all.front().point.layout.world();
  });
  SHARDSWEEP_ASSIGN(
      const TrainerLayout wanted,
      present_layout(session, all.empty() ? std::string() : all.front().row.text("runner"),
                     one_world && !all.empty() ? all.front().point.layout.world() : 0));
  Table table;
  table.columns = {
      "trial", "model", "gpus", "layout",      "outcome",     "tokens_per_s_per_gpu",
      "rank",  "of",    "best", "best_layout", "behind_share"};
  for (const KnownTrial& one : all) {
    if (is_layout(one.point, wanted)) table.rows.push_back(ranked_row(one, all));
  }
  if (table.rows.empty())
    return fault(FaultKind::invalid_input,
                 fmt::format("No trial has the layout {} on {}. 'shardsweep plan SWEEP.yaml "
                             "--from-args' predicts it.",
                             text_of(wanted), counted(wanted.gpus(), "GPU")));
  return print_table(table, table_style(session, {"trial", "rank", "of", "tokens_per_s_per_gpu",
                                                  "behind_share", "best_layout", "layout",
                                                  "outcome", "model", "gpus"}));
}

}  // namespace shardsweep
