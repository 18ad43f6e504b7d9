// SPDX-License-Identifier: Apache-2.0
// A Table as text. Only the `table` form is for eyes: it fits the terminal, humanises units and
// neutralises what a terminal would obey; csv and json carry the values as they are, and times
// as RFC 3339 in UTC. The note is the caller's: it is talk, and goes to stderr.
#pragma once

#include "show/cell_text.hpp"
#include "show/format.hpp"
#include "show/styled_text.hpp"

#include <shardsweep/table.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// table, csv, json or markdown.
[[nodiscard]] std::optional<Format> format_from(std::string_view word);

struct TableStyle {
  Format format = Format::table;
  Terminal terminal{};
  /// If not all columns fit, these stay before all others: the first one names a row, and the
  /// rest is what only this table knows. The others follow by their worth.
  std::vector<std::string_view> important{};
  /// Columns beside those of names_rows() that say what a row is of: vars.
  std::vector<std::string_view> names{};
  bool every = false;  ///< the columns were asked for: none is moved above or left out
  bool wide = false;   ///< all columns in lines, whatever the width
  /// Width of a table in a pipe, in which columns are chosen; none: as wide as it wants to be.
  std::optional<std::size_t> usual_width{};
  bool raw = false;  ///< names as titles; stored times in csv and json: the answer to SQL
  /// Headings of columns by their names, in place of those of title_of(). They may fold.
  std::map<std::string, std::string, std::less<>> titles{};
};

/// table: a header line, columns two blanks apart, numbers to the right, no blanks at the ends
/// of lines. A column without any value is left out unless it was asked for. On a terminal of
/// limited width columns of one same value go into a line above, and those of least worth are
/// left out and named below, but none without which two rows would read alike; if that would
/// leave too little, each row is a block of lines. csv:
/// RFC 4180 with LF, NULL an empty field. json: an array of objects, one a line, NULL null, and
/// a real that is no number null. markdown: a table for people, with the columns in which
/// something stands.
[[nodiscard]] std::string table_text(const Table& table, const TableStyle& style);
[[nodiscard]] std::string table_text(const Table& table, Format format);

/// One row as (name, value): there the name in front tells the unit.
[[nodiscard]] bool is_turned(const Table& table);

/// The column that tells what a row's value is: of (name, value) its name.
[[nodiscard]] std::string_view unit_column(
    const std::vector<std::string>& columns, std::span<const Value> row, std::size_t column);

/// Heading of a column for people: `tokens/s/GPU`, `peak memory`, `started`.
[[nodiscard]] std::string title_of(std::string_view column);

/// Called whenever more than 64 KiB lie in the buffer; may write them out and clear it, so that
/// a million rows need no room for their text.
using Flush = std::function<void(fmt::memory_buffer&)>;

/// A column for eyes. `text` is asked for a cell more than once: widths come before lines.
struct TextColumn {
  std::string name;  ///< tells its worth, and whether it holds sentences
  std::string title;
  Align align = Align::left;
  std::function<std::string(std::size_t row)> text;
  bool title_folds = false;  ///< the heading may stand in several lines
};

/// Rows as table or markdown.
void write_columns(fmt::memory_buffer& out, std::vector<TextColumn> columns, std::size_t rows,
    const TableStyle& style, const Flush& flush = {});

/// Rows as csv or json, each as it comes. A real is written so that reading it back gives the
/// same one. The array of json ends without a line's end: it may stand within an object.
class RecordWriter {
 public:
  RecordWriter(fmt::memory_buffer& out, Format format, std::vector<std::string> columns,
      const Flush& flush = {}, bool raw = false);
  void row(std::span<const Value> row);
  void end();

 private:
  void value(std::string_view column, const Value& value);

  fmt::memory_buffer& out_;
  bool json_;
  bool raw_;
  bool any_ = false;
  std::vector<std::string> columns_;
  std::vector<std::string> heads_;  ///< columns' names of csv, keys of json
  Flush flush_;
};

}  // namespace shardsweep
