// SPDX-License-Identifier: Apache-2.0
#include "show/show_view.hpp"

#include "show/cell_text.hpp"
#include "show/format.hpp"

#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using Section = Reader::Section;

std::string_view word_in(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

/// Row by row (name, value); what holds nothing is left out.
Table turned(const Table& table, const std::vector<Value>& row) {
  Table result{{"name", "value"}, {}};
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto* text = std::get_if<std::string>(&row[i]);
    if (std::holds_alternative<std::monostate>(row[i]) || (text != nullptr && text->empty()))
      continue;
    result.rows.push_back({table.columns[i], row[i]});
  }
  return result;
}

/// Keys of the database and what is as it nearly always is: `--format json` has them.
bool is_of_interest(std::string_view name, const Value& value) {
  constexpr std::array<std::string_view, 8> keys{
      "trial_id", "sweep_id", "attempt_id", "lane", "position", "run_id", "nonce", "detail"};
  if (std::find(keys.begin(), keys.end(), name) != keys.end()) return false;
  // A row's number says nothing; a trial's name is text.
  if (name == "trial" && std::holds_alternative<std::int64_t>(value)) return false;
  const bool none = value == Value(std::int64_t{0});
  if (name == "in_file") return none;
  if (const auto* axis = find_axis(name); axis != nullptr && !axis->is(AxisUse::shown)) {
    const auto usual = axis->kind == AxisKind::word ? Value(axis_text(*axis, axis->default_value))
                                                    : Value(std::int64_t{axis->default_value});
    if (value == usual) return false;
  }
  if (name == "exit_code" && value == Value(std::int64_t{-1})) return false;
  // A 0 in these means none; in an optional field of a model it means none or the usual value.
  constexpr std::array<std::string_view, 4> none_by_zero{"nodes", "revoked", "leaked", "signal"};
  const bool zero_is_none =
      std::find(none_by_zero.begin(), none_by_zero.end(), name) != none_by_zero.end() ||
      std::any_of(shape_fields.begin(), shape_fields.end(),
          [&](const ShapeField& one) { return one.optional && one.name == name; });
  return !(none && zero_is_none) && word_in(value) != "{}";
}

Table for_people(const Table& table) {
  Table result{table.columns, {}};
  for (const auto& row : table.rows) {
    if (!is_of_interest(word_in(row[0]), row[1])) continue;
    result.rows.push_back(row);
    const auto* flag = std::get_if<std::int64_t>(&row[1]);
    if (word_in(row[0]) == "counted" && flag != nullptr)
      result.rows.back()[1] = std::string(*flag != 0 ? "yes" : "no");
  }
  return result;
}

Table without_column(Table table, std::string_view name) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), name);
  if (found == table.columns.end()) return table;
  const auto at = found - table.columns.begin();
  table.columns.erase(found);
  for (auto& row : table.rows)
    row.erase(row.begin() + at);
  return table;
}

std::string heading(const std::string& text, const TableStyle& style) {
  std::string out;
  const auto shown = in_charset(printable(text), style.terminal.utf8);
  for (const auto& part : folded(shown, style.terminal.width.value_or(width_of(shown) + 1)))
    out += part + '\n';
  return out;
}

TableStyle ranked(TableStyle style) {
  if (style.important.empty()) style.important = {"at", "kind", "detail", "trial", "attempt"};
  return style;
}

/// Wide rows stand as blocks; what is one line per happening stays a table.
std::vector<Section> parts_of(const Section& section) {
  const auto& table = section.table;
  if (is_turned(table)) return {{section.title, for_people(table), section.thing}};
  if (section.title != "attempts" && section.title != "measurements")
    return {{section.title, without_column(table, "id"), section.thing}};
  std::vector<Section> parts;
  for (const auto& row : table.rows) {
    auto block = for_people(turned(table, row));
    auto title = section.title.substr(0, section.title.size() - 1);
    const bool numbered = !block.rows.empty() && word_in(block.rows[0][0]) == "attempt";
    if (numbered)
      title = fmt::format("{}{} {}", title, title == "attempt" ? "" : " of attempt",
          humanised("id", block.rows[0][1]));
    // The title has its number; a measurement names its attempt by its row too.
    std::erase_if(
        block.rows, [&](const auto& one) { return numbered && word_in(one[0]) == "attempt"; });
    parts.push_back({std::move(title), std::move(block), section.thing});
  }
  return parts;
}

std::string without_line_ends(std::string text) {
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

/// (name, value) as the members of one object.
Table as_one_row(const Table& table) {
  Table row{{}, {{}}};
  for (const auto& pair : table.rows) {
    row.columns.emplace_back(word_in(pair[0]));
    row.rows[0].push_back(pair[1]);
  }
  return row;
}

std::string section_json(const Section& section, const TableStyle& style) {
  if (!is_turned(section.table)) return without_line_ends(table_text(section.table, style));
  const auto array = table_text(as_one_row(section.table), style);
  const auto begin = array.find('{');
  return array.substr(begin, array.rfind('}') - begin + 1);
}

std::string as_json(const std::vector<Section>& sections, const TableStyle& style) {
  fmt::memory_buffer out;
  const auto put = [&out](std::string_view text) { out.append(text.begin(), text.end()); };
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const bool fresh = i == 0 || sections[i].thing != sections[i - 1].thing;
    put(i == 0 ? "[\n" : fresh ? "},\n" : ",");
    if (fresh) {
      put("{\"name\":");
      append_json(out, sections[i].thing);
      put(",");
    }
    append_json(out, sections[i].title);
    put(":" + section_json(sections[i], style));
  }
  put(sections.empty() ? "[]\n" : "}\n]\n");
  return fmt::to_string(out);
}

}  // namespace

std::vector<Section> sections_for_people(const std::vector<Section>& sections) {
  std::vector<Section> all;
  for (const auto& section : sections) {
    auto parts = parts_of(section);
    std::move(parts.begin(), parts.end(), std::back_inserter(all));
  }
  return all;
}

std::string sections_text(const std::vector<Section>& sections, const TableStyle& style) {
  if (style.format == Format::json) return as_json(sections, style);
  std::string out;
  const bool csv = style.format == Format::csv;
  for (const auto& section : csv ? sections : sections_for_people(sections)) {
    if (!out.empty()) out += '\n';
    out += csv ? section.title + '\n' + table_text(section.table, style)
               : heading(section.title, style) +
            table_text(section.table, is_turned(section.table) ? style : ranked(style));
  }
  return out;
}

}  // namespace shardsweep
