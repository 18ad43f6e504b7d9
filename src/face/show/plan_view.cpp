// SPDX-License-Identifier: Apache-2.0
// One list of columns serves all three forms. Cells are written straight into the buffer: a
// plan may have a million rows.
#include "show/plan_view.hpp"

#include "plan/plan_cost.hpp"
#include "predict/time_model.hpp"
#include "show/arrange.hpp"
#include "show/cell_text.hpp"
#include "show/table_view.hpp"
#include "sweep/identity.hpp"
#include "text/numbers.hpp"

#include <shardsweep/clock.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using Buffer = fmt::memory_buffer;

constexpr std::size_t flush_size = std::size_t{64} * 1024;

enum class CellKind : std::uint8_t { number, text };

struct Column {
  std::string name;
  CellKind kind;
  std::function<void(Buffer&, const PlannedTrial&)> put;  // nothing: unknown
};

template <class... Args>
void put(Buffer& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string_view view(const Buffer& buffer) {
  return {buffer.data(), buffer.size()};
}

double trial_gpu_hours(const SweepSpec& sweep, const PlannedTrial& trial) {
  return trial.prediction.attempt_s * static_cast<double>(gpus_held(sweep.cluster, trial.point)) /
      hour_s;
}

/// The estimate is above what a GPU has; what is left in the plan fits by the lower bound.
bool is_likely_oom(const SweepSpec& sweep, const PlannedTrial& trial) {
  return sweep.cluster.memory_bytes > 0 &&
      trial.prediction.memory_bytes > sweep.cluster.memory_bytes;
}

/// From a nominal rate: it is right in order, and unknown in scale.
bool has_nominal_time(const PlannedTrial& trial) {
  return trial.prediction.attempt_s > 0 && trial.prediction.train_step_s <= 0;
}

Column axis_column(const SweepSpec& sweep, const AxisInfo& axis) {
  const auto* info = &axis;
  const std::string name(axis.name);
  if (axis.kind == AxisKind::model) {
    return {name, CellKind::text, [&sweep](Buffer& out, const PlannedTrial& trial) {
              append_text(out, sweep.models[static_cast<std::size_t>(trial.point.model)].name);
            }};
  }
  if (axis.kind == AxisKind::word) {
    return {name, CellKind::text, [info](Buffer& out, const PlannedTrial& trial) {
              append_text(out, info->words[static_cast<std::size_t>(info->get(trial.point))]);
            }};
  }
  return {name, CellKind::number, [info](Buffer& out, const PlannedTrial& trial) {
            append_integer(out, info->get(trial.point));
          }};
}

/// For people a switch is what the sweep file says of it; a file of results keeps 0 and 1.
Column shown_column(const SweepSpec& sweep, const AxisInfo& axis) {
  if (axis.kind != AxisKind::toggle) return axis_column(sweep, axis);
  const auto* info = &axis;
  return {std::string(axis.name), CellKind::text, [info](Buffer& out, const PlannedTrial& trial) {
            append_text(out, axis_text(*info, info->get(trial.point)));
          }};
}

Column var_column(const SweepSpec& sweep, std::size_t index) {
  const auto& var = sweep.vars[index];
  return {var.name, CellKind::text, [&var, index](Buffer& out, const PlannedTrial& trial) {
            append_text(out, var.values[static_cast<std::size_t>(trial.point.vars[index])]);
          }};
}

void put_known(Buffer& out, double value) {
  if (value > 0) put(out, "{}", value);
}

std::vector<Column> all_columns(const SweepSpec& sweep, const Identifier& names) {
  std::vector<Column> columns;
  const auto add = [&](std::string name, CellKind kind, auto&& cell) {
    columns.push_back({std::move(name), kind, std::forward<decltype(cell)>(cell)});
  };
  add("slug", CellKind::text, [&names](Buffer& out, const PlannedTrial& trial) {
    append_text(out, names.slug(trial.point));
  });
  add("lane", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) { append_integer(out, trial.lane); });
  for (const auto& axis : axes())
    columns.push_back(axis_column(sweep, axis));
  add("repeat", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) { append_integer(out, trial.point.repeat); });
  add("global_batch", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    append_integer(out, trial.point.layout.global_batch());
  });
  for (std::size_t i = 0; i < sweep.vars.size(); ++i)
    columns.push_back(var_column(sweep, i));
  add("predicted_memory_bytes", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    append_integer(out, trial.prediction.memory_bytes);
  });
  add("predicted_train_step_s", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    put_known(out, trial.prediction.train_step_s);
  });
  add("predicted_attempt_s", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) { put_known(out, trial.prediction.attempt_s); });
  add("predicted_tokens_per_s_per_gpu", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) {
        put_known(out, trial.prediction.tokens_per_s_per_gpu);
      });
  add("predicted_gpu_hours", CellKind::number, [&sweep](Buffer& out, const PlannedTrial& trial) {
    put_known(out, trial_gpu_hours(sweep, trial));
  });
  return columns;
}

