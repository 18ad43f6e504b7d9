// SPDX-License-Identifier: Apache-2.0
#include "report/page_data.hpp"

#include "picture/heatmap_picture.hpp"
#include "show/cell_text.hpp"
#include "show/format.hpp"
#include "show/table_view.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

struct DataColumn {
  std::string name;
  std::string_view kind{};  ///< how numbers of it are written: bytes, ms, share, time
  bool axis = false;        ///< true for an axis of the parallel coordinates
};

/// Columns in the order of the page's table and of its CSV.
std::vector<DataColumn> data_columns() {
  std::vector<DataColumn> columns{{"sweep"}, {"trial"}};
  for (const auto& axis : axes())
    columns.push_back({std::string(axis.name), "", true});
  for (DataColumn column : std::initializer_list<DataColumn>{{"vars", "", true}, {"layout"},
           {"outcome", "", true}, {"tokens_per_s_per_gpu", "number"}, {"train_step_ms", "ms"},
           {"train_step_ms_spread", "share"}, {"mfu", "share"}, {"peak_memory_bytes", "bytes"},
           {"mark"}, {"cause"}, {"predicted_tokens_per_s_per_gpu", "number"},
           {"predicted_memory_bytes", "bytes"}, {"state"}, {"evidence"}, {"runner"},
           {"runner_version"}, {"hosts"}, {"files"}, {"started_at", "time"}})
    columns.push_back(std::move(column));
  return columns;
}

// Printable ASCII that neither JSON nor HTML gives a meaning: no '"', '<' and '\'.
constexpr auto digits = [] {
  std::array<char, 90> all{};
  std::size_t count = 0;
  for (char c = '#'; c < '\x7f'; ++c) {
    if (c != '<' && c != '\\') all[count++] = c;
  }
  return all;
}();

void append_code(std::string& out, std::size_t code, int width) {
  std::array<char, 3> text{};
  for (int i = width; i-- > 0; code /= digits.size())
    text[static_cast<std::size_t>(i)] = digits[code % digits.size()];
  out.append(text.data(), static_cast<std::size_t>(width));
}

int width_for(std::size_t codes) {
  return codes <= digits.size() ? 1 : codes <= digits.size() * digits.size() ? 2 : 3;
}

constexpr std::size_t most_codes = digits.size() * digits.size() * digits.size();

std::string number_text(double number) {
  return std::isfinite(number) ? fmt::format("{:.6g}", number) : "null";
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return printable(*text);
  return {};
}

bool is_text(const Value& value) {
  return std::holds_alternative<std::string>(value);
}

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

/// The JSON of a value. Whole numbers are exact, times above all.
std::string json_of(const Value& value) {
  if (is_text(value)) return script_json(text_of(value));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  const auto number = number_of(value);
  return number ? number_text(*number) : "null";
}

/// Number 0 is no value; the others are those of a list.
std::string listed(const std::vector<Value>& values) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> codes;
  codes.reserve(values.size());
  std::vector<std::string> texts;
  std::string list;
  for (const auto& value : values) {
    const auto json = json_of(value);
    if (json == "null" || json == "\"\"") {
      codes.push_back(0);
      continue;
    }
    const auto [found, added] = numbers.try_emplace(json, numbers.size() + 1);
    codes.push_back(found->second);
    if (!added) continue;
    list += (list.empty() ? "" : ",") + json;
    if (is_text(value)) texts.push_back(text_of(value));
  }
  const int width = width_for(numbers.size() + 1);
  std::string coded;
  coded.reserve(codes.size() * static_cast<std::size_t>(width));
  for (const auto code : codes)
    append_code(coded, code, width);
  const bool words = texts.size() == numbers.size() && texts.size() > 2;
  return fmt::format(R"({},"width":{},"codes":"{}")",
      words ? R"("front_values":)" + script_json(front_coded(texts))
            : fmt::format("\"values\":[{}]", list),
      width, coded);
}

