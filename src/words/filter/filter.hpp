// SPDX-License-Identifier: Apache-2.0
// What a user's expression is made of, for all that ask SQLite: `exclude`, rules, `--where` and
// the columns of a published table. Its text is read before SQLite sees it, so that it is one
// expression and nothing else (expression.cpp). What it names are columns of a row that is
// never stored: each an integer key of a point, and the value that SQLite gets for it
// (filter.cpp).
#pragma once

#include <shardsweep/filter.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>
#include <shardsweep/table.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::filter {

/// Bytes; longer than any rule that a person writes.
inline constexpr std::size_t longest_expression = 4096;

/// The identifiers of an expression, in lower case. Faults (invalid_input, without the
/// expression itself): empty, too long, brackets or quotes that do not close, statements,
/// sub-queries, parameters, comments, control characters.
[[nodiscard]] Result<std::set<std::string>> read_identifiers(std::string_view expression);

/// The expression in quotes for a message, cut where it is long.
[[nodiscard]] std::string in_message(std::string_view expression);

/// SQLite's message on an expression, without the brackets that we added.
[[nodiscard]] std::string syntax_in_words(std::string words, std::string_view expression);

/// Lower case, ASCII alone, as SQLite compares names.
[[nodiscard]] std::string lower(std::string_view text);

/// Subject of an expression: points of a plan, or rows of results (`--where`), which also have
/// texts, lists and times.
enum class Over : std::uint8_t { points, rows };
/// Knows functions that are deterministic, without effects, and whose result is hardly longer than
/// their arguments. No evaluation then runs long: SQLite looks at no clock within one.
[[nodiscard]] bool knows_function(Over over, std::string_view name);
/// Names of the functions, for a message.
[[nodiscard]] std::string functions_of(Over over);

/// The name in SQLite's message about a column that is missing; empty for other messages. From
/// 3.46 on a name in double quotes is shown with them, and advice follows it.
[[nodiscard]] std::optional<std::string_view> missing_column(std::string_view message);

/// A column of the row that expressions see.
struct Column {
  std::string name;
  std::function<std::int64_t(const Point&)> key;
  /// Values by key; empty: the key is the value.
  std::vector<Value> values;
  /// Type of the database's column, so that tp = '4' means the same in both; empty for vars.
  std::string_view cast;
};

/// where_columns(), then the sweep's vars. A var's value that reads as a number is one.
[[nodiscard]] std::vector<Column> columns_of(const SweepSpec& sweep);

/// Compiles a filter like compile_filter, over any row whose keys a Point can carry.
[[nodiscard]] Result<std::unique_ptr<PointFilter>> compile(
    const std::vector<Column>& known, const std::vector<std::string>& expressions);

}  // namespace shardsweep::filter
