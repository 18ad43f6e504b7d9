// SPDX-License-Identifier: Apache-2.0
// One list of columns serves all three forms. Cells are written straight into the buffer: a
// plan may have a million rows.
#include "cli/plan_view.hpp"

#include "domain/identity.hpp"
#include "domain/predict/time_model.hpp"
#include "domain/text.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

using Buffer = fmt::memory_buffer;

constexpr std::size_t flush_size = std::size_t{64} * 1024;
constexpr double hour_s = 3600;
constexpr std::string_view constraint_header = "left out by";
constexpr std::string_view points_header = "points";
constexpr std::string_view hours_header = "GPU-hours";

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
  return trial.prediction.attempt_s *
         static_cast<double>(gpus_held(sweep.cluster, trial.point)) / hour_s;
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
  add("predicted_attempt_s", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    put_known(out, trial.prediction.attempt_s);
  });
  add("predicted_tokens_per_s_per_gpu", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) {
        put_known(out, trial.prediction.tokens_per_s_per_gpu);
      });
  add("predicted_gpu_hours", CellKind::number,
      [&sweep](Buffer& out, const PlannedTrial& trial) {
        put_known(out, trial_gpu_hours(sweep, trial));
      });
  return columns;
}

// In a table: which model, world and layout, and of the rest what is not the same everywhere.
bool is_shown(const AxisInfo& axis, const Plan& plan) {
  constexpr std::array<std::string_view, 6> always{"model", "dp",          "tp",
                                                   "pp",    "micro_batch", "grad_accum"};
  if (std::find(always.begin(), always.end(), axis.name) != always.end()) return true;
  const auto& trials = plan.trials;
  // Worlds are named by nodes or by gpus.
  if (axis.name == "gpus" && std::all_of(trials.begin(), trials.end(),
                                         [](const auto& t) { return t.point.nodes > 0; }))
    return false;
  return std::any_of(trials.begin(), trials.end(), [&](const auto& trial) {
    return axis.get(trial.point) != axis.default_value;
  });
}

std::vector<Column> table_columns(const SweepSpec& sweep, const Plan& plan) {
  std::vector<Column> columns;
  const auto add = [&](std::string name, CellKind kind, auto&& cell) {
    columns.push_back({std::move(name), kind, std::forward<decltype(cell)>(cell)});
  };
  add("lane", CellKind::number,
      [](Buffer& out, const PlannedTrial& trial) { append_integer(out, trial.lane); });
  for (const auto& axis : axes()) {
    if (is_shown(axis, plan)) columns.push_back(axis_column(sweep, axis));
  }
  if (sweep.measure.repeats > 1) {
    add("repeat", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
      append_integer(out, trial.point.repeat);
    });
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i)
    columns.push_back(var_column(sweep, i));
  add("memory", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    put(out, "{}", bytes_text(static_cast<double>(trial.prediction.memory_bytes)));
  });
  add("train step", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    const auto seconds = trial.prediction.train_step_s;
    if (seconds > 0) put(out, "{} s", amount_text(seconds));
  });
  add("tokens/s/GPU", CellKind::number, [](Buffer& out, const PlannedTrial& trial) {
    const auto speed = trial.prediction.tokens_per_s_per_gpu;
    if (speed > 0) put(out, "{:.0f}", speed);
  });
  add("GPU-hours", CellKind::number, [&sweep](Buffer& out, const PlannedTrial& trial) {
    append_text(out, amount_text(trial_gpu_hours(sweep, trial)));
  });
  return columns;
}

