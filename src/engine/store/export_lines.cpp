// SPDX-License-Identifier: Apache-2.0
// Decision: Trials stand in the order in which they were submitted, because what is newest is
// shown: a later export adds lines at the end. What is NULL or has its default takes no room in
// a diff.
#include "store/line_columns.hpp"
#include "store/reader.hpp"
#include "store/rows.hpp"
#include "text/checked_line.hpp"
#include "text/secrets.hpp"

#include <shardsweep/words.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace shardsweep::sqlite {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// The numbers that a runner has measured beside our metrics.
constexpr const char* own_metrics_sql =
    "(SELECT json_group_object(j.key, j.value) FROM json_each(iif(json_valid(m.detail), m.detail, "
    "'{}')) AS j WHERE j.type IN ('integer', 'real') AND j.key <> 't' AND j.key NOT IN (SELECT "
    "name FROM pragma_table_info('measurements')))";

/// Runs of one round in one allocation are a pair. An imported one keeps the token that it had
/// where it ran behind its sweep's id (inbox.cpp).
constexpr const char* allocation_sql =
    "(SELECT iif(l.backend = 'imported', substr(l.token, instr(l.token || '/', '/') + 1), l.token) "
    "FROM allocations AS l WHERE l.id = a.allocation)";

std::string dumped(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string list_of(const std::vector<LineColumn>& columns, std::string_view prefix) {
  std::string text;
  for (const auto& column : columns) {
    text += text.empty() ? "" : ", ";
    if (column.name == "final_of") {
      text += "(SELECT b.slug FROM trials AS b WHERE b.id = t.final_of)";
    } else if (prefix == "t." && column.name == "outcome") {
      // A trial that runs again keeps its outcome until a new one is durable.
      text += "coalesce(t.outcome, t.prior)";
    } else if (prefix == "t." && column.name == "cause") {
      text += "iif(t.outcome IS NULL, t.prior_cause, t.cause)";
    } else if (prefix == "t." && column.name == "charged") {
      text += "iif(t.outcome IS NULL, 0, t.charged)";
    } else if (column.name == "detail") {
      text += own_metrics_sql;
    } else if (column.name == "allocation") {
      text += allocation_sql;
    } else {
      text += fmt::format("{}{}", prefix, column.name);
    }
  }
  return text;
}

bool is_sentence(const std::string& name) {
  return name == "cause" || name == "also" || name == "why";
}

void put_value(OrderedJson& into, const LineColumn& column, const Statement::Use& row, int index) {
  const Value value = row.value(index);
  if (std::holds_alternative<std::monostate>(value) || value == column.otherwise) return;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) into[column.key] = *integer;
  if (const auto* real = std::get_if<double>(&value)) into[column.key] = *real;
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return;
  if (column.kind == LineKind::json) {
    auto parsed = OrderedJson::parse(*text, nullptr, false);
    if (parsed.is_discarded()) parsed = OrderedJson::object();
    if (!(column.name == "detail" && parsed.empty())) into[column.key] = std::move(parsed);
    return;
  }
  // A trainer's text may hold a secret.
  into[column.key] = is_sentence(column.name) ? without_assigned_secrets(*text) : *text;
}

/// The values of these columns, from column `first` of a row on.
void put_values(OrderedJson& into, const std::vector<LineColumn>& columns,
    const Statement::Use& row, int first) {
  for (const auto& column : columns)
    put_value(into, column, row, first++);
}

class LinesOfSweep {
 public:
  LinesOfSweep(Database& database, std::int64_t sweep)
      : database_(database), sweep_(sweep), columns_(line_columns(database)) {}

  SweepLines all() {
    head();
    trials();
    left_out();
    result_.lines = std::move(head_) + std::move(result_.lines);
    return std::move(result_);
  }

 private:
  void add(std::string& to, const OrderedJson& json) {
    to += checked_line(dumped(json));
    if (to.size() > most_bytes_of_lines)
      fail(FaultKind::invalid_input,
          "'{}' has more than {} MiB of lines: `shardsweep export copy.db` writes a "
          "copy of the database",
          result_.name, most_bytes_of_lines >> 20U);
  }

