// SPDX-License-Identifier: Apache-2.0
#include "show/table_view.hpp"

#include "show/arrange.hpp"
#include "show/cell_text.hpp"
#include "show/column_worth.hpp"
#include "text/numbers.hpp"

#include <shardsweep/point.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace shardsweep {
namespace {

using Row = std::vector<Value>;

constexpr std::size_t least_rows_alike = 3;  ///< for figures
constexpr std::size_t least_prose = 20;      ///< columns that folded sentences can be read in

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

struct TextColumn {
  std::string title;
  Align align = Align::left;
  std::vector<std::string> cells;  ///< one per row
  ColumnShape shape;
};

std::size_t rank_of(const TableStyle& style, const Table& table, std::size_t column) {
  const auto& important = style.important;
  const auto found = std::find(important.begin(), important.end(), table.columns[column]);
  if (found != important.end()) return static_cast<std::size_t>(found - important.begin());
  if (important.empty() && column == 0) return 0;
  const auto worth = worth_of(table.columns[column]);
  return important.size() + worth + (worth < columns_of_worth() ? 0 : column);
}

/// What rows are of, rather than what came out.
bool is_setting(std::string_view column) {
  return find_axis(column) != nullptr || column == "profile" || column == "runner" ||
      column == "runner_version" || column == "sweep";
}

TextColumn text_column(const Table& table, const TableStyle& style, std::size_t index) {
  const auto& name = table.columns[index];
  const bool utf8 = style.terminal.utf8;
  TextColumn column;
  column.title = in_charset(printable(style.raw ? name : title_of(name)), utf8);
  column.align = is_numeric(table, index) ? Align::right : Align::left;
  auto& shape = column.shape;
  shape.width = width_of(column.title);
  for (const auto& row : table.rows) {
    column.cells.push_back(in_charset(humanised(name, row[index]), utf8));
    shape.width = std::max(shape.width, width_of(column.cells.back()));
  }
  const auto& cells = column.cells;
  shape.rank = rank_of(style, table, index);
  const bool folds = is_prose(name) || shape.rank == 0;
  shape.least = folds ? std::min(shape.width, least_prose) : shape.width;
  // In a few rows figures may be equal by chance: what the rows are of is so on purpose.
  const bool may_be_same = cells.size() >= least_rows_alike || (shape.rank > 0 && is_setting(name));
  shape.same = may_be_same && !cells.empty() &&
      std::all_of(
          cells.begin(), cells.end(), [&](const auto& cell) { return cell == cells.front(); });
  shape.empty = !cells.empty() &&
      std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.empty(); });
  return column;
}

/// Lines that are no rows of columns.
class Lines {
 public:
  explicit Lines(std::optional<std::size_t> width) : width_(width) {}

  void add(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + '\n';
  }

  void sentence(const std::string& text) {
    constexpr std::size_t indent = 2;
    std::size_t before = 0;
    for (const auto& part : folded(text, width_.value_or(width_of(text) + 1), indent))
      add(std::string(std::exchange(before, indent), ' ') + part);
  }

  /// `name  value`, its further lines below the value; on a very narrow terminal all of it
  /// below the name.
  void pair(const std::string& name, const std::string& value, std::size_t names) {
    const auto beside = names + column_gap;
    const auto width = width_.value_or(beside + width_of(value) + 1);
    const bool below = width_ && width < beside + least_prose;
    const auto indent = below ? column_gap : beside;
    if (below) sentence(name);
    std::string before = below ? std::string(indent, ' ') : padded(name, indent, Align::left);
    for (const auto& part : folded(value, width - indent)) {
      add(before + part);
      before = std::string(indent, ' ');
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::optional<std::size_t> width_;
  std::string text_;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

void add_pairs(Lines& lines, const Pairs& pairs) {
  std::size_t names = 0;
  for (const auto& [name, value] : pairs)
    names = std::max(names, width_of(name));
  for (const auto& [name, value] : pairs)
    lines.pair(name, value, names);
}

std::optional<std::size_t> width_for(const TableStyle& style) {
  return style.wide ? std::nullopt : style.terminal.width;
}

class TableWriter {
 public:
  TableWriter(const Table& table, const TableStyle& style)
      : rows_(table.rows.size()), limited_(width_for(style).has_value()), lines_(width_for(style)) {
    std::vector<ColumnShape> shapes;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      columns_.push_back(text_column(table, style, i));
      shapes.push_back(columns_.back().shape);
    }
    arranged_ = arrange(shapes, width_for(style), style.every ? Choice::every : Choice::fit);
  }

  std::string take() {
    if (limited_ && rows_ == 0) return "no rows\n";
    arranged_.vertical ? blocks() : rows();
    return lines_.take();
  }

 private:
  void rows() {
    same_values();
    row([](const TextColumn& column) { return column.title; });
    for (std::size_t i = 0; i < rows_; ++i)
      row([i](const TextColumn& column) { return column.cells[i]; });
    hidden_columns();
  }

  /// Of text that is wider than its column the rest stands on further lines.
  template <class TextOf>
  void row(TextOf&& text_of) {
    const auto& shown = arranged_.shown;
    std::vector<std::vector<std::string>> parts;
    std::size_t height = 1;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      parts.push_back(folded(text_of(columns_[shown[i]]), arranged_.widths[i]));
      height = std::max(height, parts.back().size());
    }
    for (std::size_t at = 0; at < height; ++at) {
      std::string text;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        text += i == 0 ? "" : std::string(column_gap, ' ');
        text += padded(at < parts[i].size() ? parts[i][at] : "", arranged_.widths[i],
            columns_[shown[i]].align);
      }
      lines_.add(std::move(text));
    }
  }

