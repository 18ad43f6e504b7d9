// SPDX-License-Identifier: Apache-2.0
#include "show/table_view.hpp"

#include "show/arrange.hpp"
#include "show/cell_text.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <shardsweep/point.hpp>
#include <shardsweep/result_columns.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

// How much a column is worth to somebody who reads a table. A terminal that is too narrow for a
// whole table shows the columns of most worth; all tables share one order. Pure.
// Decision: The answer comes first, then what tells rows of one table apart, then how sure the
// answer is, what it costs, and last how it came about. A column that is equal in all rows
// takes no room at all (show/arrange), so a table over one model loses nothing by `model`. The
// order is one of all tables, but of one table only its rows tell which column they need: one
// without which two of them would read alike comes before the rest (show/table_view).

constexpr std::array<std::string_view, 43> order{// The answer.
    "layout", "outcome", "tokens_per_s_per_gpu", "change_share", "first_tokens_per_s_per_gpu",
    "second_tokens_per_s_per_gpu",
    // The row's cell.
    "model", "gpus", "nodes", "cluster", "seq_len",
    // How sure it is.
    "certainty", "against_the_fastest", "against_the_cheaper", "reason", "mark", "state",
    // Costs, and the lead that they buy.
    "train_step_ms", "peak_memory_bytes", "mfu", "tokens_per_s", "efficiency_share",
    "gpu_hours_per_billion_tokens", "lead_share", "behind_share", "doubts", "to_settle", "verdict",
    // How it came about.
    "runner_up", "repeats", "measured", "repeat_spread", "train_step_ms_spread", "cause",
    "runner_up_runs", "runner_up_spread", "verdict_reason", "trial", "sweep", "software", "runner",
    "runner_version", "profile"};

/// Place in the order of worth, 0 being the first to stay; columns_of_worth(): the column is
/// not in it, and stands behind those that are.
std::size_t worth_of(std::string_view column) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), column) - order.begin());
}

std::size_t columns_of_worth() {
  return order.size();
}

/// True if the column says what a row is of, rather than what came out.
bool names_rows(std::string_view column) {
  constexpr std::array<std::string_view, 14> names{"model", "seq_len", "nodes", "gpus", "cluster",
      "vars", "layout", "profile", "runner", "runner_version", "sweep", "trial", "attempt", "node"};
  return find_axis(column) != nullptr ||
      std::find(names.begin(), names.end(), column) != names.end();
}

/// True if the column's values are sentences, which may go over several lines of a row.
bool is_prose(std::string_view column) {
  constexpr std::array<std::string_view, 18> names{"certainty", "cause", "also", "detail", "doubts",
      "reason", "last_evidence", "example", "facts", "e.g.", "why", "rule", "advice", "finding",
      "skipped_by", "to_settle", "against_the_cheaper", "against_the_fastest"};
  return std::find(names.begin(), names.end(), column) != names.end();
}

constexpr std::size_t least_rows_alike = 3;  ///< rows from which on equal figures are no chance
constexpr std::size_t least_prose = 20;      ///< columns that folded sentences can be read in
constexpr std::size_t flush_size = std::size_t{64} * 1024;

/// True if the column has values and all of them are numbers.
bool is_numeric(const Table& table, std::size_t column) {
  bool any = false;
  for (const auto& row : table.rows) {
    if (std::holds_alternative<std::monostate>(row[column])) continue;
    if (!is_number(row[column])) return false;
    any = true;
  }
  return any;
}

std::size_t rank_of(const TableStyle& style, std::string_view name, std::size_t place) {
  const auto& important = style.important;
  const auto found = std::find(important.begin(), important.end(), name);
  if (found != important.end()) return static_cast<std::size_t>(found - important.begin());
  if (important.empty() && place == 0) return 0;
  const auto worth = worth_of(name);
  return important.size() + worth + (worth < columns_of_worth() ? 0 : place);
}