  void head() {
    Statement select(database_,
        "SELECT name, cluster, runner, runner_version, vars, points, duplicates, left_out, source, "
        "resolved, backend, (SELECT count(*) FROM trials WHERE sweep = s.id AND side = '' AND "
        "coalesce(outcome, prior) IS NOT NULL), (SELECT count(*) FROM trials WHERE sweep = s.id "
        "AND side = '' AND coalesce(outcome, prior) IS NULL) FROM sweeps AS s WHERE id = ?");
    auto row = select.use(sweep_);
    if (!row.next()) fail(FaultKind::corrupt, "a sweep did not come back");
    result_.name = row.text(0);
    result_.trials = row.integer(11);
    result_.open = row.integer(12);
    const bool imported = row.view(10) == word_of(Backend::imported);
    order_ = imported ? "t.position, t.id" : "t.id";
    OrderedJson json;
    json[lines_format_key] = lines_format;
    json["sweep"] = result_.name;
    json["cluster"] = row.text(1);
    json["runner"] = row.text(2);
    json["runner_version"] = row.text(3);
    json["vars"] = OrderedJson::parse(row.text(4), nullptr, false);
    json["points"] = row.integer(5);
    json["duplicates"] = row.integer(6);
    json["left_out"] = OrderedJson::parse(row.text(7), nullptr, false);
    json["trials"] = result_.trials;
    if (imported && row.view(8) == row.view(9)) {
      json["table"] = row.text(8);
    } else {
      result_.file = without_secret_values(row.text(9));
      json["file"] = check_of(result_.file);
    }
    add(head_, json);
  }

  void trials() {
    Statement select(database_,
        fmt::format("SELECT t.id, {} FROM trials AS t WHERE t.sweep = ? AND t.side = '' AND "
                    "coalesce(t.outcome, t.prior) IS NOT NULL ORDER BY {}",
            list_of(columns_.trial, "t."), order_));
    Statement attempts(database_,
        fmt::format("SELECT m.attempt IS NOT NULL, {}, {} FROM attempts AS a LEFT JOIN "
                    "measurements AS m ON m.attempt = a.id WHERE a.trial = ? AND a.state = 'ended' "
                    "AND a.outcome IS NOT NULL ORDER BY a.number",
            list_of(columns_.attempt, "a."), list_of(columns_.measured, "m.")));
    auto row = select.use(sweep_);
    while (row.next()) {
      OrderedJson json;
      put_values(json, columns_.trial, row, 1);
      auto tries = OrderedJson::array();
      auto attempt = attempts.use(row.integer(0));
      while (attempt.next()) {
        OrderedJson one;
        put_values(one, columns_.attempt, attempt, 1);
        if (attempt.integer(0) != 0) {
          auto measured = OrderedJson::object();
          put_values(
              measured, columns_.measured, attempt, 1 + static_cast<int>(columns_.attempt.size()));
          one["measured"] = std::move(measured);
        }
        tries.push_back(std::move(one));
      }
      if (!tries.empty()) json["attempts"] = std::move(tries);
      add(result_.lines, json);
    }
  }

  void left_out() {
    Statement select(database_,
        fmt::format("SELECT {} FROM left_out AS t WHERE t.sweep = ? ORDER BY t.id",
            list_of(columns_.left_out, "t.")));
    auto row = select.use(sweep_);
    while (row.next()) {
      OrderedJson json;
      put_values(json, columns_.left_out, row, 0);
      add(result_.lines, json);
    }
  }

  Database& database_;
  std::int64_t sweep_;
  LineColumns columns_;
  const char* order_ = "t.id";
  std::string head_;
  SweepLines result_;
};

}  // namespace

SweepLines sweep_lines(Database& database, const std::string& name) {
  Statement select(database, "SELECT id FROM sweeps WHERE name = ?");
  auto row = select.use(name);
  if (!row.next()) fail(FaultKind::invalid_input, "no sweep is named '{}'", name);
  const std::int64_t sweep = row.integer(0);
  row.run();
  return LinesOfSweep(database, sweep).all();
}

}  // namespace shardsweep::sqlite
