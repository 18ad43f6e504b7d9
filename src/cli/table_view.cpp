// SPDX-License-Identifier: Apache-2.0
#include "cli/table_view.hpp"

#include "cli/cell_text.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace shardsweep {
namespace {

using Row = std::vector<Value>;

bool is_number(const Value& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}

/// Where every value that is there is a number.
bool is_numeric(const Table& table, std::size_t column) {
  bool any = false;
  for (const auto& row : table.rows) {
    if (std::holds_alternative<std::monostate>(row[column])) continue;
    if (!is_number(row[column])) return false;
    any = true;
  }
  return any;
}

// `show` turns one row into (name, value): there the name in front tells the unit.
bool is_turned(const Table& table) {
  return table.columns == std::vector<std::string>{"name", "value"};
}

std::string cell(const Table& table, const Row& row, std::size_t column, bool turned) {
  if (!turned || column == 0) return humanised(table.columns[column], row[column]);
  const auto* name = std::get_if<std::string>(row.data());
  return humanised(name != nullptr ? *name : "", row[column]);
}

void append_line(std::string& out, const std::vector<std::string>& cells,
                 const std::vector<std::size_t>& widths, const std::vector<Align>& aligns) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], aligns[i]);
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

std::string as_table(const Table& table) {
  const bool turned = is_turned(table);
  std::vector<Align> aligns;
  std::vector<std::size_t> widths;
  std::vector<std::string> header;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    header.push_back(printable(table.columns[i]));
    aligns.push_back(!turned && is_numeric(table, i) ? Align::right : Align::left);
    widths.push_back(width_of(header.back()));
  }
  std::vector<std::vector<std::string>> lines;
  for (const auto& row : table.rows) {
    auto& line = lines.emplace_back();
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      line.push_back(cell(table, row, i, turned));
      widths[i] = std::max(widths[i], width_of(line.back()));
    }
  }
  std::string out;
  append_line(out, header, widths, aligns);
  for (const auto& line : lines)
    append_line(out, line, widths, aligns);
  return out;
}

void append_value(fmt::memory_buffer& out, const Value& value, Format format) {
  const bool json = format == Format::json;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    fmt::format_to(std::back_inserter(out), "{}", *integer);
  } else if (const auto* real = std::get_if<double>(&value); real != nullptr) {
    const std::string text = json && !std::isfinite(*real) ? "null" : exact(*real);
    out.append(text.data(), text.data() + text.size());
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    json ? append_json(out, *text) : append_csv(out, *text);
  } else if (json) {
    constexpr std::string_view null = "null";
    out.append(null.data(), null.data() + null.size());
  }
}

void as_csv(fmt::memory_buffer& out, const Table& table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_csv(out, table.columns[i]);
  }
  out.push_back('\n');
  for (const auto& row : table.rows) {
    const auto before = out.size();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out.push_back(',');
      append_value(out, row[i], Format::csv);
    }
    // A line with nothing on it is no record to many readers: one empty field is written "".
    if (out.size() == before) fmt::format_to(std::back_inserter(out), "\"\"");
    out.push_back('\n');
  }
}

void as_json(fmt::memory_buffer& out, const Table& table) {
  out.push_back('[');
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    fmt::format_to(std::back_inserter(out), "{}\n{{", r == 0 ? "" : ",");
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (i > 0) out.push_back(',');
      append_json(out, table.columns[i]);
      out.push_back(':');
      append_value(out, table.rows[r][i], Format::json);
    }
    out.push_back('}');
  }
  fmt::format_to(std::back_inserter(out), "{}]\n", table.rows.empty() ? "" : "\n");
}

}  // namespace

std::optional<Format> format_from(std::string_view word) {
  if (word == "table") return Format::table;
  if (word == "csv") return Format::csv;
  if (word == "json") return Format::json;
  return std::nullopt;
}

std::string exact(double value) {
  return fmt::format("{}", value);
}

std::string table_text(const Table& table, Format format) {
  if (format == Format::table) return as_table(table);
  fmt::memory_buffer out;
  format == Format::csv ? as_csv(out, table) : as_json(out, table);
  return fmt::to_string(out);
}

}  // namespace shardsweep