/// True if a column is equal in few rows on purpose.
bool is_setting(std::string_view column) {
  return find_axis(column) != nullptr || column == "profile" || column == "runner" ||
      column == "runner_version" || column == "sweep";
}

ColumnShape shape_of(
    const TextColumn& column, std::size_t place, std::size_t rows, const TableStyle& style) {
  std::size_t cells = 0;
  ColumnShape shape{.width = width_of(column.title), .rank = rank_of(style, column.name, place)};
  // Figures of a few rows may be equal by chance, but equal settings are so on purpose.
  const bool may_be_same = rows >= least_rows_alike || (shape.rank > 0 && is_setting(column.name));
  const auto first = rows > 0 ? column.text(0) : std::string();
  shape.constant = rows > 0;
  shape.empty = rows > 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto cell = column.text(row);
    cells = std::max(cells, width_of(cell));
    shape.constant = shape.constant && cell == first;
    shape.empty = shape.empty && cell.empty();
  }
  shape.same = may_be_same && shape.constant;
  shape.width = std::max(shape.width, cells);
  const bool folds = is_prose(column.name) || shape.rank == 0;
  shape.least = folds ? std::min(shape.width, least_prose) : shape.width;
  if (column.title_folds) {
    for (const auto word : split(column.title, ' '))
      cells = std::max(cells, width_of(word));
    shape.least = std::min(shape.least, cells);
  }
  return shape;
}

std::optional<std::size_t> width_for(const TableStyle& style) {
  if (style.wide) return std::nullopt;
  return style.terminal.width || style.every ? style.terminal.width : style.usual_width;
}

/// Arranges columns so that no two rows read alike that differ.
class Arranger {
 public:
  Arranger(const std::vector<TextColumn>& columns, std::vector<ColumnShape> shapes,
      std::size_t rows, const TableStyle& style)
      : columns_(columns),
        shapes_(std::move(shapes)),
        rows_(rows),
        style_(style),
        width_(width_for(style)),
        choice_(style.every ? Choice::every : Choice::fit),
        arranged_(arrange(shapes_, width_, choice_)) {}

  [[nodiscard]] Arrangement arranged() {
    if (is_complete()) return arranged_;
    move_constants();
    tell_apart(true);
    tell_apart(false);
    return arranged_;
  }

 private:
  [[nodiscard]] bool is_complete() const {
    return rows_ < 2 || arranged_.vertical || arranged_.hidden.empty();
  }

  /// Moves columns that are the same in all rows above the table: they take the room of those that
  /// differ.
  void move_constants() {
    auto shapes = shapes_;
    for (auto& shape : shapes)
      shape.same = shape.constant;
    auto moved = arrange(shapes, width_, choice_);
    if (moved.vertical || moved.shown.size() < 2) return;
    shapes_ = std::move(shapes);
    arranged_ = std::move(moved);
  }

  /// Brings hidden columns forward until those that are shown tell as many rows apart as all do.
  /// `named`: by what rows are of, as two of them may have equal figures by chance.
  void tell_apart(bool named) {
    const auto counts = [&](std::size_t column) {
      const auto& name = columns_[column].name;
      return !named || names_rows(name) ||
          std::find(style_.names.begin(), style_.names.end(), name) != style_.names.end();
    };
    while (!is_complete()) {
      std::vector<std::size_t> keys(rows_, 0);
      for (const auto column : arranged_.shown)
        if (counts(column)) add(column, keys);
      auto hidden = arranged_.hidden;
      std::stable_sort(hidden.begin(), hidden.end(),
          [&](std::size_t a, std::size_t b) { return shapes_[a].rank < shapes_[b].rank; });
      const auto told = distinct(keys);
      const auto needed = std::find_if(hidden.begin(), hidden.end(), [&](std::size_t column) {
        if (!counts(column)) return false;
        auto with = keys;
        add(column, with);
        return distinct(std::move(with)) > told;
      });
      if (needed == hidden.end()) return;
      bring_forward(*needed);
    }
  }

