// SPDX-License-Identifier: Apache-2.0
#include "show/heatmap_view.hpp"

#include "answer/answer.hpp"
#include "show/cell_text.hpp"
#include "show/pivot.hpp"
#include "show/share_steps.hpp"
#include "show/table_view.hpp"
#include "text/pieces.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr char more_to_run = '+';
constexpr char ranked_otherwise = '*';

// The steps in the 256 colours of xterm. Text on them has a contrast above 5:1.
struct Shade {
  int background;
  int foreground;
};
constexpr int white = 231;
constexpr int black = 16;
constexpr std::array<Shade, most_steps> shades{{{255, black}, {189, black}, {152, black},
    {110, black}, {74, black}, {25, white}, {24, white}, {17, white}}};

/// The codes of a step's background and of the text that can be read on it.
std::string shade(int step, bool truecolour) {
  if (truecolour) {
    const Colour back = step_colour(step);
    const Colour front = readable_on(back);
    return fmt::format("\x1b[48;2;{};{};{};38;2;{};{};{}m", back.red, back.green, back.blue,
        front.red, front.green, front.blue);
  }
  const Shade& found = shades.at(static_cast<std::size_t>(step - 1));
  return fmt::format("\x1b[48;5;{};38;5;{}m", found.background, found.foreground);
}

/// First line of a cell: value, else status by its mark; a word where outcomes are asked for.
std::string first_line(const Heatmap& heatmap, const HeatmapCell& cell) {
  std::string text;
  if (heatmap.value_name == "outcome") {
    text = cell.status == "none" ? "" : std::string(cell.status);
  } else if (is_measured(cell)) {
    text = cell.value ? value_text(heatmap, *cell.value) : "n/a";
  } else if (cell.predicted) {
    text = fmt::format("({}) {}", value_text(heatmap, *cell.predicted), cell.mark);
  } else {
    text = std::string(1, cell.mark);
  }
  if (is_measured(cell) && cell.open > 0) text += fmt::format(" {}", more_to_run);
  if (!cell.published_layout.empty()) text += fmt::format(" {}", ranked_otherwise);
  return text;
}

std::string label(const std::string& name, const std::string& value) {
  return printable(fmt::format("{}={}", name, value));
}

constexpr std::size_t blanks_of_cell = 2;  ///< a blank on either side

/// Neighbouring columns, as many as fit beside each other.
struct Block {
  std::size_t first = 0;
  std::vector<std::size_t> widths;
};

struct Grid {
  std::size_t labels = 0;  ///< width of the rows' labels
  std::vector<Block> blocks;
  std::vector<std::vector<int>> steps;  ///< step of each cell's colour; 0: no colour
  Terminal terminal;
};

std::size_t width_of_labels(const Heatmap& heatmap) {
  auto width = width_of(printable(heatmap.row_name));
  for (const auto& row : heatmap.rows)
    width = std::max(width, width_of(printable(row)));
  return width;
}