class PlanWriter {
 public:
  PlanWriter(Buffer& out, const SweepSpec& sweep, const Plan& plan, const Flush& flush)
      : out_(out), sweep_(sweep), plan_(plan), flush_(flush) {}

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
    json_members(plan_.left_out_by_constraint,
                 [&](std::int64_t count) { put(out_, "{}", count); });
    put(out_, "}},\"examples\":{{");
    json_members(plan_.examples,
                 [&](const LeftOut& left) { append_json(out_, left.verdict.why); });
    put(out_, "}},\"warnings\":[");
    for (std::size_t i = 0; i < plan_.warnings.size(); ++i) {
      if (i > 0) out_.push_back(',');
      append_json(out_, plan_.warnings[i]);
    }
    put(out_, "],\"lanes\":{},\"gpu_hours\":{},\"gpu_hours_before\":{},", plan_.lanes,
        plan_.gpu_hours, plan_.gpu_hours_before_pruning());
    put(out_, "\"left_out_gpu_hours\":{{");
    json_members(plan_.left_out_gpu_hours, [&](double hours) { put(out_, "{}", hours); });
    put(out_, "}},\"trials\":[");
    const auto columns = all_columns(sweep_, names);
    for (std::size_t i = 0; i < plan_.trials.size(); ++i) {
      put(out_, "{}", i == 0 ? "\n" : ",\n");
      json_trial(columns, plan_.trials[i]);
      flush_some();
    }
    put(out_, "{}]}}\n", plan_.trials.empty() ? "" : "\n");
  }

  void table(bool whole) {
    put(out_, "sweep '{}' on {}: {}, {} feasible, {} left out", sweep_.name,
        sweep_.cluster.name, counted(plan_.points, "point"), grouped(trial_count()),
        grouped(plan_.points - trial_count()));
    if (plan_.duplicates > 0) {
      put(out_, "; {} named twice, counted once",
          counted(plan_.duplicates, "hand-picked point"));
    }
    put(out_, "\n");
    left_out();
    if (plan_.trials.empty()) return;
    put(out_, "\n");
    trials(whole ? plan_.trials.size() : std::min(plan_.trials.size(), trials_shown));
    put(out_, "\n{} in {}, about {} GPU-hours", counted(trial_count(), "trial"),
        counted(plan_.lanes, "lane"), amount_text(plan_.gpu_hours));
    if (!plan_.left_out_gpu_hours.empty()) {
      put(out_, "; {} before what is left out was, were each run to its end",
          amount_text(plan_.gpu_hours_before_pruning()));
    }
    out_.push_back('\n');
    search();
  }

 private:
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

  /// A searched cell ends before its last trial.
  void search() {
    const auto& search = sweep_.search;
    if (search.is_plain()) return;
    std::vector<std::string> ends;
    if (search.until.regret > 0) {
      ends.push_back(fmt::format("nothing left is {:g} % faster, with {:g} %",
                                 100 * search.until.regret, 100 * search.until.confidence));
    }
    if (search.until.runs > 0) ends.push_back(counted(search.until.runs, "run"));
    if (search.until.gpu_hours > 0)
      ends.push_back(fmt::format("{:g} GPU-hours", search.until.gpu_hours));
    put(out_, "each cell (model x seq_len x nodes) {}{}\n",
        search.policy == SearchPolicy::best_first ? "best first" : "in this order",
        ends.empty()
            ? ", to its last trial"
            : fmt::format(", until: {}; the rest ends skipped", fmt::join(ends, " or ")));
  }

  [[nodiscard]] std::string hours_text(std::string_view constraint) const {
    const auto found = plan_.left_out_gpu_hours.find(constraint);
    return found == plan_.left_out_gpu_hours.end() ? "" : amount_text(found->second);
  }

  void left_out() {
    if (plan_.left_out_by_constraint.empty()) return;
    std::size_t wide = 0;
    std::size_t count_wide = points_header.size();
    std::size_t hours_wide = hours_header.size();
    std::vector<std::pair<std::int64_t, std::string_view>> rows;
    for (const auto& [constraint, count] : plan_.left_out_by_constraint) {
      wide = std::max(wide, constraint.size());
      count_wide = std::max(count_wide, grouped(count).size());
      hours_wide = std::max(hours_wide, hours_text(constraint).size());
      rows.emplace_back(-count, constraint);
    }
    std::sort(rows.begin(), rows.end());
    wide = std::max(wide + 2, constraint_header.size());
    put(out_, "\n{:<{}}  {:>{}}  {:>{}}\n", constraint_header, wide, points_header, count_wide,
        hours_header, hours_wide);
    for (const auto& [count, constraint] : rows) {
      const auto example = plan_.examples.find(constraint);
      put(out_, "  {:<{}}  {:>{}}  {:>{}}", constraint, wide - 2, grouped(-count), count_wide,
          hours_text(constraint), hours_wide);
      if (example != plan_.examples.end()) put(out_, "  e.g. {}", example->second.verdict.why);
      out_.push_back('\n');
    }
  }

  void trials(std::size_t shown) {
    const auto columns = table_columns(sweep_, plan_);
    std::vector<std::size_t> widths;
    for (const auto& column : columns) {
      std::size_t wide = column.name.size();
      for (std::size_t i = 0; i < shown; ++i)
        wide = std::max(wide, cell(column, plan_.trials[i]).size());
      widths.push_back(wide);
    }
    const auto line = [&](auto&& text_of) {
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const std::string_view text = text_of(columns[i]);
        const bool last = i + 1 == columns.size();
        if (columns[i].kind == CellKind::number) {
          put(out_, "{:>{}}{}", text, widths[i], last ? "" : "  ");
        } else {
          put(out_, "{:<{}}{}", text, widths[i], last ? "" : "  ");
        }
      }
      out_.push_back('\n');
    };
    line([](const Column& column) { return std::string_view(column.name); });
    for (std::size_t i = 0; i < shown; ++i) {
      line([&](const Column& column) { return cell(column, plan_.trials[i]); });
      flush_some();
    }
    if (shown < plan_.trials.size()) {
      const auto more = trial_count() - static_cast<std::int64_t>(shown);
      put(out_, "… and {} more: --all shows them\n", counted(more, "trial"));
    }
  }

  Buffer& out_;
  const SweepSpec& sweep_;
  const Plan& plan_;
  const Flush& flush_;
  Buffer scratch_;
};

}  // namespace

void write_plan(fmt::memory_buffer& out, const SweepSpec& sweep, const Capabilities& runner,
                const Plan& plan, const PlanText& text) {
  PlanWriter writer(out, sweep, plan, text.flush);
  if (text.format == Format::table) return writer.table(text.whole);
  const Identifier names(sweep, runner);
  if (text.format == Format::csv) return writer.csv(names);
  writer.json(names);
}

}  // namespace shardsweep