  /// Moves a column behind the name of a row and the columns moved before it. A long column folds.
  void bring_forward(std::size_t column) {
    ++forward_;
    for (auto& shape : shapes_)
      if (shape.rank >= forward_) ++shape.rank;
    auto& shape = shapes_[column];
    shape.rank = forward_;
    shape.least = std::min(shape.width, least_prose);
    arranged_ = arrange(shapes_, width_, choice_);
    const auto& hidden = arranged_.hidden;
    if (std::find(hidden.begin(), hidden.end(), column) != hidden.end())
      arranged_ = arrange(shapes_, width_, Choice::every);  // blocks, as lines have no room for it
  }

  void add(std::size_t column, std::vector<std::size_t>& keys) const {
    constexpr std::size_t spread = 1'000'003;
    for (std::size_t row = 0; row < rows_; ++row)
      keys[row] = keys[row] * spread + std::hash<std::string>()(columns_[column].text(row));
  }

  static std::size_t distinct(std::vector<std::size_t> keys) {
    std::sort(keys.begin(), keys.end());
    return static_cast<std::size_t>(std::unique(keys.begin(), keys.end()) - keys.begin());
  }

  const std::vector<TextColumn>& columns_;
  std::vector<ColumnShape> shapes_;
  std::size_t rows_;
  const TableStyle& style_;
  std::optional<std::size_t> width_;
  Choice choice_;
  Arrangement arranged_;
  std::size_t forward_ = 0;  ///< rank of the last column that was brought forward
};

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

  std::string take() { return std::exchange(text_, {}); }

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

class TableWriter {
 public:
  TableWriter(fmt::memory_buffer& out, std::vector<TextColumn> columns, std::size_t rows,
      const TableStyle& style, const Flush& flush)
      : out_(out),
        columns_(std::move(columns)),
        rows_(rows),
        limited_(width_for(style).has_value()),
        lines_(width_for(style)),
        flush_(flush) {
    std::vector<ColumnShape> shapes;
    for (auto& column : columns_) {
      const bool utf8 = style.terminal.utf8;
      column.title = in_charset(printable(column.title), utf8);
      column.text = [text = std::move(column.text), utf8](
                        std::size_t row) { return in_charset(text(row), utf8); };
      shapes.push_back(shape_of(column, shapes.size(), rows, style));
    }
    arranged_ = Arranger(columns_, std::move(shapes), rows, style).arranged();
  }

  void write() {
    if (limited_ && rows_ == 0) return append_text(out_, "no rows\n");
    arranged_.vertical ? blocks() : rows();
    append_text(out_, lines_.take());
  }

 private:
  void rows() {
    same_values();
    row([](const TextColumn& column) { return column.title; });
    for (std::size_t i = 0; i < rows_; ++i) {
      row([i](const TextColumn& column) { return column.text(i); });
      flush_some();
    }
    hidden_columns();
  }

  void flush_some() {
    append_text(out_, lines_.take());
    if (flush_ && out_.size() > flush_size) flush_(out_);
  }

  /// Writes a row. A text that is wider than its column goes on in further lines.
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
      text += (text.empty() ? "" : ", ") + columns_[i].title + ' ' + columns_[i].text(0);
    if (!text.empty()) lines_.sentence((rows_ > 1 ? "same in all rows: " : "") + text);
  }

  void hidden_columns() {
    std::string text;
    for (const auto i : arranged_.hidden)
      text += (text.empty() ? "" : ", ") + columns_[i].title;
    if (!text.empty()) lines_.sentence("not shown: " + text + " (--wide shows all)");
  }

  /// Writes each row as a block of the columns that hold something, with a blank line between rows.
  void blocks() {
    for (std::size_t i = 0; i < rows_; ++i) {
      Pairs pairs;
      for (const auto& column : columns_) {
        if (auto text = column.text(i); !text.empty())
          pairs.emplace_back(column.title, std::move(text));
      }
      if (i > 0) lines_.add("");
      add_pairs(lines_, pairs);
      flush_some();
    }
  }

  fmt::memory_buffer& out_;
  std::vector<TextColumn> columns_;
  std::size_t rows_;
  bool limited_;
  Arrangement arranged_;
  Lines lines_;
  const Flush& flush_;
};