/// A word of a reason is not broken; a long reason folds at its blanks.
std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    longest = std::max(longest, width_of(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

std::size_t column_width(const Heatmap& heatmap, std::size_t column) {
  auto width = width_of(label(heatmap.column_name, heatmap.columns[column]));
  for (const auto& row : heatmap.cells) {
    width = std::max(width, width_of(first_line(heatmap, row[column])));
    width = std::max(width, width_of(printable(layout_of(heatmap, row[column]))));
    width = std::max(width, longest_word(printable(rule_of(row[column]))));
  }
  return width;
}

Grid grid_of(const Heatmap& heatmap, const Terminal& terminal) {
  constexpr std::size_t least_cell = 8;
  Grid grid{width_of_labels(heatmap), {}, steps_of(heatmap), terminal};
  if (terminal.width) {
    const auto most = *terminal.width - least_cell - blanks_of_cell - 1;
    grid.labels = std::min(grid.labels, most);
  }
  std::size_t used = 0;
  for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
    auto width = column_width(heatmap, c);
    if (terminal.width) width = std::min(width, *terminal.width - grid.labels - 1 - blanks_of_cell);
    const auto more = width + blanks_of_cell;
    if (c == 0 || (terminal.width && used + more > *terminal.width)) {
      grid.blocks.push_back({c, {}});
      used = grid.labels + 1;
    }
    grid.blocks.back().widths.push_back(width);
    used += more;
  }
  return grid;
}

/// A cell's text, in its colour and with a blank on either side.
std::string painted(const Terminal& terminal, int step, const std::string& text) {
  if (!terminal.colour) return " " + text + " ";
  const auto codes = step > 0 ? shade(step, terminal.truecolour) : "\x1b[2m";
  return fmt::format("{} {} \x1b[0m", codes, text);
}

void append_trimmed(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

/// Lines of a cell's text.
std::vector<std::string> lines_of(
    const Heatmap& heatmap, const HeatmapCell& cell, std::size_t width) {
  auto lines = folded(first_line(heatmap, cell), width);
  const bool asks_outcome = heatmap.value_name == "outcome";
  for (const auto& text : {layout_of(heatmap, cell),
           asks_outcome ? std::string() : certainty_text(cell), rule_of(cell)}) {
    if (text.empty()) continue;
    for (auto& part : folded(printable(text), width))
      lines.push_back(std::move(part));
  }
  return lines;
}

void append_row(std::string& out, const Heatmap& heatmap, const Grid& grid, const Block& block,
    std::size_t row) {
  const auto names = folded(printable(heatmap.rows[row]), grid.labels);
  std::size_t height = names.size();
  std::vector<std::vector<std::string>> cells;
  for (std::size_t i = 0; i < block.widths.size(); ++i) {
    cells.push_back(lines_of(heatmap, heatmap.cells[row][block.first + i], block.widths[i]));
    height = std::max(height, cells.back().size());
  }
  for (std::size_t at = 0; at < height; ++at) {
    std::string line = padded(at < names.size() ? names[at] : "", grid.labels, Align::left) + ' ';
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto text =
          padded(at < cells[i].size() ? cells[i][at] : "", block.widths[i], Align::left);
      line += painted(grid.terminal, grid.steps[row][block.first + i], text);
    }
    append_trimmed(out, line);
  }
}

void append_header(std::string& out, const Heatmap& heatmap, const Grid& grid, const Block& block) {
  std::string line =
      padded(folded(printable(heatmap.row_name), grid.labels).front(), grid.labels, Align::left) +
      ' ';
  for (std::size_t i = 0; i < block.widths.size(); ++i) {
    const auto text = label(heatmap.column_name, heatmap.columns[block.first + i]);
    line += ' ' + padded(folded(text, block.widths[i]).front(), block.widths[i], Align::left) + ' ';
  }
  append_trimmed(out, line);
}

/// The cells where an imported table's own ranking has another winner.
void append_published(std::string& out, const Heatmap& heatmap) {
  bool first = true;
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto& cell = heatmap.cells[r][c];
      if (cell.published_layout.empty()) continue;
      if (std::exchange(first, false)) {
        out +=
            fmt::format("{}  the table's MFU column prefers another layout:\n", ranked_otherwise);
      }
      out += fmt::format("   {} {}: {}\n", label(heatmap.row_name, heatmap.rows[r]),
          label(heatmap.column_name, heatmap.columns[c]), printable(published_text(cell)));
    }
  }
}

/// Statuses and marks in the cells that the legend explains.
struct LegendMarks {
  std::map<std::string_view, char> statuses;
  bool more = false;
  bool without_value = false;
  bool predicted = false;
};

LegendMarks legend_marks_of(const Heatmap& heatmap) {
  LegendMarks found;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (is_measured(cell)) {
        found.more = found.more || cell.open > 0;
        found.without_value = found.without_value || !cell.value;
      } else if (cell.status != "none") {
        found.statuses[cell.status] = cell.mark;
        found.predicted = found.predicted || cell.predicted;
      }
    }
  }
  return found;
}