// In a table: which model, world and layout, and of the rest what is not the same everywhere.
bool is_shown(const AxisInfo& axis, const Plan& plan) {
  if (axis.is(AxisUse::named)) return true;
  const auto& trials = plan.trials;
  // Efforts are named by nodes or by gpus.
  if (axis.name == "gpus" &&
      std::all_of(trials.begin(), trials.end(), [](const auto& t) { return t.point.nodes > 0; }))
    return false;
  return std::any_of(trials.begin(), trials.end(),
      [&](const auto& trial) { return axis.get(trial.point) != axis.default_value; });
}

std::vector<Column> table_columns(const SweepSpec& sweep, const Plan& plan) {
  std::vector<Column> columns;
  const auto add = [&](std::string name, CellKind kind, auto&& cell) {
    columns.push_back({std::move(name), kind, std::forward<decltype(cell)>(cell)});
  };
  add("lane", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) { append_integer(out, trial.lane); });
  for (const auto& axis : axes()) {
    if (is_shown(axis, plan)) columns.push_back(shown_column(sweep, axis));
  }
  if (sweep.measure.repeats > 1) {
    add("repeat", CellKind::number,
        [](Buffer& out, const PlannedTrial& trial) { append_integer(out, trial.point.repeat); });
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i)
    columns.push_back(var_column(sweep, i));
  add("memory", CellKind::number, [&sweep](Buffer& out, const PlannedTrial& trial) {
    put(out, "{}{}", is_likely_oom(sweep, trial) ? "! " : "",
        size_text(trial.prediction.memory_bytes));
  });
  add("train step", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    const auto seconds = trial.prediction.train_step_s;
    if (seconds > 0) append_text(out, duration_text(seconds));
  });
  add("tokens/s/GPU", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    const auto speed = trial.prediction.tokens_per_s_per_gpu;
    if (speed > 0) append_text(out, amount_text(speed));
  });
  add("GPU-hours", CellKind::number, [&sweep](Buffer& out, const PlannedTrial& trial) {
    constexpr double least_shown = 0.01;
    const double hours = trial_gpu_hours(sweep, trial);
    append_text(out, hours < least_shown ? std::string("<0.01") : amount_text(hours));
  });
  return columns;
}

