// SPDX-License-Identifier: Apache-2.0
#include "answer/answer.hpp"
#include "picture/heatmap_picture.hpp"
#include "picture/svg.hpp"
#include "report/page.hpp"
#include "show/pivot.hpp"
#include "show/share_steps.hpp"

#include <shardsweep/drawing.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <ostream>

using namespace shardsweep;

namespace {

const std::string hostile = "\"><script>alert('x')</script>&\x1b[31m\u202Ered";

Heatmap pictured() {
  Heatmap heatmap{
      "model", "nodes", "tokens_per_s_per_gpu", {"tiny", hostile}, {"1", "2"}, {}, "a note"};
  heatmap.cells.resize(2, std::vector<HeatmapCell>(2));
  heatmap.cells[0][0] = {"completed", ' ', 100.0, "dp8 tp1", 4, 2, 1, 0};
  heatmap.cells[0][1] = {"completed", ' ', 900.0, hostile, 1, 1, 0, 0};
  heatmap.cells[1][0] = {"planned", '.', {}, "", 1, 0, 1, 0};
  heatmap.cells[1][0].predicted = 5000;
  heatmap.cells[1][0].predicted_layout = "dp4";
  heatmap.cells[1][1] = {"oom", 'M', {}, "", 1, 0, 0, 0};
  heatmap.cells[1][1].why = hostile;
  return heatmap;
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

/// Every element that is opened is closed, in order; no text has a bare < or &.
void check_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (auto at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const auto end = xml.find('>', at);
    REQUIRE(end != std::string::npos);
    const auto tag = xml.substr(at + 1, end - at - 1);
    if (tag.starts_with('/')) {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == tag.substr(1));
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  CHECK(open.empty());
}

}  // namespace

TEST_CASE("the scale grows darker from step to step, and its text can be read") {
  double before = 100;
  for (int step = 1; step <= most_steps; ++step) {
    const auto colour = step_colour(step);
    const double light = contrast(colour, {});
    CHECK(light < before);
    before = light;
    CHECK(contrast(colour, readable_on(colour)) >= 4.5);
  }
  for (const Ink ink : {Ink::text, Ink::faint, Ink::accent})
    CHECK(contrast(paper_colour(ink), paper_colour(Ink::paper)) >= 4.5);
}

TEST_CASE("names of a sweep are text in a picture") {
  const auto svg = svg_text(heatmap_picture(pictured()), SvgUse::file);
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find('\x1b') == std::string::npos);
  CHECK(svg.find("\u202E") == std::string::npos);
  CHECK(svg.find("&quot;&gt;&lt;script&gt;alert") != std::string::npos);
  check_well_formed(svg);
}

TEST_CASE("a picture has the words of people and not those of a table") {
  auto heatmap = pictured();
  CHECK(picture_title(heatmap) == "tokens/s/GPU of the fastest layout of each cell");
  const auto svg = svg_text(heatmap_picture(heatmap), SvgUse::file);
  CHECK(svg.find(">1 node<") != std::string::npos);
  CHECK(svg.find(">2 nodes<") != std::string::npos);
  CHECK(svg.find("tokens_per_s_per_gpu") == std::string::npos);
  heatmap.value_name = "train_step_ms";
  CHECK(picture_title(heatmap) == "train step [ms] of the fastest layout of each cell");
  CHECK(column_text({"model", "tp"}, "4") == "tp 4");
}

