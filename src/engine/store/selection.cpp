// SPDX-License-Identifier: Apache-2.0
#include "store/selection.hpp"

#include "filter/filter.hpp"
#include "store/deletion.hpp"
#include "store/reader.hpp"
#include "store/reading.hpp"
#include "store/row_sql.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace shardsweep::sqlite {
namespace {

using Json = nlohmann::json;

struct SelectionSql {
  const char* sweep = "SELECT id FROM sweeps WHERE name = ?";
  // Trials of a slug. The sweep's name may be '', for any sweep.
  const char* slug =
      "SELECT t.id FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.slug = ?2 AND ?1 IN "
      "('', s.name)";
  const char* attempt =
      "SELECT t.id FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep JOIN attempts AS a ON "
      "a.trial = t.id WHERE t.slug = ?2 AND ?1 IN ('', s.name) AND a.number = ?3";
  const char* sweeps_of =
      "SELECT s.name FROM sweeps AS s JOIN trials AS t ON t.sweep = s.id WHERE t.id IN (SELECT "
      "value FROM json_each(?)) ORDER BY s.id";
  const char* job =
      "SELECT DISTINCT a.trial FROM allocations AS l JOIN attempts AS a ON a.allocation = l.id "
      "WHERE l.job_id = ? AND l.job_id <> ''";
  const char* vars =
      "SELECT DISTINCT j.value FROM sweeps AS s, json_each(s.vars) AS j WHERE s.id IN (SELECT "
      "value FROM json_each(?1)) OR s.id IN (SELECT sweep FROM trials WHERE id IN (SELECT value "
      "FROM json_each(?2))) OR ?3 ORDER BY 1";
};
constexpr SelectionSql selection_sql;

template <class... Values>
std::vector<std::int64_t> ids(Database& database, const char* text, const Values&... values) {
  std::vector<std::int64_t> found;
  Statement select(database, text);
  auto row = select.use(values...);
  while (row.next())
    found.push_back(row.integer(0));
  return found;
}

/// One slug may be in several sweeps: then it has to be said which is meant.
void refuse_ambiguous(
    Database& database, const std::string& name, const std::vector<std::int64_t>& found) {
  if (found.size() < 2) return;
  constexpr std::size_t most_listed = 5;
  std::vector<std::string> forms;
  Statement select(database, selection_sql.sweeps_of);
  auto row = select.use(Json(found).dump());
  while (forms.size() < most_listed && row.next())
    forms.push_back(fmt::format("{}/{}", row.text(0), name));
  const std::string more = found.size() > most_listed ? ", …" : "";
  fail(FaultKind::invalid_input, "'{}' is in {} sweeps. Write one of {}{}", name, found.size(),
      fmt::join(forms, ", "), more);
}

/// `slug` or `slug.2` of one sweep, or of any where it is empty.
std::vector<std::int64_t> trials_named(
    Database& database, const std::string& sweep, const std::string& name) {
  auto found = ids(database, selection_sql.slug, sweep, name);
  if (const auto dot = name.rfind('.'); found.empty() && dot != std::string::npos) {
    std::int64_t number = 0;
    const auto* end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + dot + 1, end, number);
    if (read.ec == std::errc() && read.ptr == end)
      found = ids(database, selection_sql.attempt, sweep, name.substr(0, dot), number);
  }
  return found;
}

std::vector<std::int64_t> trials_named(Database& database, const std::string& name) {
  auto found = trials_named(database, "", name);
  refuse_ambiguous(database, name, found);
  if (const auto slash = name.find('/'); found.empty() && slash != std::string::npos)
    found = trials_named(database, name.substr(0, slash), name.substr(slash + 1));
  if (found.empty()) found = ids(database, selection_sql.job, name);
  return found;
}

bool is_identifier(const std::string& name) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
      std::all_of(name.begin(), name.end(), letter);
}

/// "no such column: tpp" with what was meant, or how to see what there is.
std::string without_column(const std::string& words, const std::vector<std::string>& names) {
  const auto name = words.substr(words.rfind(' ') + 1);
  const auto hint = did_you_mean(name, {names.begin(), names.end()});
  return words +
      (hint.empty() ? "; write text in 'single quotes'. `shardsweep results --limit 1 --columns "
                      "all` shows the names."
                    : hint);
}

/// Compiled over an empty table with the columns' names: what SQLite and the authorizer take
/// there is an expression over them.
void try_expression(const std::string& where, const std::vector<std::string>& names) {
  const auto columns = join_texts(names, ", ", identifier);
  Database scratch(":memory:", OpenMode::create, 0);
  scratch.execute("CREATE TABLE candidate (" + columns + ")");
  const Authorizer authorizer(scratch, Allowed::expression);
  const auto refuse = [&](const std::string& why) {
    fail(FaultKind::invalid_input, "{}: {}", filter::in_message(where), why);
  };
  try {
    const Statement compiled(scratch, "SELECT 1 FROM candidate WHERE (" + where + ")");
  } catch (const SqliteError& error) {
    if (authorizer.refused().starts_with("the function"))
      refuse(fmt::format("{} is not allowed (functions: {}). `shardsweep query` has more.",
          authorizer.refused(), filter::functions_of(filter::Over::rows)));
    if (!authorizer.refused().empty())
      refuse(authorizer.refused() + " is not allowed, only an expression");
    auto words = error.fault().what;
    if (const auto colon = words.find(": "); colon != std::string::npos) words.erase(0, colon + 2);
    if (words.find("no such column") != std::string::npos) refuse(without_column(words, names));
    refuse(filter::syntax_in_words(std::move(words), where));
  }
}