/// The more important a column is, the narrower a terminal may be that shows it.
std::size_t rank_of(std::string_view column, std::size_t index) {
  constexpr std::array<std::string_view, 14> important{"model", "tp", "pp", "dp", "micro_batch",
      "tokens/s/GPU", "nodes", "gpus", "recompute", "zero", "grad_accum", "memory", "train step",
      "GPU-hours"};
  const auto* found = std::find(important.begin(), important.end(), column);
  return found != important.end() ? static_cast<std::size_t>(found - important.begin())
                                  : important.size() + index;
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
      : out_(out), sweep_(sweep), plan_(plan), flush_(text.flush), terminal_(text.terminal) {}

  void csv(const Identifier& names) {
    const auto columns = all_columns(sweep_, names);
    separated(columns, [&](const Column& column) { append_csv(out_, column.name); });
    for (const auto& trial : plan_.trials) {
      separated(columns, [&](const Column& column) {
        if (column.kind == CellKind::number) {
          column.put(out_, trial);
        } else {
          append_csv(out_, cell(column, trial));
        }
      });
      flush_some();
    }
  }

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
    if (const FinalsCost cost = finals_cost(sweep_, plan_); cost.cells > 0)
      put(out_,
          "\"finals\":{{\"cells\":{},\"runs_per_round\":{},\"gpu_hours_per_round\":{},"
          "\"rounds_at_most\":{},\"further_node_sets\":{},\"further_runs_per_round\":{},"
          "\"further_gpu_hours_per_round\":{}}},",
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
    put(out_, "],\"trials\":[");
    const auto columns = all_columns(sweep_, names);
    for (std::size_t i = 0; i < plan_.trials.size(); ++i) {
      put(out_, "{}", i == 0 ? "\n" : ",\n");
      json_trial(columns, plan_.trials[i]);
      flush_some();
    }
    put(out_, "{}]}}\n", plan_.trials.empty() ? "" : "\n");
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
        "! {} more memory by the estimate than the {} of a GPU of {}: likely out of memory.",
        count == 1 ? "One trial needs" : grouped(count) + " trials need",
        size_text(sweep_.cluster.memory_bytes), sweep_.cluster.name));
  }
  [[nodiscard]] std::int64_t trial_count() const {
    return static_cast<std::int64_t>(plan_.trials.size());
  }
  void flush_some() {
    if (flush_ && out_.size() > flush_size) flush_(out_);
  }

  std::string_view cell(const Column& column, const PlannedTrial& trial) {
    scratch_.clear();
    column.put(scratch_, trial);
    return view(scratch_);
  }

  template <class Write>
  void separated(const std::vector<Column>& columns, Write&& write) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) out_.push_back(',');
      write(columns[i]);
    }
    out_.push_back('\n');
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

  void json_trial(const std::vector<Column>& columns, const PlannedTrial& trial) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      out_.push_back(i == 0 ? '{' : ',');
      append_json(out_, columns[i].name);
      out_.push_back(':');
      const auto text = cell(columns[i], trial);
      if (columns[i].kind == CellKind::text) {
        append_json(out_, text);
      } else {
        append_text(out_, text.empty() ? "null" : text);
      }
    }
    out_.push_back('}');
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
          "The speed of {} is unknown: these times are of a slow CPU core, and most machines "
          "need less. `shardsweep status` corrects the time left by what has run.",
          sweep_.cluster.name));
    if (plan_.left_out_gpu_hours.empty()) return;
    sentence(fmt::format("{} GPU-hours if nothing were left out or stopped early.",
        amount_text(plan_.gpu_hours_before_pruning())));
  }

  /// What runs beside the measured trials.
  void side_runs() {
    if (sweep_.side_runs.profile)
      sentence(
          "Profile: then the winner of each cell runs once more, its rank 0 under 'nsys "
          "profile'. This run is not ranked.");
    if (sweep_.side_runs.memory)
      sentence(
          fmt::format("Memory snapshots: then up to {} layouts of each cell that ran out of "
                      "memory run once "
                      "more to write one.",
              most_snapshots));
  }

  /// What runs again when cells have ended.
  void finals() {
    const Measure& measure = sweep_.measure;
    constexpr double much = 0.2;
    if (const double whole = hours_of_whole_runs(sweep_, plan_); whole > much * plan_.gpu_hours)
      sentence(
          fmt::format("Each layout is measured in full. With `measure: {{finalists: {}}}` each "
                      "has {} timed train steps at first, about {} GPU-hours less before the "
                      "finals.",
              Measure::usual_finalists, Measure::first_of_search, amount_text(whole)));
    if (measure.first > 0)
      sentence(
          fmt::format("Each trial has {} of the {} timed train steps. Finals have all of them.",
              measure.first, measure.steps));
    const FinalsCost cost = finals_cost(sweep_, plan_);
    if (cost.cells == 0) return;
    sentence(
        fmt::format("Finals: then up to {} layouts of each of {} run again in {}: {} and about {} "
                    "GPU-hours "
                    "per round.",
            measure.finalists, counted(cost.cells, "cell"),
            measure.final_rounds > 0
                ? counted(measure.final_rounds, "round")
                : fmt::format("rounds, until a difference of {} is resolved, {} at most",
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
    sentence(fmt::format("Each cell (model × seq_len × nodes) runs {}{}",
        search.policy == SearchPolicy::best_first ? "best first" : "in this order",
        ends.empty() ? ", to its last trial."
                     : fmt::format(" until {}. The rest is skipped.", fmt::join(ends, " or "))));
  }

  /// By constraint, the most frequent first, with an example each; then the exclude rules.
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
      sentence(fmt::format("exclude '{}' removed {}.", sweep_.excludes[i].when,
          counted(plan_.excluded[i], "point")));
    }
  }

  [[nodiscard]] std::string shown_cell(const Column& column, const PlannedTrial& trial) {
    return in_charset(printable(cell(column, trial)), terminal_.utf8);
  }

  std::vector<ColumnShape> shapes_of(const std::vector<Column>& columns, std::size_t shown) {
    std::vector<ColumnShape> shapes;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      ColumnShape shape{.width = width_of(columns[i].name), .rank = rank_of(columns[i].name, i)};
      // A var tells trials apart as the layout does.
      const auto is_it = [&](const auto& var) { return var.name == columns[i].name; };
      if (std::any_of(sweep_.vars.begin(), sweep_.vars.end(), is_it)) shape.rank = 1;
      const auto first = shown_cell(columns[i], plan_.trials[0]);
      shape.same = shown > 1;
      shape.empty = shown > 0;
      for (std::size_t row = 0; row < shown; ++row) {
        const auto text = shown_cell(columns[i], plan_.trials[row]);
        shape.width = std::max(shape.width, width_of(text));
        shape.same = shape.same && text == first;
        shape.empty = shape.empty && text.empty();
      }
      shape.least = shape.width;
      shapes.push_back(shape);
    }
    return shapes;
  }

  void trials(std::size_t shown) {
    const auto columns = table_columns(sweep_, plan_);
    const auto arranged = arrange(shapes_of(columns, shown), terminal_.width, Choice::fit);
    if (!arranged.same.empty()) {
      std::string same;
      for (const auto i : arranged.same)
        same += fmt::format("{}{} {}", same.empty() ? "" : ", ", columns[i].name,
            shown_cell(columns[i], plan_.trials[0]));
      sentence("same in all rows: " + same);
    }
    const auto line = [&](auto&& text_of) {
      std::string text;
      for (std::size_t i = 0; i < arranged.shown.size(); ++i) {
        const auto& column = columns[arranged.shown[i]];
        text += i == 0 ? "" : std::string(column_gap, ' ');
        text += padded(text_of(column), arranged.widths[i],
            column.kind == CellKind::number ? Align::right : Align::left);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      append_text(out_, text);
      out_.push_back('\n');
    };
    line([](const Column& column) { return column.name; });
    for (std::size_t i = 0; i < shown; ++i) {
      line([&](const Column& column) { return shown_cell(column, plan_.trials[i]); });
      flush_some();
    }
    below(columns, arranged.hidden, shown);
  }

  void below(const std::vector<Column>& columns, const std::vector<std::size_t>& hidden,
      std::size_t shown) {
    std::string names;
    for (const auto i : hidden)
      names += (names.empty() ? "" : ", ") + columns[i].name;
    if (!names.empty()) sentence("not shown: " + names + " (--wide shows all)");
    if (shown == plan_.trials.size()) return;
    const auto more = trial_count() - static_cast<std::int64_t>(shown);
    sentence(fmt::format("… and {} more: --all shows them", counted(more, "trial")));
  }

  Buffer& out_;
  const SweepSpec& sweep_;
  const Plan& plan_;
  const Flush& flush_;
  Terminal terminal_;
  Buffer scratch_;
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

}  // namespace shardsweep