  void same_values() {
    std::string text;
    for (const auto i : arranged_.same)
      text += (text.empty() ? "" : ", ") + columns_[i].title + ' ' + columns_[i].cells.front();
    if (!text.empty()) lines_.sentence((rows_ > 1 ? "same in all rows: " : "") + text);
  }

  void hidden_columns() {
    std::string text;
    for (const auto i : arranged_.hidden)
      text += (text.empty() ? "" : ", ") + columns_[i].title;
    if (!text.empty()) lines_.sentence("not shown: " + text + " (--wide shows all)");
  }

  /// What holds something in each row, with a blank line between rows.
  void blocks() {
    for (std::size_t i = 0; i < rows_; ++i) {
      Pairs pairs;
      for (const auto& column : columns_) {
        if (!column.cells[i].empty()) pairs.emplace_back(column.title, column.cells[i]);
      }
      if (i > 0) lines_.add("");
      add_pairs(lines_, pairs);
    }
  }

  std::vector<TextColumn> columns_;
  std::size_t rows_;
  bool limited_;
  Arrangement arranged_;
  Lines lines_;
};

/// The column that tells what the value is: of (name, value) its name.
std::string_view unit_column(const Table& table, const Row& row, std::size_t column) {
  if (column == 0 || !is_turned(table)) return table.columns[column];
  const auto* name = std::get_if<std::string>(row.data());
  return name != nullptr ? *name : std::string_view();
}

std::string turned_text(const Table& table, const TableStyle& style) {
  Pairs pairs;
  for (const auto& row : table.rows) {
    const auto name = unit_column(table, row, 1);
    const bool utf8 = style.terminal.utf8;
    pairs.emplace_back(
        in_charset(printable(title_of(name)), utf8), in_charset(humanised(name, row[1]), utf8));
  }
  Lines lines(width_for(style));
  add_pairs(lines, pairs);
  return lines.take();
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
    append_text(out, "null");
  }
}

/// Of a column of times a point in time; of any other the value.
Value for_machines(std::string_view column, const Value& value, bool raw) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (raw || integer == nullptr || !is_time(column)) return value;
  if (*integer == 0) return {};
  auto text = utc_text(*integer);
  return text.empty() ? value : Value(std::move(text));
}

void as_csv(fmt::memory_buffer& out, const Table& table, bool raw) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_csv(out, table.columns[i]);
  }
  out.push_back('\n');
  for (const auto& row : table.rows) {
    const auto before = out.size();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out.push_back(',');
      append_value(out, for_machines(unit_column(table, row, i), row[i], raw), Format::csv);
    }
    // A line with nothing on it is no record to many readers: one empty field is written "".
    if (out.size() == before) append_text(out, "\"\"");
    out.push_back('\n');
  }
}

void as_json(fmt::memory_buffer& out, const Table& table, bool raw) {
  out.push_back('[');
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    append_text(out, r == 0 ? "\n{" : ",\n{");
    const auto& row = table.rows[r];
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (i > 0) out.push_back(',');
      append_json(out, table.columns[i]);
      out.push_back(':');
      append_value(out, for_machines(unit_column(table, row, i), row[i], raw), Format::json);
    }
    out.push_back('}');
  }
  append_text(out, table.rows.empty() ? "]\n" : "\n]\n");
}