/// ", did you mean 'first'?", or a full stop.
std::string meant_sweep(Database& database, const std::string& name) {
  std::vector<std::string> names;
  Statement select(database, "SELECT name FROM sweeps");
  auto row = select.use();
  while (row.next())
    names.push_back(row.text(0));
  auto hint = did_you_mean(name, {names.begin(), names.end()});
  return hint.empty() ? "." : hint;
}

}  // namespace

ResolvedNames resolve_names(Database& database, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::vector<std::int64_t> sweeps;
  std::vector<std::int64_t> trials;
  for (const auto& name : names) {
    const auto named = ids(database, selection_sql.sweep, name);
    sweeps.insert(sweeps.end(), named.begin(), named.end());
    if (!named.empty()) continue;
    const auto found = trials_named(database, name);
    if (found.empty()) {
      fail(FaultKind::invalid_input,
          "no sweep, trial, attempt or job is named '{}'{} `shardsweep status` lists "
          "the sweeps.",
          name, meant_sweep(database, name));
    }
    trials.insert(trials.end(), found.begin(), found.end());
  }
  return {false, Json(sweeps).dump(), Json(trials).dump()};
}

std::string chosen_condition(
    const ResolvedNames& chosen, const std::string& sweep, const std::string& trial) {
  if (chosen.all) return "(?1 IS NOT NULL AND ?2 IS NOT NULL)";
  return fmt::format(
      "({} IN (SELECT value FROM json_each(?1)) OR {} IN (SELECT value FROM json_each(?2)))", sweep,
      trial);
}

std::vector<std::string> result_columns(Database& database) {
  return columns_of_view(database, "results");
}

std::vector<std::string> columns_of_view(Database& database, const std::string& view) {
  std::vector<std::string> names;
  Statement select(database, "SELECT name FROM pragma_table_info(?)");
  auto row = select.use(view);
  while (row.next())
    names.push_back(row.text(0));
  return names;
}

std::vector<std::string> chosen_vars(Database& database, const ResolvedNames& chosen) {
  const auto columns = result_columns(database);
  std::vector<std::string> names;
  Statement select(database, selection_sql.vars);
  auto row = select.use(chosen.sweeps, chosen.trials, chosen.all);
  while (row.next()) {
    auto name = row.text(0);
    const bool taken = std::find(columns.begin(), columns.end(), name) != columns.end();
    if (is_identifier(name) && !taken) names.push_back(std::move(name));
  }
  return names;
}

std::string var_columns(const std::vector<std::string>& vars, const std::string& column) {
  std::string text;
  for (const auto& name : vars)  // identifiers, so nothing in them ends the quotes
    text += fmt::format(", json_extract({}, '$.{}') AS {}", column, name, identifier(name));
  return text;
}

std::string checked_where(
    Database& database, const std::string& where, const std::vector<std::string>& vars) {
  if (where.find_first_not_of(" \t\n\r") == std::string::npos) return "1";
  if (const auto read = filter::read_identifiers(where); !read) {
    const auto& why = read.error();
    fail(why.kind, fmt::format("{} {}", filter::in_message(where), why.what));
  }
  auto names = result_columns(database);
  names.insert(names.end(), vars.begin(), vars.end());
  try_expression(where, names);
  return "(" + where + ")";
}

namespace {

struct MeantSql {
  const char* named =
      "SELECT s.id FROM sweeps AS s WHERE ?2 OR s.id IN (SELECT value FROM json_each(?1)) ORDER BY "
      "s.id";
  const char* open =
      "SELECT s.id FROM sweeps AS s WHERE EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = s.id "
      "AND t.hidden = 0 AND t.state <> 'ended')";
};
constexpr MeantSql meant_sql;

}  // namespace

TrialSelection selected(
    Database& database, const std::vector<std::string>& names, const std::string& where) {
  const auto chosen = resolve_names(database, names);
  const auto vars = chosen_vars(database, chosen);
  const auto condition = checked_where(database, where, vars);
  TrialSelection all;
  {
    Statement select(database, meant_sql.named);
    auto row = select.use(chosen.sweeps, chosen.all);
    while (row.next())
      all.sweeps.push_back(row.integer(0));
  }
  Statement select(database,
      fmt::format("SELECT {} FROM trials AS t WHERE (t.hidden = 0 OR t.state IN ('queued', "
                  "'running')) AND {} AND t.id IN (SELECT trial_id FROM (SELECT r.*{} FROM "
                  "all_results AS r) WHERE {}) ORDER BY t.sweep, t.position, t.id",
          trial_row_columns(), chosen_condition(chosen, "t.sweep", "t.id"),
          var_columns(vars, "r.vars"), condition));
  auto row = select.use(chosen.sweeps, chosen.trials);
  while (row.next())
    all.trials.push_back(read_row<TrialRow>(row));
  return all;
}

VerbScope meant(
    Database& database, const std::vector<std::string>& names, const std::string& where) {
  VerbScope found;
  read_rows(database, fmt::format("SELECT {} FROM sweeps", columns_of<SweepRow>()), found.sweeps);
  {
    Statement select(database, meant_sql.open);
    auto row = select.use();
    while (row.next())
      found.open[row.integer(0)] = true;
  }
  found.selected = selected(database, names, where);
  for (const SweepId sweep : found.selected.sweeps)
    found.contents.emplace(sweep, contents(database, sweep));
  return found;
}

}  // namespace shardsweep::sqlite