/// Positive numbers of many trials, to five digits: the logarithm as one of 729,000 steps.
std::string scaled(const std::vector<Value>& values) {
  double low = 0;
  double high = 0;
  bool any = false;
  for (const auto& value : values) {
    const auto number = number_of(value);
    if (!number || *number <= 0) continue;
    const double own = std::log(*number);
    low = any ? std::min(low, own) : own;
    high = any ? std::max(high, own) : own;
    any = true;
  }
  const double step = std::max((high - low) / static_cast<double>(most_codes - 2), 1e-12);
  std::string coded;
  coded.reserve(values.size() * 3);
  for (const auto& value : values) {
    const auto number = number_of(value);
    const bool holds = number && *number > 0;
    append_code(coded,
        holds ? 1 + static_cast<std::size_t>(std::lround((std::log(*number) - low) / step)) : 0, 3);
  }
  return fmt::format(R"("scale":[{:.12g},{:.12g}],"width":3,"codes":"{}")", low, step, coded);
}

/// Texts, of which more than half are distinct.
bool differ(const std::vector<Value>& values) {
  std::map<std::string, int> seen;
  for (const auto& value : values) {
    if (!is_text(value)) return false;
    ++seen[std::get<std::string>(value)];
  }
  return seen.size() * 2 > values.size();
}

constexpr std::size_t few_rows = 20'000;  // rows up to which numbers and names are written in full

/// Names of many trials, which are their model, words that other models' trials have too, and a
/// hash of their own; empty if they are not made so.
std::string named_by_model(const std::vector<ReportedTrial>& trials) {
  std::vector<Value> middles;
  std::string hashes;
  std::size_t length = 0;
  for (const auto& trial : trials) {
    const auto name = printable(trial.trial);
    const auto model = printable(trial.model) + '-';
    const auto hash = name.rfind('-');
    if (!name.starts_with(model) || hash == std::string::npos || hash < model.size()) return {};
    middles.emplace_back(name.substr(model.size() - 1, hash + 2 - model.size()));
    if (length == 0) length = name.size() - hash - 1;
    if (name.size() - hash - 1 != length) return {};
    hashes += name.substr(hash + 1);
  }
  if (length == 0 || hashes.size() != trials.size() * length) return {};
  return fmt::format(R"("after":"model","length":{},"hashes":{},)", length, script_json(hashes)) +
      listed(middles);
}

std::string coded(const DataColumn& column, const std::vector<Value>& values) {
  const bool same = std::all_of(
      values.begin(), values.end(), [&](const Value& value) { return value == values.front(); });
  if (same) return "\"same\":" + (values.empty() ? "null" : json_of(values.front()));
  if (differ(values)) {
    std::vector<std::string> texts;
    texts.reserve(values.size());
    for (const auto& value : values)
      texts.push_back(text_of(value));
    return "\"front\":" + script_json(front_coded(texts));
  }
  const bool measure = !column.kind.empty() && column.kind != "time";
  const bool texts =
      std::any_of(values.begin(), values.end(), [](const Value& value) { return is_text(value); });
  const bool positive = std::all_of(values.begin(), values.end(), [](const Value& value) {
    const auto number = number_of(value);
    return !number || *number > 0;
  });
  if (measure && !texts && positive && values.size() > few_rows) return scaled(values);
  return listed(values);
}

/// Key of each row's cell in the heatmap; NULL: no cell.
std::vector<Value> cells_of_rows(const ReportView& view) {
  std::vector<Value> keys(view.trials.size());
  for (const auto& cell : view.cells) {
    for (const auto row : cell.trials)
      keys[row] = cell_key(cell.row, cell.column);
  }
  return keys;
}

/// JSON of what charts need of each cell: its best speed, and the row and name of each layout that
/// they name.
std::string cells_json(const ReportView& view) {
  constexpr std::size_t most_named = 3;
  std::string out = "{";
  for (const auto& cell : view.cells) {
    const auto& layouts = cell.answer.layouts;
    if (layouts.empty()) continue;
    std::string named;
    for (std::size_t i = 0; i < std::min(layouts.size(), most_named); ++i) {
      if (const auto row = view.row_of(layouts[i]))
        named +=
            fmt::format("{}[{},{}]", named.empty() ? "" : ",", *row, script_json(layouts[i].name));
    }
    out += fmt::format(R"({}"{}":{{"best":{},"labels":[{}]}})", out.size() == 1 ? "" : ",",
        cell_key(cell.row, cell.column), number_text(layouts.front().tokens_per_s_per_gpu), named);
  }
  return out + "}";
}

