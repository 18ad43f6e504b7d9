// SPDX-License-Identifier: Apache-2.0
// A plan may have a million rows: they are written as they are formatted.
#include "show/plan_view.hpp"

#include "plan/plan_cost.hpp"
#include "predict/time_model.hpp"
#include "show/cell_text.hpp"
#include "show/column.hpp"
#include "sweep/identity.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/clock.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using Buffer = fmt::memory_buffer;

using PlanView = View<PlannedTrial>;

template <class... Args>
void put(Buffer& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

double trial_gpu_hours(const SweepSpec& sweep, const PlannedTrial& trial) {
  return trial.prediction.attempt_s * static_cast<double>(gpus_held(sweep.cluster, trial.point)) /
      hour_s;
}

/// True if a trial's time is from a nominal rate: right in order, and unknown in scale.
bool has_nominal_time(const PlannedTrial& trial) {
  return trial.prediction.attempt_s > 0 && trial.prediction.train_step_s <= 0;
}

// True if a table shows an axis: model and world, and the others that some trial sets. A layout has
// one column: of many narrow ones a terminal would drop some that tell rows apart.
bool is_shown(const AxisInfo& axis, const Plan& plan) {
  if (axis.of_layout()) return false;
  if (axis.is(AxisUse::named)) return true;
  const auto& trials = plan.trials;
  // Efforts are named by nodes or by gpus.
  if (axis.name == "gpus" &&
      std::all_of(trials.begin(), trials.end(), [](const auto& t) { return t.point.nodes > 0; }))
    return false;
  return std::any_of(trials.begin(), trials.end(),
      [&](const auto& trial) { return axis.get(trial.point) != axis.default_value; });
}

/// Columns of what is predicted of a trial.
PlanView predicted_columns(const SweepSpec& sweep) {
  using Trial = const PlannedTrial&;
  return {{"predicted_memory_bytes", [](Trial trial) { return trial.prediction.memory_bytes; },
              For::all, "memory",
              [&sweep](Trial trial) {
                return (is_likely_oom(sweep, trial) ? "! " : "") +
                    size_text(trial.prediction.memory_bytes);
              }},
      {"predicted_train_step_s", [](Trial trial) { return known(trial.prediction.train_step_s); },
          For::all, "train step"},
      {"predicted_attempt_s", [](Trial trial) { return known(trial.prediction.attempt_s); },
          For::machines},
      {"predicted_tokens_per_s_per_gpu",
          [](Trial trial) { return known(trial.prediction.tokens_per_s_per_gpu); }, For::all,
          "tokens/s/GPU"},
      {"predicted_gpu_hours",
          [&sweep](Trial trial) { return known(trial_gpu_hours(sweep, trial)); }, For::all,
          "GPU-hours",
          [&sweep](Trial trial) {
            constexpr double least_shown = 0.01;
            const double hours = trial_gpu_hours(sweep, trial);
            return hours < least_shown ? "<0.01" : amount_text(hours);
          }}};
}

/// `names`: of trials, for programs.
PlanView plan_columns(const SweepSpec& sweep, const Plan& plan, const Identifier* names) {
  using Trial = const PlannedTrial&;
  PlanView columns{
      {"slug", [names](Trial trial) { return names->slug(trial.point); }, For::machines},
      {"lane", [](Trial trial) { return std::int64_t{trial.lane}; }}};
  const auto if_shown = [](bool shown) { return shown ? For::all : For::machines; };
  const auto value_of = [&sweep](const AxisInfo& axis, const Point& point) -> Value {
    if (axis.kind != AxisKind::model) return axis_value(axis, point);
    return sweep.models[static_cast<std::size_t>(point.model)].name;
  };
  for (const AxisInfo& axis : axes())
    columns.push_back({std::string(axis.name),
        [&axis, value_of](Trial trial) { return value_of(axis, trial.point); },
        if_shown(is_shown(axis, plan))});
  columns.push_back(
      {"layout", {}, For::people, "", [](Trial trial) { return layout_text(trial.point); }});
  columns.push_back({"repeat", [](Trial trial) { return std::int64_t{trial.point.repeat}; },
      if_shown(sweep.measure.repeats > 1)});
  columns.push_back({"global_batch", [](Trial trial) { return trial.point.layout.global_batch(); },
      For::machines});
  for (std::size_t i = 0; i < sweep.vars.size(); ++i)
    columns.push_back({sweep.vars[i].name, [&sweep, i](Trial trial) {
                         return sweep.vars[i].values[static_cast<std::size_t>(trial.point.vars[i])];
                       }});
  for (auto& column : predicted_columns(sweep))
    columns.push_back(std::move(column));
  return columns;
}

/// The more important a column is, the narrower a terminal may be that shows it. A var tells
/// trials apart as the layout does.
std::vector<std::string_view> important_columns(const SweepSpec& sweep) {
  std::vector<std::string_view> names{"layout"};
  for (const auto& var : sweep.vars)
    names.emplace_back(var.name);
  names.insert(names.end(),
      {"model", "predicted_tokens_per_s_per_gpu", "nodes", "gpus", "predicted_memory_bytes",
          "predicted_train_step_s", "predicted_gpu_hours"});
  return names;
}

/// Trials of one world: they share allocations.
struct Effort {
  std::int64_t trials = 0;
  double run_time_s = 0;  ///< one after the other
  double gpu_hours = 0;
};
using Efforts = std::map<std::pair<std::int32_t, std::int32_t>, Effort>;  // nodes, gpus

Efforts efforts_of(const SweepSpec& sweep, const Plan& plan) {
  Efforts worlds;
  for (const auto& trial : plan.trials) {
    auto& world = worlds[{trial.point.nodes, trial.point.gpus}];
    ++world.trials;
    world.run_time_s += trial.prediction.attempt_s;
    world.gpu_hours += trial_gpu_hours(sweep, trial);
  }
  return worlds;
}

class PlanWriter {
 public:
  PlanWriter(Buffer& out, const SweepSpec& sweep, const Plan& plan, const PlanText& text)
      : out_(out),
        sweep_(sweep),
        plan_(plan),
        flush_(text.flush),
        terminal_(text.terminal),
        usual_width_(text.usual_width) {}

  void csv(const Identifier& names) { trials(names, Format::csv); }

  void json(const Identifier& names) {
    put(out_, "{{\"sweep\":");
    append_json(out_, sweep_.name);
    put(out_, ",\"cluster\":");
    append_json(out_, sweep_.cluster.name);
    put(out_, ",\"points\":{},\"duplicates\":{},\"feasible\":{},\"left_out\":{{", plan_.points,
        plan_.duplicates, plan_.trials.size());
    json_members(plan_.left_out_by_constraint, [&](std::int64_t count) { put(out_, "{}", count); });
    put(out_, "}},\"examples\":{{");
    json_members(plan_.examples, [&](const LeftOut& left) { append_json(out_, left.verdict.why); });
    put(out_, "}},\"warnings\":[");
    for (std::size_t i = 0; i < plan_.warnings.size(); ++i) {
      if (i > 0) out_.push_back(',');
      append_json(out_, plan_.warnings[i]);
    }
    put(out_, "],\"lanes\":{},\"gpu_hours\":{},\"gpu_hours_before\":{},", plan_.lanes,
        plan_.gpu_hours, plan_.gpu_hours_before_pruning());
    const auto bound = search_bound(sweep_, plan_);
    put(out_, "\"runs_at_most\":{},\"gpu_hours_at_most\":{},", bound.runs, bound.gpu_hours);
    if (const Rehearsal is = rehearse(sweep_, plan_); is.played())
      put(out_, "\"likely\":{{\"runs\":[{},{}],\"gpu_hours\":[{},{}]}},", is.least_runs,
          is.most_runs, is.least_gpu_hours, is.most_gpu_hours);
    if (const FinalsCost cost = finals_cost(sweep_, plan_); cost.cells > 0)
      put(out_,
          "\"finals\":{{\"cells\":{},\"runs_per_round\":{},\"gpu_hours_per_round\":{},\"rounds_at_"
          "most\":{},\"further_node_sets\":{},\"further_runs_per_round\":{},\"further_gpu_hours_"
          "per_round\":{}}},",
          cost.cells, cost.runs, cost.gpu_hours, cost.rounds_at_most, cost.further_sets,
          cost.further_runs, cost.further_gpu_hours);
    put(out_, "\"left_out_gpu_hours\":{{");
    json_members(plan_.left_out_gpu_hours, [&](double hours) { put(out_, "{}", hours); });
    put(out_, "}},\"excluded\":[");
    for (std::size_t i = 0; i < plan_.excluded.size(); ++i) {
      put(out_, "{}{{\"when\":", i == 0 ? "" : ",");
      append_json(out_, sweep_.excludes[i].when);
      put(out_, ",\"points\":{}}}", plan_.excluded[i]);
    }
    put(out_, "],\"worlds\":[");
    bool first = true;
    for (const auto& [size, world] : efforts_of(sweep_, plan_)) {
      put(out_, "{}{{\"nodes\":{},\"gpus\":{},\"trials\":{},\"run_time_s\":{},\"gpu_hours\":{}}}",
          std::exchange(first, false) ? "" : ",", size.first, size.second, world.trials,
          world.run_time_s, world.gpu_hours);
    }
    put(out_, "],\"trials\":");
    trials(names, Format::json);
    put(out_, "}}\n");
  }

  void table(bool whole) {
    std::string text = fmt::format("sweep '{}' on {}: {}, {} feasible, {} left out", sweep_.name,
        sweep_.cluster.name, counted(plan_.points, "point"), grouped(trial_count()),
        grouped(plan_.points - trial_count()));
    if (plan_.duplicates > 0) {
      text += fmt::format(
          "; {} repeated, counted once", counted(plan_.duplicates, "hand-picked point"));
    }
    sentence(text);
    left_out();
    if (plan_.trials.empty()) return;
    put(out_, "\n");
    trials(whole ? plan_.trials.size() : std::min(plan_.trials.size(), trials_shown));
    likely_ooms();
    put(out_, "\n");
    effort();
    search();
    finals();
    side_runs();
  }

 private:
  void likely_ooms() {
    const auto count = std::count_if(plan_.trials.begin(), plan_.trials.end(),
        [this](const PlannedTrial& one) { return is_likely_oom(sweep_, one); });
    if (count == 0) return;
    sentence(fmt::format(
        "! {} more memory by the estimate than the {} of a GPU of {}. {} tried all the same; "
        "'exclude' leaves layouts out.",
        count == 1 ? "One trial needs" : grouped(count) + " trials need",
        size_text(sweep_.cluster.memory_bytes), sweep_.cluster.name,
        count == 1 ? "It is" : "They are"));
  }
  [[nodiscard]] std::int64_t trial_count() const {
    return static_cast<std::int64_t>(plan_.trials.size());
  }
  template <class Map, class Write>
  void json_members(const Map& map, Write&& write) {
    bool first = true;
    for (const auto& [key, value] : map) {
      if (!std::exchange(first, false)) out_.push_back(',');
      append_json(out_, key);
      out_.push_back(':');
      write(value);
    }
  }

  /// Lines that fit the terminal.
  void sentence(std::string_view text) {
    constexpr std::size_t indent = 2;
    append_text(
        out_, fold_lines(in_charset(printable(text), terminal_.utf8), terminal_.width, indent));
  }

  void effort() {
    const auto worlds = efforts_of(sweep_, plan_);
    Effort all;
    double node_s = 0;
    for (const auto& [size, world] : worlds) {
      all.run_time_s += world.run_time_s;
      node_s += world.run_time_s * std::max(size.first, 1);
    }
    if (worlds.size() > 1) world_table(worlds);
    likely_ = rehearse(sweep_, plan_);
    if (const Rehearsal& is = likely_; is.played())
      sentence(
          fmt::format("The search likely takes {}{} and {} to {} GPU-hours, if predictions are as "
                      "far off as the search assumes.",
              is.least_runs < is.most_runs ? fmt::format("{} to ", is.least_runs) : "",
              counted(is.most_runs, "run"), amount_text(is.least_gpu_hours),
              amount_text(is.most_gpu_hours)));
    std::string text = fmt::format("{} in {}: about {} GPU-hours, {} one after the other",
        counted(trial_count(), "trial"), counted(plan_.lanes, "lane"), amount_text(plan_.gpu_hours),
        duration_text(all.run_time_s));
    const auto bound = search_bound(sweep_, plan_);
    if (bound.binds) {
      text = fmt::format(
          "At most {}, at most about {} GPU-hours (bounded by search.until). All {}: about {} "
          "GPU-hours, {} one after the other",
          counted(bound.runs, "run"), amount_text(bound.gpu_hours), counted(trial_count(), "trial"),
          amount_text(plan_.gpu_hours), duration_text(all.run_time_s));
    }
    if (sweep_.policy.max_nodes > 0) {
      text += fmt::format(", at least {} on {}",
          duration_text(node_s / static_cast<double>(sweep_.policy.max_nodes)),
          counted(sweep_.policy.max_nodes, "node"));
    }
    sentence(text + ". Queue waits are not included.");
    if (std::any_of(plan_.trials.begin(), plan_.trials.end(), has_nominal_time))
      sentence(fmt::format(
          "The speed of {} is unknown, so these times assume a slow CPU core; most machines need "
          "less. `shardsweep status` corrects the time left once trials have run.",
          sweep_.cluster.name));
    constexpr std::int64_t worth_a_search = 100;
    if (sweep_.search.policy == SearchPolicy::exhaustive && trial_count() >= worth_a_search)
      sentence(
          "All of them run. `search: {policy: best_first, until: {regret: 1%}}` in the file runs "
          "as many as it takes to find the fastest.");
    if (plan_.left_out_gpu_hours.empty()) return;
    sentence(fmt::format("{} GPU-hours if nothing were left out or stopped early.",
        amount_text(plan_.gpu_hours_before_pruning())));
  }

  /// Says what runs beside the measured trials.
  void side_runs() {
    if (sweep_.side_runs.profile)
      sentence(
          "Profile: then the winner of each cell runs once more, its rank 0 under 'nsys profile'. "
          "This run is not ranked.");
    if (sweep_.side_runs.memory)
      sentence(
          fmt::format("Memory snapshots: then up to {} layouts of each cell that ran out of memory "
                      "run once more to write one.",
              most_snapshots));
  }

  /// Says what runs again when cells have ended.
  void finals() {
    const Measure& measure = sweep_.measure;
    constexpr double much = 0.2;
    const double all = likely_.played() ? likely_.middle_gpu_hours() : plan_.gpu_hours;
    if (const double whole = hours_of_whole_runs(sweep_, plan_, likely_); whole > much * all)
      sentence(
          fmt::format("Each layout is measured in full. With `measure: {{finalists: {}}}` each has "
                      "{} timed train steps at first, about {} GPU-hours less before the finals.",
              Measure::usual_finalists, Measure::first_of_search, amount_text(whole)));
    if (measure.first > 0)
      sentence(
          fmt::format("Each trial has {} of the {} timed train steps. Finals have all of them.",
              measure.first, measure.steps));
    const FinalsCost cost = finals_cost(sweep_, plan_);
    if (cost.cells == 0) return;
    sentence(
        fmt::format("Finals: then up to {} layouts of each of {} run again in {}: {} and about {} "
                    "GPU-hours per round.",
            measure.finalists, counted(cost.cells, "cell"),
            measure.final_rounds > 0
                ? counted(measure.final_rounds, "round")
                : fmt::format("rounds, until differences of {} can be told, {} at most",
                      percent_text(measure.resolve), cost.rounds_at_most),
            counted(cost.runs, "run"), amount_text(cost.gpu_hours)));
    if (cost.further_sets == 0) return;
    sentence(fmt::format("Confirmed on {} of other nodes: {} and about {} GPU-hours per round.",
        counted(cost.further_sets, "set"), counted(cost.further_runs, "run"),
        amount_text(cost.further_gpu_hours)));
  }

  void world_table(const Efforts& worlds) {
    const bool by_nodes = worlds.begin()->first.first > 0;
    Table table{{by_nodes ? "nodes" : "gpus", "trials", "run_time_s", "gpu_hours"}, {}};
    for (const auto& [size, world] : worlds) {
      table.rows.push_back({std::int64_t{by_nodes ? size.first : size.second}, world.trials,
          world.run_time_s, world.gpu_hours});
    }
    append_text(out_, table_text(table, {.terminal = terminal_, .every = true}));
    put(out_, "\n");
  }

  /// A searched cell ends before its last trial.
  void search() {
    const auto& search = sweep_.search;
    if (search.is_plain()) return;
    std::vector<std::string> ends;
    if (search.until.regret > 0) {
      ends.push_back(fmt::format("it is {:g} % sure that nothing untested is {:g} % faster",
          100 * search.until.confidence, 100 * search.until.regret));
    }
    if (search.until.runs > 0) ends.push_back(counted(search.until.runs, "run"));
    if (search.until.gpu_hours > 0)
      ends.push_back(fmt::format("{:g} GPU-hours", search.until.gpu_hours));
    sentence(fmt::format("A cell's trials (model × seq_len × nodes) run {}{}",
        search.policy == SearchPolicy::best_first ? "best first" : "in this order",
        ends.empty() ? ", to its last trial."
                     : fmt::format(" until {}. The rest is skipped.", fmt::join(ends, " or "))));
  }

  /// Says what was left out: by constraint, the most frequent first, with an example each; then by
  /// the exclude rules.
  void left_out() {
    if (plan_.left_out_by_constraint.empty()) return;
    Table table{{"left out by", "points", "gpu_hours", "example"}, {}};
    std::vector<std::pair<std::int64_t, std::string_view>> order;
    for (const auto& [constraint, count] : plan_.left_out_by_constraint)
      order.emplace_back(-count, constraint);
    std::sort(order.begin(), order.end());
    for (const auto& [count, constraint] : order) {
      const auto hours = plan_.left_out_gpu_hours.find(constraint);
      const auto example = plan_.examples.find(constraint);
      table.rows.push_back({std::string(constraint), -count,
          hours == plan_.left_out_gpu_hours.end() ? Value() : Value(hours->second),
          example == plan_.examples.end() ? Value() : Value(example->second.verdict.why)});
    }
    put(out_, "\n");
    append_text(out_,
        table_text(
            table, {.terminal = terminal_, .important = {"left out by", "points", "example"}}));
    // The table says it of a single one.
    const auto none = std::count(plan_.excluded.begin(), plan_.excluded.end(), 0);
    if (plan_.excluded.size() - static_cast<std::size_t>(none) < 2) return;
    for (std::size_t i = 0; i < plan_.excluded.size(); ++i) {
      if (plan_.excluded[i] == 0) continue;
      sentence(fmt::format("exclude \"{}\" removed {}.", sweep_.excludes[i].when,
          counted(plan_.excluded[i], "point")));
    }
  }

  void trials(const Identifier& names, Format format) {
    write_view(out_, plan_columns(sweep_, plan_, &names), std::span(plan_.trials),
        {.format = format}, flush_);
  }

  void trials(std::size_t shown) {
    write_view(out_, plan_columns(sweep_, plan_, nullptr), std::span(plan_.trials).first(shown),
        {.terminal = terminal_,
            .important = important_columns(sweep_),
            .usual_width = usual_width_},
        flush_);
    if (shown == plan_.trials.size()) return;
    const auto more = trial_count() - static_cast<std::int64_t>(shown);
    sentence(fmt::format("… and {} more: --all shows them", counted(more, "trial")));
  }

  Buffer& out_;
  const SweepSpec& sweep_;
  const Plan& plan_;
  const Flush& flush_;
  Terminal terminal_;
  Rehearsal likely_{};  // the search, played by effort()
  std::optional<std::size_t> usual_width_;
};

}  // namespace