void append_legend(std::string& out, const Heatmap& heatmap) {
  const auto [statuses, more, without_value, predicted] = legend_marks_of(heatmap);
  const bool words = heatmap.value_name == "outcome";
  for (const auto& [status, mark] : statuses)
    out += words ? fmt::format("{}: {}\n", status, cell_meaning(status))
                 : fmt::format("{}  {}: {}\n", mark, status, cell_meaning(status));
  if (predicted && !words) out += "(12)  predicted, not measured\n";
  if (const auto* cell = most_certain(heatmap); cell != nullptr && !words)
    out += certainty_meaning(*cell) + '\n';
  if (without_value && !words)
    out += fmt::format("n/a  measured, but without {}{}\n", heatmap.value_name,
        heatmap.value_name == "mfu" ? ": it needs peak_flops of the cluster" : "");
  if (more) out += fmt::format("{}  this cell has trials that have not run yet\n", more_to_run);
}

/// Bar of the colours with their values, as in the legend of a picture.
std::string colour_bar(const Heatmap& heatmap, const Terminal& terminal) {
  const auto scale = colour_scale(heatmap);
  if (!terminal.colour || !scale.any || heatmap.value_name == "outcome") return {};
  const bool rows = by_row(heatmap);
  std::string bar;
  for (int step = most_steps; step > 0; --step)
    bar += painted(terminal, step, rows ? step_name(step) : "");
  return rows ? fmt::format("at least this share of the row's best:\n{}\n", bar)
              : fmt::format("{} {} {}\n", value_text(heatmap, scale.high), bar,
                    value_text(heatmap, scale.low));
}

constexpr std::size_t legend_indent = 3;

std::string as_grid(const Heatmap& heatmap, const Terminal& terminal) {
  if (heatmap.rows.empty()) return "no trials\n";
  const auto grid = grid_of(heatmap, terminal);
  std::string out = fold_lines(heatmap_title(heatmap) + '\n', terminal.width);
  for (const auto& block : grid.blocks) {
    if (block.first > 0) out += '\n';
    append_header(out, heatmap, grid, block);
    for (std::size_t row = 0; row < heatmap.rows.size(); ++row)
      append_row(out, heatmap, grid, block, row);
  }
  std::string below;
  append_legend(below, heatmap);
  append_published(below, heatmap);
  if (!heatmap.runners.empty()) below += printable(runners_text(heatmap)) + '\n';
  return in_charset(
      out + colour_bar(heatmap, terminal) + fold_lines(below, terminal.width, legend_indent),
      terminal.utf8);
}

}  // namespace

std::string heatmap_text(const std::vector<Heatmap>& heatmaps, const HeatmapText& how) {
  if (how.format == Format::table) {
    const auto text = join_texts(
        heatmaps, "\n", [&](const Heatmap& heatmap) { return as_grid(heatmap, how.terminal); });
    return text.empty() ? as_grid({}, how.terminal) : text;
  }
  const bool matrix = how.format == Format::csv && !how.list;
  Table table;
  for (const auto& heatmap : heatmaps)
    append_table(table, matrix ? heatmap_matrix(heatmap) : heatmap_list(heatmap));
  return table_text(table, how.format);
}

std::string heatmap_text(const Heatmap& heatmap, const HeatmapText& how) {
  return heatmap_text(std::vector{heatmap}, how);
}

namespace {

/// A label as a value: a number where it is one.
Value label_value(const std::string& text) {
  std::int64_t integer = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, integer);
  if (read.ec == std::errc() && read.ptr == end && std::to_string(integer) == text) return integer;
  return text;
}

Value matrix_value(const Heatmap& heatmap, const HeatmapCell& cell) {
  if (cell.status == "none") return std::monostate{};
  if (heatmap.value_name != "outcome" && cell.value) return *cell.value;
  return std::string(cell.status);
}

bool is_ranked_otherwise(const Heatmap& heatmap) {
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (!cell.published_layout.empty()) return true;
    }
  }
  return false;
}

void add_published(std::vector<Value>& row, const HeatmapCell& cell) {
  if (cell.published_layout.empty()) {
    row.resize(row.size() + 3);
    return;
  }
  row.emplace_back(cell.published_layout);
  row.emplace_back(cell.published_tokens_per_s_per_gpu);
  row.emplace_back(cell.published_by.empty() ? Value() : Value(cell.published_by));
}

Value word_or_null(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}

Value number_or_null(const std::optional<double>& number) {
  return number ? Value(*number) : Value();
}

