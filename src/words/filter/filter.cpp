// SPDX-License-Identifier: Apache-2.0
// The expressions of `exclude` in SQLite: one statement over one row of parameters, in a
// database of its own that holds no table. What a user wrote can name columns and call harmless
// functions, and nothing else: the text is read first (expression.cpp), SQLite's authorizer
// refuses the rest, and no evaluation runs long.
#include "filter/filter.hpp"

#include "text/nearest.hpp"
#include "text/pieces.hpp"

#include <shardsweep/filter.hpp>

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

namespace shardsweep::filter {
namespace {

Column axis_column(const AxisInfo& axis, const SweepSpec& sweep) {
  Column column{std::string(axis.name), axis.get, {}, "INTEGER"};
  if (axis.kind == AxisKind::model) {
    for (const auto& model : sweep.models)
      column.values.emplace_back(model.name);
  } else if (axis.kind == AxisKind::word) {
    for (const auto word : axis.words)
      column.values.emplace_back(std::string(word));
  }
  if (!column.values.empty()) column.cast = "TEXT";
  return column;
}

constexpr std::array<std::string_view, 27> known_functions{"abs", "ceil", "ceiling", "coalesce",
    "exp", "floor", "glob", "ifnull", "iif", "instr", "length", "like", "ln", "log", "log10",
    "log2", "lower", "max", "min", "mod", "nullif", "pow", "power", "round", "sign", "sqrt",
    "substr"};
constexpr std::array<std::string_view, 22> functions_of_rows{"->", "->>", "current_date",
    "current_time", "current_timestamp", "date", "datetime", "json_array_length", "json_extract",
    "json_type", "json_valid", "julianday", "ltrim", "rtrim", "strftime", "substring", "time",
    "trim", "typeof", "unicode", "unixepoch", "upper"};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Virtual-machine instructions between two looks, and looks per evaluation: an expression of
/// 4096 bytes needs some thousands.
constexpr int instructions_per_look = 1000;
constexpr int most_looks = 100;

struct CloseDatabase {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
struct CloseStatement {
  void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
};
using DatabaseHandle = std::unique_ptr<sqlite3, CloseDatabase>;
using StatementHandle = std::unique_ptr<sqlite3_stmt, CloseStatement>;

int authorize(void* /*self*/, int action, const char* /*first*/, const char* second,
    const char* /*database*/, const char* /*trigger*/) {
  if (action == SQLITE_SELECT) return SQLITE_OK;
  if (action != SQLITE_FUNCTION || second == nullptr) return SQLITE_DENY;
  return knows_function(Over::points, second) ? SQLITE_OK : SQLITE_DENY;
}

void set_limits(sqlite3* handle) {
  constexpr int most_text = 64 * 1024;
  constexpr int most_depth = 200;
  constexpr int most_pattern = 100;  // time of LIKE is quadratic in it
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, most_text);
  sqlite3_limit(handle, SQLITE_LIMIT_EXPR_DEPTH, most_depth);
  sqlite3_limit(handle, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, most_pattern);
  sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(handle, SQLITE_LIMIT_FUNCTION_ARG, 16);
  sqlite3_set_authorizer(handle, authorize, nullptr);
}

Result<DatabaseHandle> open_database() {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(":memory:", &handle,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_NOMUTEX, nullptr);
  DatabaseHandle database(handle);
  if (code != SQLITE_OK) return fault(FaultKind::unavailable, "sqlite: out of memory");
  set_limits(handle);
  return database;
}

Result<StatementHandle> prepare(sqlite3* database, const std::string& sql) {
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v3(database, sql.c_str(), static_cast<int>(sql.size()) + 1,
      SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  StatementHandle statement(handle);
  if (code != SQLITE_OK) return fault(FaultKind::invalid_input, sqlite3_errmsg(database));
  return statement;
}

std::string identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name)
    out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// "(SELECT CAST(?1 AS INTEGER) AS "tp", …)", with the columns that are used.
std::string row_sql(const std::vector<Column>& columns) {
  std::string sql = "(SELECT 0 AS \" \"";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& column = columns[i];
    const auto value = column.cast.empty() ? fmt::format("?{}", i + 1)
                                           : fmt::format("CAST(?{} AS {})", i + 1, column.cast);
    sql += fmt::format(", {} AS {}", value, identifier(column.name));
  }
  return sql + ")";
}

std::string one_sql(const std::string& expression, const std::vector<Column>& columns) {
  return fmt::format("SELECT ({}\n) FROM {}", expression, row_sql(columns));
}

std::string all_sql(
    const std::vector<std::string>& expressions, const std::vector<Column>& columns) {
  std::string sql = "SELECT CASE";
  for (std::size_t i = 0; i < expressions.size(); ++i)
    sql += fmt::format(" WHEN ({}\n) THEN {}", expressions[i], i);
  // The first branch keeps CASE valid if there is no expression.
  return sql + fmt::format(" WHEN 0 THEN 0 ELSE -1 END FROM {}", row_sql(columns));
}

class SqlFilter : public PointFilter {
 public:
  SqlFilter(DatabaseHandle database, StatementHandle statement, std::vector<Column> columns,
      std::vector<std::string> expressions)
      : database_(std::move(database)),
        statement_(std::move(statement)),
        columns_(std::move(columns)),
        expressions_(std::move(expressions)),
        keys_(columns_.size()),
        cached_keys_(cache_slots * columns_.size()),
        cached_(cache_slots, unknown) {
    sqlite3_progress_handler(database_.get(), instructions_per_look, look, this);
  }

