// SPDX-License-Identifier: Apache-2.0
#include "store/rows.hpp"

#include "store/row_sql.hpp"
#include "text/pieces.hpp"

#include <shardsweep/plan.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace shardsweep::sqlite {
namespace {

using Json = nlohmann::json;

// A var's value as JSON: a number where its text is what that number prints as, so that
// `nccl_nvls = 1` compares numbers, else text; every text stays distinct from every other.
Json var_json(const std::string& text) {
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_number() && parsed.dump() == text) return parsed;
  return text;
}

std::string vars_json(const SweepSpec& sweep, const Point& point) {
  Json object = Json::object();
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    const auto& var = sweep.vars[i];
    object[var.name] = var_json(var.values.at(static_cast<std::size_t>(point.vars.at(i))));
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void read_vars(const std::string& text, const SweepSpec& sweep, Point& point) {
  const Json object = Json::parse(text, nullptr, false);
  for (const auto& var : sweep.vars) {
    const auto held = object.find(var.name);
    const auto same = [&](const std::string& value) {
      const Json candidate = var_json(value);
      return held != object.end() && candidate.type() == held->type() && candidate == *held;
    };
    const auto found = std::find_if(var.values.begin(), var.values.end(), same);
    if (found == var.values.end()) {
      fail(FaultKind::corrupt, "the sweep has no value of '{}' that fits {}", var.name, text);
    }
    point.vars.push_back(static_cast<std::int32_t>(found - var.values.begin()));
  }
}

std::int64_t read_axis(
    const AxisInfo& axis, const Statement::Use& row, int column, const SweepSpec& sweep) {
  if (axis.kind == AxisKind::word)
    return static_cast<std::int64_t>(word_index(axis.words, row.view(column)));
  if (axis.kind != AxisKind::model) return row.integer(column);
  const auto name = row.view(column);
  const auto found = std::find_if(sweep.models.begin(), sweep.models.end(),
      [&](const ModelSpec& model) { return model.name == name; });
  if (found == sweep.models.end())
    fail(FaultKind::corrupt, "the sweep no longer has the model '{}'", name);
  return found - sweep.models.begin();
}

// `hidden` is a mark of trials there.
std::string_view column_of(const ShapeField& field) {
  return field.name == "hidden" ? "hidden_size" : field.name;
}

}  // namespace

const std::vector<std::string>& point_columns() {
  static const auto columns = [] {
    std::vector<std::string> names;
    for (const auto& axis : axes())
      names.emplace_back(axis.name);
    for (const auto* name : {"repeat", "vars"})
      names.emplace_back(name);
    for (const auto& field : shape_fields)
      names.emplace_back(column_of(field));
    names.emplace_back("global_batch");
    return names;
  }();
  return columns;
}

const std::vector<std::string>& submitted_columns() {
  static const auto columns = [] {
    std::vector<std::string> names{"slug", "identity", "lane", "position", "layout"};
    names.insert(names.end(), point_columns().begin(), point_columns().end());
    for (const auto* name : {"predicted_memory_bytes", "predicted_train_step_s",
             "predicted_attempt_s", "predicted_tokens_per_s_per_gpu"})
      names.emplace_back(name);
    return names;
  }();
  return columns;
}

const std::vector<std::string>& left_out_columns() {
  static const auto columns = [] {
    std::vector<std::string> names{"constraint_name", "why"};
    names.insert(names.end(), point_columns().begin(), point_columns().end());
    return names;
  }();
  return columns;
}

std::string axis_list(std::string_view prefix) {
  return join_texts(
      axes(), ", ", [&](const AxisInfo& axis) { return fmt::format("{}{}", prefix, axis.name); });
}

std::string list(const std::vector<std::string>& columns, std::string_view prefix) {
  return join_texts(
      columns, ", ", [&](const auto& column) { return fmt::format("{}{}", prefix, column); });
}

std::string places(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += i == 0 ? "?" : ", ?";
  return text;
}

void bind_point(Statement::Use& row, const SweepSpec& sweep, const Point& point) {
  bind_point(row, sweep, point, vars_json(sweep, point));
}

void bind_point(
    Statement::Use& row, const SweepSpec& sweep, const Point& point, std::string_view labels) {
  const auto& model = sweep.models.at(static_cast<std::size_t>(point.model));
  for (const auto& axis : axes()) {
    const auto value = axis.get(point);
    if (axis.kind == AxisKind::model) {
      row.bind(std::string_view(model.name));
    } else if (axis.kind == AxisKind::word) {
      row.bind(axis.words[static_cast<std::size_t>(value)]);
    } else {
      row.bind(value);
    }
  }
  row.bind(point.repeat);
  row.bind(labels);
  for (const auto& field : shape_fields)
    row.bind(model.*field.member);
  row.bind(point.layout.global_batch());
}

Point read_point(const Statement::Use& row, const SweepSpec& sweep) {
  Point point;
  int column = 0;
  for (const auto& axis : axes())
    axis.set(point, read_axis(axis, row, column++, sweep));
  row.read(column++, point.repeat);
  read_vars(row.text(column), sweep, point);
  return point;
}

const std::string& trial_row_columns() {
  // Two facts stand in no column of their own: the outcome of the attempt that ended last, and the
  // time of attempts that their job's end ended (fleet/fold).
  static const std::string columns = [] {
    constexpr std::string_view last =
        "iif(t.attempts > 0, (SELECT a.outcome FROM attempts AS a WHERE a.trial = t.id AND a.state "
        "= 'ended' ORDER BY a.number DESC LIMIT 1), NULL)";
    constexpr std::string_view predicted =
        "max(t.predicted_attempt_s, iif(t.attempts > 0, (SELECT ifnull(max(min((a.ended_at - "
        "a.started_at) * 1e-6, l.time_limit_s / 2)), 0) FROM attempts AS a JOIN allocations AS l "
        "ON l.id = a.allocation WHERE a.trial = t.id AND a.outcome = 'timeout' AND a.source <> "
        "'policy' AND a.started_at > 0), 0))";
    std::string text = columns_of<TrialRow>("t.");
    const auto read_as = [&text](std::string_view column, std::string_view query) {
      text.replace(text.find(column), column.size(), query);
    };
    read_as("t.last_outcome", last);
    read_as("t.predicted_attempt_s", predicted);
    return text;
  }();
  return columns;
}

State read_state(const Statement::Use& row, int column) {
  const auto state = state_from(row.view(column));
  if (!state) fail(FaultKind::corrupt, "no state '{}'", row.view(column));
  return *state;
}

std::optional<Outcome> read_outcome(const Statement::Use& row, int column) {
  if (row.null(column)) return std::nullopt;
  const auto outcome = outcome_from(row.view(column));
  if (!outcome) fail(FaultKind::corrupt, "no outcome '{}'", row.view(column));
  return outcome;
}

std::size_t word_index(std::span<const std::string_view> words, std::string_view text) {
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end())
    fail(FaultKind::corrupt, "'{}' is not one of {}", text, fmt::join(words, ", "));
  return static_cast<std::size_t>(found - words.begin());
}

}  // namespace shardsweep::sqlite
