// SPDX-License-Identifier: Apache-2.0
// `results`: rows of the view, chosen, filtered and sorted.
#include "filter/filter.hpp"
#include "store/reader.hpp"
#include "store/reading.hpp"
#include "store/selection.hpp"
#include "store/sqlite.hpp"
#include "text/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::sqlite {
namespace {

// A runner's own metrics: keys of its result record that no column has. The store keeps the
// record whole.

/// True if nothing in the key ends a quote, and no part of it is empty.
bool is_path(const std::string& key) {
  constexpr std::size_t longest = 100;
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
        c == '.';
  };
  return !key.empty() && key.size() <= longest && key.front() != '.' && key.back() != '.' &&
      key.find("..") == std::string::npos && std::all_of(key.begin(), key.end(), fits);
}

/// "$.phase_ms.forward", each part in quotes: one may begin with a digit.
std::string json_path(const std::string& key) {
  std::string path = "$.\"";
  for (const char c : key)
    path += c == '.' ? std::string("\".\"") : std::string(1, c);
  return path + '"';
}

/// Names among `asked` that are keys of a chosen measurement's record, with a number, text or truth
/// value. Examples are `bubble_share`, and `phase_ms.forward` within an object.
std::vector<std::string> record_keys(
    Database& database, const ResolvedNames& chosen, const std::vector<std::string>& asked) {
  std::vector<std::string> found;
  for (const auto& key : asked) {
    if (!is_path(key) || std::find(found.begin(), found.end(), key) != found.end()) continue;
    Statement select(database,
        fmt::format("SELECT EXISTS (SELECT 1 FROM measurements AS m JOIN trials AS t ON t.id = "
                    "m.trial WHERE {} AND json_valid(m.detail) AND json_type(m.detail, '{}') IN "
                    "('integer', 'real', 'text', 'true', 'false'))",
            chosen_condition(chosen, "t.sweep", "t.id"), json_path(key)));
    auto row = select.use(chosen.sweeps, chosen.trials);
    if (row.next() && row.integer(0) != 0) found.push_back(key);
  }
  return found;
}

/// ", (…) AS key" for each, in a row with the column `attempt_id`.
std::string record_columns(const std::vector<std::string>& keys, const std::string& attempt_id) {
  std::string text;
  for (const auto& key : keys)
    text += fmt::format(
        ", (SELECT iif(json_valid(m.detail), json_extract(m.detail, '{}'), NULL) FROM measurements "
        "AS m WHERE m.attempt = {}) AS {}",
        json_path(key), attempt_id, identifier(key));
  return text;
}

const std::vector<std::string>& usual_columns() {
  static const std::vector<std::string> names{"sweep", "trial", "model", "nodes", "gpus", "layout",
      "state", "outcome", "tokens_per_s_per_gpu", "mfu", "train_step_ms", "peak_memory_bytes",
      "mark", "runner", "runner_version"};
  return names;
}

std::string order_by(const Source& source, const std::string& sort) {
  if (sort.empty()) return "sweep_id, position, trial_id";
  const bool descending = sort.front() == '-';
  const auto column = sort.substr(descending ? 1 : 0);
  require_column(source, column);
  return fmt::format("{} {} NULLS LAST, trial_id", identifier(column), descending ? "DESC" : "ASC");
}

/// The expression names a column that does not stand in the trial's own row.
bool needs_measurements(Database& database, const Source& source, const Selection& selection) {
  if (selection.where.find_first_not_of(" \t\n\r") == std::string::npos) return false;
  auto own = columns_of_view(database, "trial_results");
  own.insert(own.end(), source.vars.begin(), source.vars.end());
  const auto names = filter::read_identifiers(selection.where);
  return !names || std::any_of(names->begin(), names->end(), [&](const std::string& name) {
    const bool is_column =
        std::find(source.columns.begin(), source.columns.end(), name) != source.columns.end();
    return is_column && std::find(own.begin(), own.end(), name) == own.end();
  });
}

}  // namespace