Table with_facet(const Heatmap& heatmap, Table table) {
  if (heatmap.facet_name.empty()) return table;
  table.columns.insert(table.columns.begin(), heatmap.facet_name);
  for (auto& row : table.rows)
    row.insert(row.begin(), heatmap.facet_value);
  return table;
}

}  // namespace

Table heatmap_matrix(const Heatmap& heatmap) {
  Table table;
  table.note = heatmap.note;
  table.columns.push_back(heatmap.row_name);
  for (const auto& column : heatmap.columns)
    table.columns.push_back(fmt::format("{}={}", heatmap.column_name, column));
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    auto& row = table.rows.emplace_back();
    row.push_back(label_value(heatmap.rows[r]));
    for (const auto& cell : heatmap.cells[r])
      row.push_back(matrix_value(heatmap, cell));
  }
  return with_facet(heatmap, std::move(table));
}

namespace {

/// lead_share, runner_up, repeats and repeat_spread of a cell.
std::vector<Value> ranking_of(const CellAnswer& answer) {
  const auto* first = answer.winner();
  const auto* second = answer.runner_up();
  if (first == nullptr) return {Value(), Value(), std::int64_t{0}, Value()};
  return {number_or_null(lead_of(answer)), second == nullptr ? Value() : Value(second->name),
      static_cast<std::int64_t>(first->runs.size()), number_or_null(first->spread)};
}

/// How sure the answer is: verdict, verdict_reason, certainty, doubts and to_settle.
void add_verdict(std::vector<Value>& row, const CellAnswer& answer) {
  const bool compared = answer.runner_up() != nullptr;
  const auto& verdict = compared ? answer.winner()->verdict : SpeedVerdict();
  row.push_back(compared ? Value(std::string(word_of(verdict.difference))) : Value());
  row.push_back(compared ? word_or_null(verdict.reason) : Value());
  row.push_back(word_or_null(certainty_text(answer)));
  row.push_back(word_or_null(doubts_text(answer)));
  row.push_back(word_or_null(answer.settling.text));
}

}  // namespace

Table heatmap_list(const Heatmap& heatmap) {
  const bool outcome = heatmap.value_name == "outcome";
  Table table;
  table.note = heatmap.note;
  table.columns = {heatmap.row_name, heatmap.column_name, heatmap.value_name, "layout", "status",
      "trials", "completed", "open", "infeasible", "lead_share", "runner_up", "repeats",
      "repeat_spread", "predicted", "predicted_layout", "why"};
  const bool published = is_ranked_otherwise(heatmap);
  if (published) {
    table.columns.emplace_back("published_layout");
    table.columns.emplace_back("published_tokens_per_s_per_gpu");
    table.columns.emplace_back("published_by");
  }
  table.columns.insert(
      table.columns.end(), {"verdict", "verdict_reason", "certainty", "doubts", "to_settle"});
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto& cell = heatmap.cells[r][c];
      Value value;
      if (outcome && outcome_from(cell.status)) value = std::string(cell.status);
      if (!outcome && cell.value) value = *cell.value;
      table.rows.push_back({label_value(heatmap.rows[r]), label_value(heatmap.columns[c]), value,
          word_or_null(cell.layout), std::string(cell.status), cell.trials, cell.completed,
          cell.open, cell.infeasible});
      auto& row = table.rows.back();
      const auto ranking = ranking_of(cell.answer);
      row.insert(row.end(), ranking.begin(), ranking.end());
      row.insert(row.end(),
          {number_or_null(cell.predicted), word_or_null(cell.predicted_layout),
              word_or_null(cell.why)});
      if (published) add_published(row, cell);
      add_verdict(row, cell.answer);
    }
  }
  return with_facet(heatmap, std::move(table));
}

void append_table(Table& table, Table more) {
  if (table.columns.empty()) {
    table = std::move(more);
    return;
  }
  std::vector<std::size_t> places;
  for (auto& column : more.columns) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), column);
    places.push_back(static_cast<std::size_t>(found - table.columns.begin()));
    if (found == table.columns.end()) table.columns.push_back(std::move(column));
  }
  for (auto& row : table.rows)
    row.resize(table.columns.size());
  for (auto& row : more.rows) {
    auto& placed = table.rows.emplace_back(table.columns.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      placed[places[i]] = std::move(row[i]);
  }
}

}  // namespace shardsweep
