// SPDX-License-Identifier: Apache-2.0
#include "show/heatmap_view.hpp"

#include "show/cell_text.hpp"
#include "show/table_view.hpp"
#include "text/numbers.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {
namespace {

constexpr char more_to_run = '+';
constexpr char ranked_otherwise = '*';

// Viridis in the 256 colours of xterm: lightness grows from step to step, also for those who do
// not see red and green. Text is white on the two dark ones, else black: contrast above 5:1.
struct Shade {
  int background;
  int foreground;
};
constexpr int white = 231;
constexpr int black = 16;
constexpr std::array<Shade, 6> ramp{
    {{53, white}, {24, white}, {31, black}, {36, black}, {113, black}, {220, black}}};

struct Scale {
  double low = 0;
  double high = 0;
  [[nodiscard]] const Shade& of(double value) const {
    if (!(high > low)) return ramp.back();
    const auto place = (value - low) / (high - low) * static_cast<double>(ramp.size());
    return ramp[std::min(static_cast<std::size_t>(std::max(place, 0.0)), ramp.size() - 1)];
  }
};

Scale scale_of(const Heatmap& heatmap) {
  bool any = false;
  Scale scale;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (!cell.value || !std::isfinite(*cell.value)) continue;
      scale.low = any ? std::min(scale.low, *cell.value) : *cell.value;
      scale.high = any ? std::max(scale.high, *cell.value) : *cell.value;
      any = true;
    }
  }
  return scale;
}

bool is_measured(const HeatmapCell& cell) {
  return cell.status == name(Outcome::completed);
}

/// First line of a cell: value, else status by its mark; a word where outcomes are asked for.
std::string first_line(const Heatmap& heatmap, const HeatmapCell& cell) {
  std::string text;
  if (heatmap.value_name == "outcome") {
    text = cell.status == "none" ? "" : std::string(cell.status);
  } else if (is_measured(cell)) {
    text = cell.value ? humanised(heatmap.value_name, *cell.value) : "n/a";
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

constexpr std::size_t blanks_of_cell = 2;  ///< one on either side

/// Some of the columns, as many as stand beside each other.
struct Block {
  std::size_t first = 0;
  std::vector<std::size_t> widths;
};

struct Grid {
  std::size_t labels = 0;  ///< width of the rows' labels
  std::vector<Block> blocks;
  Scale scale;
  Terminal terminal;
};

std::size_t width_of_labels(const Heatmap& heatmap) {
  auto width = width_of(printable(heatmap.row_name));
  for (const auto& row : heatmap.rows)
    width = std::max(width, width_of(printable(row)));
  return width;
}

std::size_t column_width(const Heatmap& heatmap, std::size_t column) {
  auto width = width_of(label(heatmap.column_name, heatmap.columns[column]));
  for (const auto& row : heatmap.cells) {
    width = std::max(width, width_of(first_line(heatmap, row[column])));
    width = std::max(width, width_of(printable(row[column].layout)));
  }
  return width;
}

Grid grid_of(const Heatmap& heatmap, const Terminal& terminal) {
  constexpr std::size_t least_cell = 8;
  Grid grid{width_of_labels(heatmap), {}, scale_of(heatmap), terminal};
  if (terminal.width) {
    const auto most = *terminal.width - least_cell - blanks_of_cell - 1;
    grid.labels = std::min(grid.labels, most);
  }
  std::size_t used = 0;
  for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
    auto width = column_width(heatmap, c);
    if (terminal.width)
      width = std::min(width, *terminal.width - grid.labels - 1 - blanks_of_cell);
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
std::string painted(const Grid& grid, const HeatmapCell& cell, const std::string& text) {
  if (!grid.terminal.colour) return " " + text + " ";
  if (cell.value && std::isfinite(*cell.value)) {
    const auto& shade = grid.scale.of(*cell.value);
    return fmt::format("\x1b[48;5;{};38;5;{}m {} \x1b[0m", shade.background, shade.foreground,
                       text);
  }
  return fmt::format("\x1b[2m {} \x1b[0m", text);
}

void append_trimmed(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

/// What stands in a cell, line by line.
std::vector<std::string> lines_of(const Heatmap& heatmap, const HeatmapCell& cell,
                                  std::size_t width) {
  auto lines = folded(first_line(heatmap, cell), width);
  if (cell.layout.empty()) return lines;
  for (auto& part : folded(printable(cell.layout), width))
    lines.push_back(std::move(part));
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
    std::string line =
        padded(at < names.size() ? names[at] : "", grid.labels, Align::left) + ' ';
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto text =
          padded(at < cells[i].size() ? cells[i][at] : "", block.widths[i], Align::left);
      line += painted(grid, heatmap.cells[row][block.first + i], text);
    }
    append_trimmed(out, line);
  }
}

void append_header(std::string& out, const Heatmap& heatmap, const Grid& grid,
                   const Block& block) {
  std::string line = padded(folded(printable(heatmap.row_name), grid.labels).front(),
                            grid.labels, Align::left) +
                     ' ';
  for (std::size_t i = 0; i < block.widths.size(); ++i) {
    const auto text = label(heatmap.column_name, heatmap.columns[block.first + i]);
    line +=
        ' ' + padded(folded(text, block.widths[i]).front(), block.widths[i], Align::left) + ' ';
  }
  append_trimmed(out, line);
}

std::string_view meaning_of(std::string_view status) {
  if (status == name(Outcome::skipped))
    return "not run: a layout with the same or a smaller memory need ran out of memory";
  if (const auto outcome = outcome_from(status)) return info(*outcome).meaning;
  for (const auto& word : cell_words) {
    if (word.name == status) return word.meaning;
  }
  return {};
}

/// The cells where an imported table's own ranking has another winner.
void append_published(std::string& out, const Heatmap& heatmap) {
  bool first = true;
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto& cell = heatmap.cells[r][c];
      if (cell.published_layout.empty()) continue;
      if (std::exchange(first, false)) {
        out += fmt::format("{}  the table's own MFU ranks another layout first:\n",
                           ranked_otherwise);
      }
      out += fmt::format(
          "   {} {}: {}, {} tokens/s/GPU\n", label(heatmap.row_name, heatmap.rows[r]),
          label(heatmap.column_name, heatmap.columns[c]), printable(cell.published_layout),
          amount_text(cell.published_tokens_per_s_per_gpu));
    }
  }
}