Source source_of(Database& database, const Selection& selection, std::vector<std::string> asked) {
  Source source;
  source.chosen = resolve_names(database, selection.names);
  source.vars = chosen_vars(database, source.chosen);
  source.columns = result_columns(database);
  source.columns.insert(source.columns.end(), source.vars.begin(), source.vars.end());
  if (const auto names = filter::read_identifiers(selection.where))
    asked.insert(asked.end(), names->begin(), names->end());
  std::erase_if(asked, [&](const std::string& name) {
    return std::find(source.columns.begin(), source.columns.end(), name) != source.columns.end();
  });
  const auto keys = record_keys(database, source.chosen, asked);
  source.columns.insert(source.columns.end(), keys.begin(), keys.end());
  auto names = source.vars;
  names.insert(names.end(), keys.begin(), keys.end());
  source.where = checked_where(database, selection.where, names);
  const auto chosen = chosen_condition(source.chosen, "r.sweep_id", "r.trial_id");
  source.rows = fmt::format("(SELECT r.*{}{} FROM {} AS r WHERE {})",
      var_columns(source.vars, "r.vars"), record_columns(keys, "r.attempt_id"),
      selection.hidden ? "all_results" : "results", chosen);
  source.trial_rows = needs_measurements(database, source, selection)
      ? source.rows
      : fmt::format("(SELECT r.*{} FROM trial_results AS r WHERE {}{})",
            var_columns(source.vars, "r.vars"), chosen,
            selection.hidden
                ? ""
                : " AND r.in_file AND r.trial_id NOT IN (SELECT id FROM trials WHERE side <> '')");
  return source;
}

void require_column(const Source& source, const std::string& column) {
  if (std::find(source.columns.begin(), source.columns.end(), column) != source.columns.end())
    return;
  const auto hint = did_you_mean(column, {source.columns.begin(), source.columns.end()});
  fail(FaultKind::invalid_input,
      hint.empty() ? fmt::format("there is no column '{}'; there are {}", column,
                         fmt::join(source.columns, ", "))
                   : fmt::format("there is no column '{}'{}", column, hint));
}

std::int64_t count(Database& database, const Selection& selection) {
  const auto source = source_of(database, selection);
  Statement select(
      database, fmt::format("SELECT count(*) FROM {} WHERE {}", source.trial_rows, source.where));
  auto row = select.use(source.chosen.sweeps, source.chosen.trials);
  return row.next() ? row.integer(0) : 0;
}

namespace {

/// `take(statement, its rows)`.
template <class Take>
auto with_results(Database& database, const ResultsRequest& request, Take&& take) {
  const bool every = request.columns == std::vector<std::string>{"all"};
  auto asked = every ? std::vector<std::string>{} : request.columns;
  asked.push_back(request.sort.substr(request.sort.starts_with('-') ? 1 : 0));
  const auto source = source_of(database, request.selection, std::move(asked));
  const auto& columns = every   ? source.columns
      : request.columns.empty() ? usual_columns()
                                : request.columns;
  std::string selected;
  for (const auto& column : columns) {
    require_column(source, column);
    selected += (selected.empty() ? "" : ", ") + identifier(column);
  }
  const auto order = order_by(source, request.sort);
  const auto where =
      fmt::format("{}{}", source.where, request.measured_only ? " AND attempt_id IS NOT NULL" : "");
  // Rows that are not shown are read no further than sorting needs.
  const auto chosen = request.limit > 0
      ? fmt::format("trial_id IN (SELECT trial_id FROM {} WHERE {} ORDER BY {} LIMIT {})",
            source.rows, where, order, request.limit)
      : where;
  Statement select(database,
      fmt::format("SELECT {} FROM {} WHERE {} ORDER BY {}", selected, source.rows, chosen, order));
  auto use = select.use(source.chosen.sweeps, source.chosen.trials);
  return take(select, use);
}

}  // namespace

Table results(Database& database, const ResultsRequest& request) {
  return with_results(database, request, fetch);
}

void each_result(Database& database, const ResultsRequest& request, const RowSink& sink) {
  // Each page is read once: none is worth being kept.
  database.execute("PRAGMA cache_size = -4096");
  with_results(database, request, [&](const Statement& select, Statement::Use& use) {
    std::vector<std::string> columns;
    for (int column = 0; column < select.columns(); ++column)
      columns.push_back(select.column_name(column));
    sink.begin(columns);
    std::vector<Value> row(columns.size());
    while (use.next()) {
      for (int column = 0; column < select.columns(); ++column)
        row[static_cast<std::size_t>(column)] = use.value(column);
      sink.row(row);
    }
  });
}

}  // namespace shardsweep::sqlite