  // Points that differ in nothing that the expressions name have one answer, and a grid has
  // many of them.
  int first_match(const Point& point) override {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      keys_[i] = columns_[i].key(point);
      hash = (hash ^ static_cast<std::uint64_t>(keys_[i])) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32U;
    }
    const auto slot = static_cast<std::size_t>(hash % cache_slots);
    const auto held = cached_keys_.begin() + static_cast<std::ptrdiff_t>(slot * keys_.size());
    if (cached_[slot] != unknown && std::equal(keys_.begin(), keys_.end(), held))
      return cached_[slot];
    cached_[slot] = evaluate();
    std::copy(keys_.begin(), keys_.end(), held);
    return cached_[slot];
  }

  [[nodiscard]] std::optional<Fault> failure() const override { return failure_; }

 private:
  static constexpr std::size_t cache_slots = 4096;
  static constexpr int unknown = -2;

  static int look(void* self) {
    return ++static_cast<SqlFilter*>(self)->looks_ > most_looks ? 1 : 0;
  }

  int evaluate() {
    int match = -1;
    if (run(statement_.get())) {
      match = sqlite3_column_int(statement_.get(), 0);
    } else if (!failure_) {
      failure_ = culprit(sqlite3_errmsg(database_.get()));
    }
    sqlite3_reset(statement_.get());
    return match;
  }

  // True if there is a row; the texts live as long as the columns: SQLite need not copy
  // them.
  bool run(sqlite3_stmt* statement) {
    looks_ = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      bind(statement, static_cast<int>(i) + 1, columns_[i], keys_[i]);
    return sqlite3_step(statement) == SQLITE_ROW;
  }

  // Finds the faulty expression by trying each alone.
  Fault culprit(std::string words) {
    for (const auto& expression : expressions_) {
      const auto one = prepare(database_.get(), one_sql(expression, columns_));
      if (!one || run(one->get())) continue;
      return {FaultKind::invalid_input,
          fmt::format(
              "expression {}: {}", in_message(expression), sqlite3_errmsg(database_.get()))};
    }
    return {FaultKind::invalid_input, "expressions: " + std::move(words)};
  }

  static void bind(sqlite3_stmt* handle, int parameter, const Column& column, std::int64_t key) {
    if (column.values.empty()) {
      sqlite3_bind_int64(handle, parameter, key);
      return;
    }
    const auto& value = column.values.at(static_cast<std::size_t>(key));
    if (const auto* text = std::get_if<std::string>(&value)) {
      sqlite3_bind_text(
          handle, parameter, text->data(), static_cast<int>(text->size()), SQLITE_STATIC);
    } else if (const auto* real = std::get_if<double>(&value)) {
      sqlite3_bind_double(handle, parameter, *real);
    } else if (std::holds_alternative<std::monostate>(value)) {
      sqlite3_bind_null(handle, parameter);
    } else {
      sqlite3_bind_int64(handle, parameter, std::get<std::int64_t>(value));
    }
  }

  DatabaseHandle database_;
  StatementHandle statement_;  // declared after database_, so that it is closed first
  std::vector<Column> columns_;
  std::vector<std::string> expressions_;
  std::vector<std::int64_t> keys_;
  std::vector<std::int64_t> cached_keys_;
  std::vector<int> cached_;
  int looks_ = 0;
  std::optional<Fault> failure_;
};

// Suggests a correction of an unknown name.
std::string hint_for(std::string_view name, const std::vector<Column>& columns) {
  if (const auto* axis = find_axis(name)) return fmt::format(", did you mean '{}'?", axis->name);
  for (const auto& column : columns) {
    for (const auto& value : column.values) {
      const auto* text = std::get_if<std::string>(&value);
      if (text != nullptr && *text == name)
        return fmt::format(", did you mean {} = '{}' in single quotes?", column.name, name);
    }
  }
  std::vector<std::string_view> names;
  names.reserve(columns.size());
  for (const auto& column : columns)
    names.emplace_back(column.name);
  return did_you_mean(lower(name), names);
}

