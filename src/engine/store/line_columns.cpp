// SPDX-License-Identifier: Apache-2.0
#include "store/line_columns.hpp"

#include "store/row_sql.hpp"

#include <shardsweep/metric.hpp>

#include <algorithm>
#include <array>
#include <map>

namespace shardsweep::sqlite {
namespace {

/// Stored fields of a row that stand in lines, but those that a submission has.
template <class Row, class IsStored>
std::vector<std::string> facts_of(const IsStored& is_stored) {
  std::vector<std::string> names;
  const auto& submitted = submitted_columns();
  visit_fields<Row>([&](const auto& field) {
    const bool left_out = std::any_of(not_in_lines.begin(), not_in_lines.end(),
                              [&](const auto& one) { return one.column == field.name; }) ||
        std::find(submitted.begin(), submitted.end(), field.name) != submitted.end();
    if (is_stored(field) && !left_out) names.emplace_back(field.name);
  });
  return names;
}

std::string key_of_column(const std::string& name) {
  if (name == "slug") return "trial";
  if (name == "constraint_name") return "left_out";
  return name == "detail" ? "own" : name;
}

bool is_json_column(const std::string& name) {
  return name == "vars" || name == "software" || name == "hosts" || name == "detail";
}

/// Kinds and defaults of a table's columns.
std::map<std::string, LineColumn> columns_of_table(Database& database, const std::string& table) {
  std::map<std::string, LineColumn> columns;
  Statement select(
      database, "SELECT name, type, \"notnull\", dflt_value FROM pragma_table_info(?)");
  auto row = select.use(table);
  while (row.next()) {
    LineColumn column{.name = row.text(0), .key = key_of_column(row.text(0))};
    column.kind = row.view(1) == "INTEGER" ? LineKind::integer
        : row.view(1) == "REAL"            ? LineKind::real
                                           : LineKind::text;
    if (is_json_column(column.name)) column.kind = LineKind::json;
    column.nullable = row.integer(2) == 0;
    if (!row.null(3)) {
      Statement value(database, "SELECT " + row.text(3));
      auto one = value.use();
      if (one.next()) column.otherwise = one.value(0);
      const auto* zero = std::get_if<std::int64_t>(&column.otherwise);
      if (column.kind == LineKind::real && zero != nullptr)
        column.otherwise = static_cast<double>(*zero);
    }
    const std::string name = column.name;
    columns.emplace(name, std::move(column));
  }
  return columns;
}

std::vector<LineColumn> chosen(
    const std::map<std::string, LineColumn>& all, const std::vector<std::string>& names) {
  std::vector<LineColumn> columns;
  columns.reserve(names.size());
  for (const auto& name : names)
    columns.push_back(all.at(name));
  return columns;
}

}  // namespace

const std::vector<std::string>& trial_fact_columns() {
  static const auto columns = [] {
    auto names = facts_of<TrialRow>([](const auto& field) { return !field.is(Flag::unstored); });
    names.insert(names.end(), {"final_sets", "final_resolve"});  // the answers' alone
    return names;
  }();
  return columns;
}

const std::vector<std::string>& attempt_fact_columns() {
  static const auto columns =
      facts_of<AttemptRow>([](const auto& field) { return field.is_stored(); });
  return columns;
}

const std::vector<std::string>& measured_columns() {
  static const auto columns = [] {
    constexpr std::array beside{"mark", "cut_short", "flops_model", "runner_version", "software",
        "hosts", "settings", "throttled", "detail"};
    std::vector<std::string> names;
    names.reserve(metric_table.size() + beside.size());
    for (const auto& metric : metric_table)
      names.emplace_back(metric.name);
    names.insert(names.end(), beside.begin(), beside.end());
    return names;
  }();
  return columns;
}

LineColumns line_columns(Database& database) {
  LineColumns columns;
  const auto trials = columns_of_table(database, "trials");
  std::vector<std::string> names = submitted_columns();
  std::erase(names, "position");  // the order of the lines
  names.insert(names.end(), {"runner", "runner_version"});
  names.insert(names.end(), trial_fact_columns().begin(), trial_fact_columns().end());
  columns.trial = chosen(trials, names);
  for (auto& column : columns.trial) {
    // Names stand for ids, which are of one database. A trial's software is the name of a snapshot.
    if (column.name == "final_of" || column.name == "software") column.kind = LineKind::text;
    // A submission binds them, and a prediction that nobody made is 0.
    if (column.name.starts_with("predicted_"))
      column.otherwise = column.kind == LineKind::integer ? Value(std::int64_t{0}) : Value(0.0);
  }
  columns.attempt = chosen(columns_of_table(database, "attempts"), attempt_fact_columns());
  for (auto& column : columns.attempt) {
    if (column.name != "allocation") continue;
    column.kind = LineKind::text;  // allocation's token
    column.otherwise = "";
  }
  columns.measured = chosen(columns_of_table(database, "measurements"), measured_columns());
  for (auto& column : columns.measured) {
    if (column.name == "software") column.otherwise = "{}";
    if (column.name == "hosts") column.otherwise = "[]";
    if (column.name == "detail") column.otherwise = "";
  }
  columns.left_out = chosen(columns_of_table(database, "left_out"), left_out_columns());
  return columns;
}

}  // namespace shardsweep::sqlite