/// JSON of the ends of logs, by the row of their trial. Lines stay lines.
std::string tails_json(const ReportView& view) {
  std::string out = "{";
  if (view.input.log_tails.empty()) return out + "}";
  for (std::size_t row = 0; row < view.trials.size(); ++row) {
    const auto tail =
        view.input.log_tails.find(view.trials[row].sweep + "/" + view.trials[row].trial);
    if (tail == view.input.log_tails.end()) continue;
    std::string lines;
    std::string_view rest = tail->second;
    while (!rest.empty()) {
      const auto end = std::min(rest.find('\n'), rest.size());
      lines += printable(rest.substr(0, end)) + '\n';
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    out += fmt::format("{}\"{}\":{}", out.size() == 1 ? "" : ",", row, script_json(lines));
  }
  return out + "}";
}

/// Length of the common beginning, as far as it is ASCII: the script counts in other units.
std::size_t common(std::string_view a, std::string_view b) {
  const auto most = std::min({a.size(), b.size(), digits.size() - 1});
  std::size_t length = 0;
  while (length < most && a[length] == b[length] && static_cast<signed char>(a[length]) > 0)
    ++length;
  return length;
}

}  // namespace

std::string script_json(std::string_view text) {
  fmt::memory_buffer plain;
  append_json(plain, text);
  std::string out;
  out.reserve(plain.size());
  // "</script>" and "<!--" would end or change the element.
  for (const char c : std::string_view(plain.data(), plain.size()))
    c == '<' ? out.append("\\u003c") : out.append(1, c);
  return out;
}

std::string front_coded(const std::vector<std::string>& texts) {
  std::string out;
  std::string_view before;
  for (const std::string& text : texts) {
    const auto head = common(before, text);
    const std::string from_end(text.rbegin(), text.rend() - static_cast<std::ptrdiff_t>(head));
    const std::string before_end(
        before.rbegin(), before.rend() - static_cast<std::ptrdiff_t>(head));
    const auto tail = common(before_end, from_end);
    if (!out.empty()) out += '\n';
    append_code(out, head, 1);
    append_code(out, tail, 1);
    out.append(text, head, text.size() - head - tail);
    before = text;
  }
  return out;
}

std::string shown_cause(const ReportedTrial& trial) {
  const bool place_alone = trial.cause.starts_with("recorded in line ");
  return trial.outcome == "completed" || place_alone ? std::string() : trial.cause;
}

std::string data_element(const ReportView& view) {
  const auto& trials = view.trials;
  std::string out = fmt::format(
      "<script type=\"application/json\" "
      "id=\"data\">{{\"count\":{},\"limit\":{},\"size\":{},\"columns\":[",
      trials.size(), view.input.memory_limit().value_or(0),
      script_json(view.heatmap().column_name));
  const auto put = [&](const DataColumn& column, const std::vector<Value>& values, bool first) {
    out +=
        fmt::format("{}{{\"name\":{},\"title\":{},", first ? "" : ",\n", script_json(column.name),
            script_json(column.axis ? axis_words(column.name) : title_of(column.name)));
    if (!column.kind.empty()) out += fmt::format("\"kind\":\"{}\",", column.kind);
    if (column.axis) out += "\"axis\":1,";
    const bool many = column.name == "trial" && trials.size() > few_rows;
    const auto named = many ? named_by_model(trials) : std::string();
    out += (named.empty() ? coded(column, values) : named) + "}";
  };
  put({"cell"}, cells_of_rows(view), true);
  for (const auto& column : data_columns()) {
    std::vector<Value> values;
    values.reserve(trials.size());
    const auto value_in = trial_column(column.name);
    for (const auto& trial : trials) {
      auto& value = values.emplace_back(value_in(trial));
      if (column.name == "cause") value = shown_cause(trial);
      // A sweep over gpus has no number of nodes.
      const bool no_nodes = column.name == "nodes" && trial.nodes == 0;
      const auto* text = std::get_if<std::string>(&value);
      if (no_nodes || (text != nullptr && text->empty())) value = {};
    }
    put(column, values, false);
  }
  return out +
      fmt::format(
          "],\n\"cells\":{},\n\"tails\":{}}}</script>\n", cells_json(view), tails_json(view));
}

}  // namespace shardsweep