void write_plan(fmt::memory_buffer& out, const SweepSpec& sweep, const Capabilities& runner,
    const Plan& plan, const PlanText& text) {
  PlanWriter writer(out, sweep, plan, text);
  if (text.format == Format::table) return writer.table(text.whole);
  const Identifier names(sweep, runner);
  if (text.format == Format::csv) return writer.csv(names);
  writer.json(names);
}

namespace {

double at_most(const PlannedLaunch& one) {
  constexpr double sigmas = 1.645;
  return one.tokens_per_s_per_gpu * std::exp(sigmas * one.sigma);
}

/// A launch with its number, or a point that is left out.
struct StoryRow {
  const PlannedCell* cell = nullptr;
  std::int64_t number = 0;
  const PlannedLaunch* launch = nullptr;
  const LeftOut* left_out = nullptr;
};

using StoryColumn = Column<StoryRow>;

/// NULL of what is left out.
StoryColumn launch_column(std::string name, double (*number)(const PlannedLaunch&),
    std::string (*text)(double), std::string title = "") {
  return {std::move(name),
      [number](const StoryRow& row) { return row.launch ? Value(number(*row.launch)) : Value(); },
      For::all, std::move(title),
      [number, text](
          const StoryRow& row) { return row.launch ? text(number(*row.launch)) : std::string(); }};
}

std::string whole_text(double number) {
  return grouped(std::llround(number));
}

const View<StoryRow>& story_columns() {
  using Row = const StoryRow&;
  static const View<StoryRow> columns{
      {"model", [](Row row) { return row.cell->model; }, For::machines},
      {"seq_len", [](Row row) { return std::int64_t{row.cell->seq_len}; }, For::machines},
      {"nodes", [](Row row) { return std::int64_t{row.cell->nodes}; }, For::machines},
      {"gpus", [](Row row) { return std::int64_t{row.cell->gpus}; }, For::machines},
      {"launch", [](Row row) { return row.launch ? Value(row.number) : Value(); }},
      {"layout",
          [](Row row) {
            return layout_text(row.launch ? row.launch->point : row.left_out->point);
          }},
      launch_column(
          "predicted", [](const PlannedLaunch& one) { return one.tokens_per_s_per_gpu; },
          whole_text),
      launch_column("at_most", at_most, whole_text, "at most"),
      launch_column(
          "fits", [](const PlannedLaunch& one) { return one.fits; },
          [](double share) { return fmt::format("{:.0f} %", 100 * share); }),
      launch_column(
          "gpu_hours", [](const PlannedLaunch& one) { return one.gpu_hours; },
          [](double hours) { return fmt::format("{:.1f}", hours); }),
      {"rule",
          [](Row row) { return row.launch ? Value() : Value(row.left_out->verdict.constraint); }},
      {"why", [](Row row) { return row.launch ? row.launch->why : row.left_out->verdict.why; }}};
  return columns;
}

std::vector<StoryRow> launches_of(const PlannedCell& cell) {
  std::vector<StoryRow> rows;
  for (const auto& one : cell.launches)
    rows.push_back({&cell, std::ssize(rows) + 1, &one});
  return rows;
}

std::vector<StoryRow> left_out_of(const PlannedCell& cell) {
  std::vector<StoryRow> rows;
  for (const auto& one : cell.left_out)
    rows.push_back({.cell = &cell, .left_out = &one});
  return rows;
}

std::string all_rows(const std::vector<PlannedCell>& cells, const TableStyle& style) {
  std::vector<StoryRow> rows;
  for (const auto& cell : cells) {
    for (const auto& some : {launches_of(cell), left_out_of(cell)})
      rows.insert(rows.end(), some.begin(), some.end());
  }
  return view_text(story_columns(), rows, style);
}

}  // namespace

std::string plan_story_text(const std::vector<PlannedCell>& cells, const TableStyle& style) {
  if (!is_for_people(style.format)) return all_rows(cells, style);
  std::string text;
  for (const auto& cell : cells) {
    text += fmt::format("{}{} seq_len {} on {}: {}\n", text.empty() ? "" : "\n", cell.model,
        cell.seq_len, cell.nodes > 0 ? counted(cell.nodes, "node") : counted(cell.gpus, "GPU"),
        counted(static_cast<std::int64_t>(cell.launches.size()), "trial"));
    if (!cell.launches.empty()) text += view_text(story_columns(), launches_of(cell), style);
    if (!cell.left_out.empty())
      text += "Left out:\n" + view_text(story_columns(), left_out_of(cell), style);
  }
  return text;
}

}  // namespace shardsweep