std::string explain(std::string words, const std::vector<Column>& columns) {
  constexpr std::string_view no_use = "not authorized to use function: ";
  constexpr std::string_view no_function = "no such function: ";
  const auto rest = [&](std::string_view prefix) { return words.substr(prefix.size()); };
  if (const auto name = missing_column(words)) {
    const auto hint = hint_for(*name, columns);
    if (!hint.empty()) return fmt::format("unknown name '{}'{}", *name, hint);
    const auto names = join_texts(columns, ", ", &Column::name);
    return fmt::format("unknown name '{}' (names: {})", *name, names);
  }
  if (words.rfind(no_use, 0) == 0 || words.rfind(no_function, 0) == 0) {
    return fmt::format("unknown function '{}' (functions: {})",
        rest(words.rfind(no_use, 0) == 0 ? no_use : no_function), functions_of(Over::points));
  }
  const bool prohibited = words.find("prohibited") != std::string::npos ||
      words.find("not authorized") != std::string::npos || words.rfind("no such table", 0) == 0 ||
      words.rfind("vtable", 0) == 0;
  return prohibited ? "a table is not allowed, only an expression" : std::move(words);
}

}  // namespace

bool knows_function(Over over, std::string_view name) {
  const std::string word = lower(name);
  return contains(known_functions, word) ||
      (over == Over::rows && contains(functions_of_rows, word));
}

std::string functions_of(Over over) {
  const auto text = fmt::format("{}", fmt::join(known_functions, ", "));
  return over == Over::points ? text
                              : fmt::format("{}, {}", text, fmt::join(functions_of_rows, ", "));
}

Result<std::unique_ptr<PointFilter>> compile(
    const std::vector<Column>& known, const std::vector<std::string>& expressions) {
  SHARDSWEEP_ASSIGN(auto database, open_database());
  std::set<std::string> named;
  for (const auto& expression : expressions) {
    const auto refuse = [&](const std::string& what) {
      return fault(FaultKind::invalid_input, "expression {}: {}", in_message(expression), what);
    };
    auto identifiers = read_identifiers(expression);
    if (!identifiers) return refuse(identifiers.error().what);
    named.merge(*identifiers);
    if (const auto alone = prepare(database.get(), one_sql(expression, known)); !alone)
      return refuse(explain(syntax_in_words(alone.error().what, expression), known));
  }
  // Skip unused columns: each costs an evaluation, and makes points differ for the cache.
  std::vector<Column> used;
  for (const auto& column : known) {
    if (named.count(lower(column.name)) > 0) used.push_back(column);
  }
  auto statement = prepare(database.get(), all_sql(expressions, used));
  if (!statement) return fault(FaultKind::invalid_input, "expressions: " + statement.error().what);
  return std::make_unique<SqlFilter>(
      std::move(database), *std::move(statement), std::move(used), expressions);
}

std::vector<Column> columns_of(const SweepSpec& sweep) {
  std::vector<Column> columns;
  for (const auto& axis : axes())
    columns.push_back(axis_column(axis, sweep));
  columns.push_back({"global_batch", [](const Point& point) { return point.layout.global_batch(); },
      {}, "INTEGER"});
  columns.push_back(
      {"repeat", [](const Point& point) { return std::int64_t{point.repeat}; }, {}, "INTEGER"});
  for (const auto& shape : shape_fields) {
    Column column{std::string(shape.name),
        [](const Point& point) { return std::int64_t{point.model}; }, {}, "INTEGER"};
    for (const auto& model : sweep.models)
      column.values.emplace_back(model.*shape.member);
    columns.push_back(std::move(column));
  }
  for (std::size_t i = 0; i < sweep.vars.size(); ++i) {
    Column column{sweep.vars[i].name,
        [i](const Point& point) { return std::int64_t{point.vars.at(i)}; }, {}, {}};
    for (const auto& value : sweep.vars[i].values)
      column.values.push_back(var_value(value));
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace shardsweep::filter

namespace shardsweep {

Value var_value(const std::string& text) {
  const auto* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto read = std::from_chars(text.data(), end, integer);
      read.ec == std::errc() && read.ptr == end && std::to_string(integer) == text)
    return integer;
  double real = 0;
  if (const auto read = std::from_chars(text.data(), end, real); read.ec == std::errc() &&
      read.ptr == end && std::isfinite(real) &&
      (fmt::format("{}", real) == text || fmt::format("{}.0", real) == text))
    return real;
  return text;
}

const std::vector<std::string_view>& where_columns() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const auto& axis : axes())
      all.push_back(axis.name);
    all.push_back("global_batch");
    all.push_back("repeat");
    for (const auto& shape : shape_fields)
      all.push_back(shape.name);
    return all;
  }();
  return names;
}

Result<std::unique_ptr<PointFilter>> compile_filter(
    const SweepSpec& sweep, const std::vector<std::string>& expressions) {
  return filter::compile(filter::columns_of(sweep), expressions);
}

}  // namespace shardsweep