bool is_turned(const std::vector<std::string>& columns) {
  return columns.size() == 2 && columns[0] == "name" && columns[1] == "value";
}

}  // namespace

std::string_view unit_column(
    const std::vector<std::string>& columns, std::span<const Value> row, std::size_t column) {
  if (column == 0 || !is_turned(columns)) return columns[column];
  const auto* name = std::get_if<std::string>(row.data());
  return name != nullptr ? *name : std::string_view();
}

namespace {

std::string turned_text(const Table& table, const TableStyle& style) {
  Pairs pairs;
  for (const auto& row : table.rows) {
    const auto name = unit_column(table.columns, row, 1);
    const bool utf8 = style.terminal.utf8;
    pairs.emplace_back(
        in_charset(printable(title_of(name)), utf8), in_charset(humanised(name, row[1]), utf8));
  }
  Lines lines(width_for(style));
  add_pairs(lines, pairs);
  return lines.take();
}

std::vector<TextColumn> text_columns(const Table& table, const TableStyle& style) {
  std::vector<TextColumn> columns;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const auto& name = table.columns[i];
    const auto title = style.titles.find(name);
    const bool own = title != style.titles.end();
    columns.push_back({name,
        own             ? title->second
            : style.raw ? name
                        : title_of(name),
        is_numeric(table, i) ? Align::right : Align::left,
        [&table, i](std::size_t row) {
          const auto& cells = table.rows[row];
          return humanised(unit_column(table.columns, cells, i), cells[i]);
        },
        own});
  }
  return columns;
}