void append_legend(std::string& out, const Heatmap& heatmap) {
  std::map<std::string_view, char> statuses;
  bool more = false;
  bool without_value = false;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      if (is_measured(cell)) {
        more = more || cell.open > 0;
        without_value = without_value || !cell.value;
      } else if (cell.status != "none") {
        statuses[cell.status] = cell.mark;
      }
    }
  }
  const bool words = heatmap.value_name == "outcome";
  for (const auto& [status, mark] : statuses)
    out += words ? fmt::format("{}: {}\n", status, meaning_of(status))
                 : fmt::format("{}  {}: {}\n", mark, status, meaning_of(status));
  if (without_value && !words)
    out +=
        fmt::format("n/a  measured, but without {}{}\n", heatmap.value_name,
                    heatmap.value_name == "mfu" ? ": it needs peak_flops of the cluster" : "");
  if (more) out += fmt::format("{}  this cell has trials that have not run yet\n", more_to_run);
}

std::string title(const Heatmap& heatmap) {
  if (heatmap.value_name == "outcome") return "outcome of the fastest layout of each cell\n";
  const auto* metric = find_metric(heatmap.value_name);
  return fmt::format(
      "{}{} of the fastest layout of each cell\n", heatmap.value_name,
      metric != nullptr && metric->unit != "1" ? fmt::format(" [{}]", metric->unit) : "");
}

constexpr std::size_t legend_indent = 3;

std::string as_grid(const Heatmap& heatmap, const Terminal& terminal) {
  if (heatmap.rows.empty()) return "no trials\n";
  const auto grid = grid_of(heatmap, terminal);
  std::string out = fold_lines(title(heatmap), terminal.width);
  for (const auto& block : grid.blocks) {
    if (block.first > 0) out += '\n';
    append_header(out, heatmap, grid, block);
    for (std::size_t row = 0; row < heatmap.rows.size(); ++row)
      append_row(out, heatmap, grid, block, row);
  }
  std::string below;
  append_legend(below, heatmap);
  append_published(below, heatmap);
  if (!heatmap.runners.empty()) {
    below += fmt::format("runner: {}\n",
                         printable(fmt::format("{}", fmt::join(heatmap.runners, ", "))));
  }
  return in_charset(out + fold_lines(below, terminal.width, legend_indent), terminal.utf8);
}

/// A label as a value: a number where it is one.
Value label_value(const std::string& text) {
  std::int64_t integer = 0;
  const auto* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, integer);
  if (read.ec == std::errc() && read.ptr == end && std::to_string(integer) == text)
    return integer;
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
    row.resize(row.size() + 2);
    return;
  }
  row.emplace_back(cell.published_layout);
  row.emplace_back(cell.published_tokens_per_s_per_gpu);
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
  return table;
}

Table heatmap_list(const Heatmap& heatmap) {
  const bool outcome = heatmap.value_name == "outcome";
  Table table;
  table.note = heatmap.note;
  table.columns = {heatmap.row_name,   heatmap.column_name,
                   heatmap.value_name, "layout",
                   "status",           "trials",
                   "completed",        "open",
                   "infeasible"};
  const bool published = is_ranked_otherwise(heatmap);
  if (published) {
    table.columns.emplace_back("published_layout");
    table.columns.emplace_back("published_tokens_per_s_per_gpu");
  }
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto& cell = heatmap.cells[r][c];
      Value value;
      if (outcome && outcome_from(cell.status)) value = std::string(cell.status);
      if (!outcome && cell.value) value = *cell.value;
      Value layout;
      if (!cell.layout.empty()) layout = cell.layout;
      table.rows.push_back({label_value(heatmap.rows[r]), label_value(heatmap.columns[c]),
                            value, layout, std::string(cell.status), cell.trials,
                            cell.completed, cell.open, cell.infeasible});
      if (published) add_published(table.rows.back(), cell);
    }
  }
  return table;
}

std::string heatmap_text(const Heatmap& heatmap, const HeatmapText& how) {
  if (how.format == Format::table) return as_grid(heatmap, how.terminal);
  if (how.format == Format::csv && !how.list)
    return table_text(heatmap_matrix(heatmap), Format::csv);
  return table_text(heatmap_list(heatmap), how.format);
}

}  // namespace shardsweep