/// The columns in which something stands.
std::vector<std::size_t> used_columns(const Table& table) {
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool any = std::any_of(table.rows.begin(), table.rows.end(),
        [i](const Row& row) { return !std::holds_alternative<std::monostate>(row[i]); });
    if (any || table.rows.empty()) used.push_back(i);
  }
  return used;
}

void as_markdown(fmt::memory_buffer& out, const Table& table, bool raw) {
  const auto used = used_columns(table);
  const auto line = [&](const auto& cell) {
    out.push_back('|');
    for (const auto column : used) {
      out.push_back(' ');
      cell(column);
      append_text(out, " |");
    }
    out.push_back('\n');
  };
  line([&](std::size_t i) {
    append_markdown(out, printable(raw ? table.columns[i] : title_of(table.columns[i])));
  });
  line([&](std::size_t i) { append_text(out, is_numeric(table, i) ? "---:" : "---"); });
  for (const auto& row : table.rows) {
    line([&](std::size_t i) {
      append_markdown(out, humanised(unit_column(table, row, i), row[i]));
    });
  }
}

}  // namespace

std::optional<Format> format_from(std::string_view word) {
  if (word == "table") return Format::table;
  if (word == "csv") return Format::csv;
  if (word == "json") return Format::json;
  if (word == "markdown") return Format::markdown;
  return std::nullopt;
}

std::string exact(double value) {
  return fmt::format("{}", value);
}

bool is_turned(const Table& table) {
  return table.columns == std::vector<std::string>{"name", "value"};
}

std::string title_of(std::string_view column) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 39> titles{
      {{"tokens_per_s_per_gpu", "tokens/s/GPU"}, {"tokens_per_s", "tokens/s"},
          {"predicted_tokens_per_s_per_gpu", "predicted tokens/s/GPU"},
          {"tflops_per_gpu", "TFLOP/s/GPU"}, {"mfu", "MFU"}, {"gap_share", "ahead by"},
          {"change_share", "change"}, {"slower_share", "slower by"}, {"low_share", "at least"},
          {"high_share", "at most"}, {"noise_share", "noise of a pair"}, {"gpu_hours", "GPU-hours"},
          {"gpu_hours_per_billion_tokens", "GPU-hours per billion tokens"},
          {"behind_share", "behind by"}, {"efficiency_share", "efficiency"},
          {"against_the_fastest", "against the fastest"},
          {"against_the_cheaper", "against the cheaper one"}, {"measured_share", "share measured"},
          {"predicted_share", "share predicted"}, {"repeat_spread", "run spread"},
          {"best_share", "share of the best"}, {"used_share", "share of the time"},
          {"train_step_ms_spread", "train step spread"},
          {"train_step_ms_min", "shortest train step"},
          {"train_step_ms_p95", "train step, 95 % below"}, {"tokens_per_step", "tokens per step"},
          {"n_params", "parameters"}, {"sm_clock_mhz", "SM clock (MHz)"},
          {"cut_short", "cut short"}, {"others_cpu", "CPUs used by others"},
          {"runner_version", "runner version"}, {"flops_model", "FLOPs counted as"},
          {"own_metrics", "also measured"}, {"resolved_hash", "hash of the sweep file"},
          {"exit_code", "exit code"}, {"job_id", "job id"}, {"job_name", "job name"},
          {"job_state", "job state"}, {"end_reason", "reason of the end"}}};
  for (const auto& [name, title] : titles) {
    if (name == column) return std::string(title);
  }
  // The cells have their unit beside them.
  for (const std::string_view ending : {"_bytes", "_ms", "_s", "_at"}) {
    if (!column.ends_with(ending) || column.ends_with("_per_s") || column == ending) continue;
    std::string title(column.substr(0, column.size() - ending.size()));
    std::replace(title.begin(), title.end(), '_', ' ');
    return title;
  }
  return std::string(column);
}

std::string table_text(const Table& table, const TableStyle& style) {
  if (style.format == Format::table) {
    if (is_turned(table)) return turned_text(table, style);
    return TableWriter(table, style).take();
  }
  fmt::memory_buffer out;
  if (style.format == Format::csv) as_csv(out, table, style.raw);
  if (style.format == Format::json) as_json(out, table, style.raw);
  if (style.format == Format::markdown) as_markdown(out, table, style.raw);
  return fmt::to_string(out);
}

std::string table_text(const Table& table, Format format) {
  return table_text(table, TableStyle{.format = format});
}

}  // namespace shardsweep
