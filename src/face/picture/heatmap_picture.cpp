// SPDX-License-Identifier: Apache-2.0
#include "picture/heatmap_picture.hpp"

#include "picture/svg.hpp"
#include "show/cell_text.hpp"
#include "show/pivot.hpp"
#include "show/share_steps.hpp"
#include "show/table_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

namespace shardsweep {
namespace {

constexpr double margin = 12;
constexpr double title_size = 15;
constexpr double value_size = 15;
constexpr double small_size = 12;
constexpr double line_height = 15.5;
constexpr double cell_padding = 6;
constexpr double least_cell_width = 96;
constexpr double most_cell_width = 240;
constexpr double most_label_width = 300;
constexpr double header_height = 22;

struct CellText {
  std::string value;
  std::vector<std::string> small;
};

CellText text_of(const Heatmap& heatmap, const HeatmapCell& cell) {
  CellText text;
  if (cell.status == "none") return text;
  if (heatmap.value_name == "outcome" || (!is_measured(cell) && !cell.predicted)) {
    text.value = cell.status;
  } else if (is_measured(cell)) {
    text.value = cell.value ? value_text(heatmap, *cell.value) : "n/a";
  } else {
    text.value = fmt::format("({})", value_text(heatmap, *cell.predicted));
    text.small.emplace_back("predicted, " + std::string(cell.status));
  }
  if (is_measured(cell) && cell.open > 0) text.value += " +";
  if (!cell.published_layout.empty()) text.value += " *";
  for (const auto& line : {layout_of(heatmap, cell), certainty_text(cell), rule_of(cell)}) {
    if (!line.empty()) text.small.push_back(line);
  }
  return text;
}

double width_of_cell(const CellText& text) {
  double width = text_width(text.value, value_size);
  for (const auto& line : text.small)
    width = std::max(width, text_width(line, small_size));
  return width + 2 * cell_padding;
}

struct Frame {
  double labels = 0;
  double cell_width = least_cell_width;
  double cell_height = 0;
  double top = 0;  ///< top of the first row
  std::size_t rows = 0;
  std::size_t columns = 0;
  [[nodiscard]] double x(std::size_t column) const {
    return margin + labels + cell_width * static_cast<double>(column);
  }
  [[nodiscard]] double y(std::size_t row) const {
    return top + cell_height * static_cast<double>(row);
  }
};

Frame frame_of(const Heatmap& heatmap) {
  Frame frame;
  frame.rows = heatmap.rows.size();
  frame.columns = heatmap.columns.size();
  frame.labels = text_width(heatmap.row_name, value_size);
  for (const auto& row : heatmap.rows)
    frame.labels = std::max(frame.labels, text_width(row, value_size));
  frame.labels = std::min(frame.labels, most_label_width) + cell_padding;
  std::size_t lines = 0;
  for (const auto& row : heatmap.cells) {
    for (const auto& cell : row) {
      const auto text = text_of(heatmap, cell);
      frame.cell_width = std::max(frame.cell_width, width_of_cell(text));
      lines = std::max(lines, text.small.size());
    }
  }
  frame.cell_width = std::min(frame.cell_width, most_cell_width);
  frame.cell_height = 2 * cell_padding + value_size + line_height * static_cast<double>(lines) + 2;
  frame.top = margin + title_size + 10 + header_height;
  return frame;
}

Group heading(const Heatmap& heatmap, const Frame& frame) {
  Group group;
  group.shapes.emplace_back(
      Label{margin, margin + title_size, picture_title(heatmap), title_size, Anchor::start, true});
  const double y = frame.top - 6;
  group.shapes.emplace_back(
      Label{margin, y, fitting_text(heatmap.row_name, value_size, frame.labels), value_size,
          Anchor::start, false, {Ink::faint}});
  for (std::size_t c = 0; c < frame.columns; ++c) {
    const auto text = column_text(heatmap, heatmap.columns[c]);
    group.shapes.emplace_back(Label{frame.x(c) + frame.cell_width / 2, y,
        fitting_text(text, value_size, frame.cell_width), value_size, Anchor::middle});
  }
  return group;
}

Group cell_group(
    const Heatmap& heatmap, const Frame& frame, int step, std::size_t row, std::size_t column) {
  const auto& cell = heatmap.cells[row][column];
  Group group{cell_key(row, column), cell_sentence(heatmap, row, column), {}};
  const double x = frame.x(column);
  const double y = frame.y(row);
  Box box{x + 1, y + 1, frame.cell_width - 2, frame.cell_height - 2, {}, {Ink::line}, false};
  Paint ink{Ink::text};
  if (step > 0) {
    const auto colour = step_colour(step);
    box.fill.colour = colour;
    ink.colour = readable_on(colour);
  }
  box.hatched = !is_measured(cell) && cell.predicted.has_value();
  group.shapes.emplace_back(box);
  const auto text = text_of(heatmap, cell);
  double base = y + cell_padding + value_size;
  const double room = frame.cell_width - 2 * cell_padding;
  if (box.hatched) {
    // The lines would run through the letters.
    const double height = frame.cell_height - 2 * cell_padding;
    group.shapes.emplace_back(
        Box{x + cell_padding, y + cell_padding, room, height, {Ink::paper}, {}, false});
  }
  const double middle = x + frame.cell_width / 2;
  group.shapes.emplace_back(Label{middle, base, fitting_text(text.value, value_size, room + 4),
      value_size, Anchor::middle, is_measured(cell), ink});
  for (const auto& line : text.small) {
    base += line_height;
    group.shapes.emplace_back(Label{middle, base, fitting_text(line, small_size, room + 4),
        small_size, Anchor::middle, false, ink});
  }
  return group;
}

/// Legend of the steps: shares of the row's best, or the lowest and the highest value.
Group scale_bar(const Heatmap& heatmap, const ColourScale& scale, double y) {
  Group group;
  constexpr double height = 18;
  const double base = y + height - 5;
  double x = margin;
  const auto say = [&](const std::string& text, Paint ink) {
    group.shapes.emplace_back(Label{x, base, text, small_size, Anchor::start, false, ink});
    x += text_width(text, small_size) + 8;
  };
  const bool rows = by_row(heatmap);
  say(rows ? "at least this share of the row's best" : value_text(heatmap, scale.high),
      {Ink::faint});
  for (int step = most_steps; step > 0; --step) {
    const auto name = rows ? step_name(step) : std::string();
    const double width = rows ? text_width(name, small_size) + 10 : 24;
    Box box{x, y, width, height, {}, {Ink::line}, false};
    box.fill.colour = step_colour(step);
    group.shapes.emplace_back(box);
    Paint ink{};
    ink.colour = readable_on(step_colour(step));
    if (rows)
      group.shapes.emplace_back(
          Label{x + width / 2, base, name, small_size, Anchor::middle, false, ink});
    x += width;
  }
  x += 8;
  if (!rows) say(value_text(heatmap, scale.low), {Ink::faint});
  return group;
}

/// Sentences that explain what occurs.
std::vector<std::string> legend_of(const Heatmap& heatmap) {
  std::set<std::string> statuses;
  std::vector<std::string> published;
  bool more = false;
  bool predicted = false;
  for (std::size_t r = 0; r < heatmap.rows.size(); ++r) {
    for (std::size_t c = 0; c < heatmap.columns.size(); ++c) {
      const auto& cell = heatmap.cells[r][c];
      more = more || (is_measured(cell) && cell.open > 0);
      predicted = predicted || cell.predicted;
      if (!cell.published_layout.empty()) published.push_back(cell_sentence(heatmap, r, c));
      if (!is_measured(cell) && cell.status != "none")
        statuses.insert(fmt::format("{}: {}", cell.status, cell_meaning(cell.status)));
    }
  }
  std::vector<std::string> lines(statuses.begin(), statuses.end());
  if (const auto* cell = most_certain(heatmap)) lines.push_back(certainty_meaning(*cell));
  if (predicted) lines.emplace_back("(12), hatched: predicted, not measured; not in the scale");
  if (more) lines.emplace_back("+  this cell has trials that have not run yet");
  for (const auto& line : published)
    lines.push_back("*  " + line);
  if (!heatmap.runners.empty()) lines.push_back(runners_text(heatmap));
  if (!heatmap.note.empty()) lines.push_back(heatmap.note);
  return lines;
}

/// Returns where the last line ends.
double add_legend(Drawing& drawing, const Heatmap& heatmap, double y) {
  constexpr double size = 12;
  constexpr double height = 16;
  const double room = drawing.width - 2 * margin;
  const auto columns = static_cast<std::size_t>(room / text_width("m", size));
  Group group;
  for (const auto& line : legend_of(heatmap)) {
    // A name of ten kilobytes is cut: the cell's own sentence has all of it.
    constexpr double most_lines = 4;
    const auto short_line = fitting_text(line, size, room * most_lines);
    for (auto& part : folded(short_line, columns, 2)) {
      y += height;
      group.shapes.emplace_back(
          Label{margin, y, std::move(part), size, Anchor::start, false, {Ink::faint}});
    }
  }
  drawing.groups.push_back(std::move(group));
  return y;
}

}  // namespace

std::string cell_key(std::size_t row, std::size_t column) {
  return fmt::format("cell-{}-{}", row, column);
}

std::string column_text(const Heatmap& heatmap, const std::string& label) {
  if (heatmap.column_name != "nodes" && heatmap.column_name != "gpus")
    return title_of(heatmap.column_name) + " " + label;
  const char* noun = heatmap.column_name == "gpus" ? "GPU" : "node";
  return fmt::format("{} {}{}", label, noun, label == "1" ? "" : "s");
}

std::string picture_title(const Heatmap& heatmap) {
  return printable(heatmap_title(heatmap));
}

Drawing heatmap_picture(const Heatmap& heatmap) {
  const auto frame = frame_of(heatmap);
  const auto scale = colour_scale(heatmap);
  const auto steps = steps_of(heatmap);
  Drawing drawing;
  drawing.title = picture_title(heatmap);
  constexpr double least_width = 660;
  drawing.width = std::max({frame.x(frame.columns) + margin, least_width,
      text_width(drawing.title, title_size) + 2 * margin});
  drawing.groups.push_back(heading(heatmap, frame));
  for (std::size_t r = 0; r < frame.rows; ++r) {
    Group label;
    const auto text = fitting_text(heatmap.rows[r], value_size, frame.labels);
    label.shapes.emplace_back(
        Label{margin, frame.y(r) + frame.cell_height / 2 + 4, text, value_size});
    drawing.groups.push_back(std::move(label));
    for (std::size_t c = 0; c < frame.columns; ++c) {
      if (heatmap.cells[r][c].status != "none")
        drawing.groups.push_back(cell_group(heatmap, frame, steps[r][c], r, c));
    }
  }
  double y = frame.y(frame.rows) + 8;
  if (frame.rows == 0)
    drawing.groups.push_back({{}, {}, {Label{margin, y, "no trials", value_size}}});
  if (scale.any && heatmap.value_name != "outcome") {
    drawing.groups.push_back(scale_bar(heatmap, scale, y));
    y += 22;
  }
  drawing.height = add_legend(drawing, heatmap, y) + margin;
  drawing.description = fmt::format("{}", fmt::join(legend_of(heatmap), ". "));
  return drawing;
}

Drawing with_source(Drawing drawing, const std::string& source) {
  constexpr double size = 12;
  constexpr double height = 18;
  if (source.empty()) return drawing;
  drawing.groups.push_back({{}, {},
      {Label{margin, drawing.height + 6, fitting_text(source, size, drawing.width - 2 * margin),
          size, Anchor::start, false, {Ink::faint}}}});
  drawing.height += height;
  drawing.description += (drawing.description.empty() ? "" : " ") + source;
  return drawing;
}

namespace {

void shift(Shape& shape, double down) {
  if (auto* box = std::get_if<Box>(&shape)) box->y += down;
  if (auto* dot = std::get_if<Dot>(&shape)) dot->y += down;
  if (auto* label = std::get_if<Label>(&shape)) label->y += down;
  if (auto* dots = std::get_if<Dots>(&shape)) {
    for (auto& place : dots->places)
      place.y += down;
  }
  if (auto* stroke = std::get_if<Stroke>(&shape)) {
    for (auto& point : stroke->points)
      point.y += down;
  }
}

}  // namespace

Drawing stacked(std::vector<Drawing> drawings) {
  Drawing all;
  for (auto& drawing : drawings) {
    for (auto& group : drawing.groups) {
      for (auto& shape : group.shapes)
        shift(shape, all.height);
      if (all.height > 0) group.key.clear();
    }
    std::move(drawing.groups.begin(), drawing.groups.end(), std::back_inserter(all.groups));
    all.title += (all.title.empty() ? "" : "; ") + drawing.title;
    all.description += (all.description.empty() ? "" : " ") + drawing.description;
    all.width = std::max(all.width, drawing.width);
    all.height += drawing.height;
  }
  return all;
}

}  // namespace shardsweep