TEST_CASE("a name of ten kilobytes leaves the picture its size") {
  auto heatmap = pictured();
  const auto before = heatmap_picture(heatmap);
  heatmap.rows[0] = heatmap.columns[0] = std::string(10'000, 'x');
  heatmap.note = std::string(10'000, 'y');
  const auto after = heatmap_picture(heatmap);
  CHECK(after.width < 2 * before.width);
  CHECK(after.height < before.height + 100);
}

TEST_CASE("what is predicted is hatched, and has no colour of the scale") {
  const auto drawing = heatmap_picture(pictured());
  int hatched = 0;
  int coloured = 0;
  for (const auto& group : drawing.groups) {
    if (!group.key.starts_with("cell-")) continue;
    const auto& box = std::get<Box>(group.shapes.front());
    hatched += box.hatched ? 1 : 0;
    coloured += box.fill.colour ? 1 : 0;
    CHECK(box.hatched == (group.key == cell_key(1, 0)));
    CHECK_FALSE((box.hatched && box.fill.colour));
  }
  CHECK(hatched == 1);
  CHECK(coloured == 2);
  const auto svg = svg_text(drawing, SvgUse::file);
  CHECK(svg.find(">900<") != std::string::npos);
  CHECK(svg.find("predicted, planned") != std::string::npos);
}

TEST_CASE("page and file share one drawing, and differ in where colours come from") {
  const auto drawing = heatmap_picture(pictured());
  const auto page = svg_text(drawing, SvgUse::page);
  const auto file = svg_text(drawing, SvgUse::file);
  CHECK(page.find("data-key=\"cell-0-0\"") != std::string::npos);
  CHECK(page.find("var(--text)") != std::string::npos);
  CHECK(file.find("var(--") == std::string::npos);
  CHECK(occurrences(page, "<text ") == occurrences(file, "<text "));
  check_well_formed(page);
}

TEST_CASE("facets stand below each other, and keys stay unique") {
  const auto one = heatmap_picture(pictured());
  const auto two = stacked({one, one});
  CHECK(two.height == 2 * one.height);
  CHECK(two.groups.size() == 2 * one.groups.size());
  CHECK(occurrences(svg_text(two, SvgUse::page), "data-key=\"cell-0-0\"") == 1);
}

TEST_CASE("a PNG is as wide as was asked") {
  const auto drawing = heatmap_picture(pictured());
  const auto asked = std::llround(2 * drawing.width);
  const auto png = png_bytes(drawing, asked);
  REQUIRE(png);
  REQUIRE(png->starts_with("\x89PNG\r\n"));
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      value = value * 256 + static_cast<unsigned char>((*png)[i]);
    return value;
  };
  CHECK(number(16) == asked);
  CHECK(std::abs(number(20) - 2 * drawing.height) <= 1);
}

TEST_CASE("a page names no option of a command") {
  ReportInput input;
  input.heatmap = pictured();
  input.heatmap.note = "Ranked: mine 1.0. --all-versions ranks them too.";
  auto& cell = input.heatmap.cells[0][0];
  add_left_out(cell.answer, {.runs = 3, .software = "mine 1.1", .tokens_per_s_per_gpu = 90});
  cell.published_layout = "dp4 tp2";
  cell.published_tokens_per_s_per_gpu = 120;
  cell.published_by = "theirs 1.0";
  CHECK(cell_sentence(input.heatmap, 0, 0).find("--all-versions") != std::string::npos);
  const auto page = heatmap_page(input, {input.heatmap});
  CHECK(page.find("mine 1.1") != std::string::npos);
  CHECK(page.find("--all-versions") == std::string::npos);
}

TEST_CASE("a heatmap's page is one file that loads nothing and runs nothing of the names") {
  ReportInput input;
  input.heatmap = pictured();
  const auto page = heatmap_page(input, {pictured()});
  CHECK(occurrences(page, "<script") == 1);  // the page's own
  CHECK(page.find("src=") == std::string::npos);
  CHECK(page.find("http-equiv=\"Content-Security-Policy\"") != std::string::npos);
  CHECK(page.find(">&quot;&gt;&lt;script&gt;") != std::string::npos);
  // Two heatmaps are two tables, each with its title.
  CHECK(occurrences(heatmap_page(input, {pictured(), pictured()}), "class=\"grid\"") == 2);
}

TEST_CASE("steps grow darker from step to step, and their text can be read") {
  double before = 22;
  for (int step = 1; step <= most_steps; ++step) {
    const auto colour = step_colour(step);
    const double light = contrast(colour, {});
    CHECK(light < before / 1.08);  // apart in greyscale too
    before = light;
    CHECK(contrast(colour, readable_on(colour)) >= 4.5);
  }
  CHECK(share_step(1) == most_steps);
  CHECK(share_step(0) == 1);
  // 39 % and 35 % of the peak, as shares of their best.
  CHECK(share_step(0.35 / 0.39) < share_step(1));
}

TEST_CASE("models that differ a thousand times have each a scale of their own") {
  Heatmap heatmap{"model", "nodes", "tokens_per_s_per_gpu", {"small", "large"}, {"1", "2"}, {}, ""};
  heatmap.cells.resize(2, std::vector<HeatmapCell>(2));
  heatmap.cells[0][0] = {"completed", ' ', 40'000.0, "dp8", 1, 1};
  heatmap.cells[0][1] = {"completed", ' ', 20'000.0, "dp16", 1, 1};
  heatmap.cells[1][0] = {"completed", ' ', 14.5, "dp8 tp4", 1, 1};
  heatmap.cells[1][1] = {"oom", 'M', {}, "", 1};
  const auto steps = steps_of(heatmap);
  CHECK(steps[0] == std::vector<int>{most_steps, share_step(0.5)});
  CHECK(steps[1] == std::vector<int>{most_steps, 0});
  // What is better if it is less has one scale for all.
  heatmap.value_name = "peak_memory_bytes";
  CHECK(steps_of(heatmap)[1][0] == 1);
}

TEST_CASE("text of a picture has twelve points at least, and its last line says where it is from") {
  const auto drawing = with_source(heatmap_picture(pictured()), "demo · measured 2026-11-24");
  for (const auto& group : drawing.groups) {
    for (const auto& shape : group.shapes) {
      if (const auto* label = std::get_if<Label>(&shape)) CHECK(label->size >= 12);
    }
  }
  CHECK(svg_text(drawing, SvgUse::file).find(">demo · measured 2026-11-24</text>") !=
      std::string::npos);
}