void write_markdown(fmt::memory_buffer& out, std::vector<TextColumn> columns, std::size_t rows,
    const Flush& flush) {
  std::erase_if(columns, [rows](const TextColumn& column) {
    std::size_t row = 0;
    while (row < rows && column.text(row).empty())
      ++row;
    return row == rows && rows > 0;
  });
  const auto line = [&](auto&& cell) {
    out.push_back('|');
    for (const auto& column : columns) {
      out.push_back(' ');
      cell(column);
      append_text(out, " |");
    }
    out.push_back('\n');
  };
  line([&](const TextColumn& column) { append_markdown(out, printable(column.title)); });
  line([&](const TextColumn& column) {
    append_text(out, column.align == Align::right ? "---:" : "---");
  });
  for (std::size_t row = 0; row < rows; ++row) {
    line([&](const TextColumn& column) { append_markdown(out, column.text(row)); });
    if (flush && out.size() > flush_size) flush(out);
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

RecordWriter::RecordWriter(fmt::memory_buffer& out, Format format, std::vector<std::string> columns,
    const Flush& flush, bool raw)
    : out_(out),
      json_(format == Format::json),
      raw_(raw),
      columns_(std::move(columns)),
      flush_(flush) {
  for (const auto& name : columns_) {
    fmt::memory_buffer text;
    if (!heads_.empty()) text.push_back(',');
    json_ ? append_json(text, name) : append_csv(text, name);
    if (json_) text.push_back(':');
    heads_.push_back(fmt::to_string(text));
    if (!json_) append_text(out_, heads_.back());
  }
  out_.push_back(json_ ? '[' : '\n');
}

void RecordWriter::row(std::span<const Value> row) {
  if (json_) append_text(out_, std::exchange(any_, true) ? ",\n{" : "\n{");
  const auto before = out_.size();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (json_) append_text(out_, heads_[i]);
    if (!json_ && i > 0) out_.push_back(',');
    value(unit_column(columns_, row, i), row[i]);
  }
  // A line with nothing on it is no record to many readers: one empty field is written "".
  if (!json_ && out_.size() == before) append_text(out_, "\"\"");
  out_.push_back(json_ ? '}' : '\n');
  if (flush_ && out_.size() > flush_size) flush_(out_);
}

void RecordWriter::value(std::string_view column, const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    const bool time = !raw_ && is_time(column);
    const auto point = time ? *integer == 0 ? std::string() : utc_text(*integer) : "";
    if (!point.empty()) {
      json_ ? append_json(out_, point) : append_csv(out_, point);
    } else if (!time || *integer != 0) {
      fmt::format_to(std::back_inserter(out_), "{}", *integer);
    } else if (json_) {
      append_text(out_, "null");
    }
  } else if (const auto* real = std::get_if<double>(&value); real != nullptr) {
    if (json_ && !std::isfinite(*real)) return append_text(out_, "null");
    fmt::format_to(std::back_inserter(out_), "{}", *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    json_ ? append_json(out_, *text) : append_csv(out_, *text);
  } else if (json_) {
    append_text(out_, "null");
  }
}

void RecordWriter::end() {
  if (json_) append_text(out_, any_ ? "\n]" : "]");
}

bool is_turned(const Table& table) {
  return is_turned(table.columns);
}

namespace {

/// A column that a view has named. Axes and vars are words of sweep files, as users type them.
bool is_own_name(std::string_view column) {
  const auto is_it = [column](const ViewColumn& one) { return one.name == column; };
  return find_axis(column) == nullptr &&
      (worth_of(column) < columns_of_worth() || is_prose(column) ||
          std::any_of(result_columns.begin(), result_columns.end(), is_it) ||
          std::any_of(node_columns.begin(), node_columns.end(), is_it));
}

}  // namespace

std::string title_of(std::string_view column) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 50> titles{
      {{"tokens_per_s_per_gpu", "tokens/s/GPU"}, {"tokens_per_s", "tokens/s"},
          {"predicted_tokens_per_s_per_gpu", "predicted tokens/s/GPU"},
          {"tflops_per_gpu", "TFLOP/s/GPU"}, {"mfu", "MFU"}, {"lead_share", "lead"},
          {"second_winner_lead_share", "lead of the second winner"}, {"change_share", "change"},
          {"slower_share", "slower by"}, {"low_share", "at least"}, {"high_share", "at most"},
          {"noise_share", "noise of a pair"}, {"gpu_hours", "GPU-hours"},
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
          {"job_state", "job state"}, {"end_reason", "reason of the end"},
          {"constraint_name", "constraint"}, {"first_tokens_per_s_per_gpu", "first tokens/s/GPU"},
          {"second_tokens_per_s_per_gpu", "second tokens/s/GPU"}, {"first_loss", "first loss"},
          {"last_loss", "last loss"}, {"first_repeats", "first repeats"},
          {"second_repeats", "second repeats"}, {"best_layout", "best layout"},
          {"one_gpu", "on one GPU"}, {"step_ms", "train step"}}};
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
  std::string title(column);
  if (is_own_name(column)) std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

void write_columns(fmt::memory_buffer& out, std::vector<TextColumn> columns, std::size_t rows,
    const TableStyle& style, const Flush& flush) {
  if (style.format == Format::markdown) return write_markdown(out, std::move(columns), rows, flush);
  TableWriter(out, std::move(columns), rows, style, flush).write();
}

std::string table_text(const Table& table, const TableStyle& style) {
  fmt::memory_buffer out;
  if (is_for_people(style.format)) {
    if (style.format == Format::table && is_turned(table)) return turned_text(table, style);
    write_columns(out, text_columns(table, style), table.rows.size(), style);
    return fmt::to_string(out);
  }
  RecordWriter records(out, style.format, table.columns, {}, style.raw);
  for (const auto& row : table.rows)
    records.row(row);
  records.end();
  if (style.format == Format::json) out.push_back('\n');
  return fmt::to_string(out);
}

std::string table_text(const Table& table, Format format) {
  return table_text(table, TableStyle{.format = format});
}

}  // namespace shardsweep
