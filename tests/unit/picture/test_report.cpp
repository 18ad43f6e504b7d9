// SPDX-License-Identifier: Apache-2.0
#include "answer/answer.hpp"
#include "report/charts.hpp"
#include "report/frontier_picture.hpp"
#include "report/report_page.hpp"
#include "report/sections.hpp"

#include <shardsweep/point.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>

using namespace shardsweep;

namespace {

const std::string hostile_report = "</script><script>window.obeyed=1</script>";

std::vector<Value> trial(const std::string& name, std::int64_t tp, std::int64_t micro_batch,
                         std::int64_t repeat, double speed) {
  const bool oom = speed == 0;
  return {std::string("demo"),
          name,
          std::string("tiny"),
          std::int64_t{128},
          std::int64_t{1},
          std::int64_t{8},
          "dp1 tp" + std::to_string(tp) + " mb" + std::to_string(micro_batch),
          tp,
          std::int64_t{1},
          micro_batch,
          repeat,
          std::string(oom ? "oom" : "completed"),
          oom ? Value() : Value(speed),
          oom ? Value() : Value(std::int64_t{1000} * micro_batch),
          std::string("bench"),
          std::string("1.0"),
          oom ? Value(hostile_report) : Value(),
          std::string("forward=3;backward=6"),
          static_cast<std::int64_t>(name[0] - 'a' + 1),
          std::string("gpu=H100;nccl=2.28")};
}

/// The only cell's answer by its rows, as the store gives it. `resolution`: of each log.
void answer(ReportInput& input, double resolution = 0) {
  const Rows rows(input.facts.trials);
  CellRuns cell;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto speed = rows.number(row, "tokens_per_s_per_gpu");
    if (!speed) continue;
    const auto name = rows.text(row, "layout");
    auto layout = std::find_if(cell.layouts.begin(), cell.layouts.end(),
                               [&](const LayoutRuns& one) { return one.name == name; });
    if (layout == cell.layouts.end())
      layout = cell.layouts.insert(layout, {.name = name, .runs = {}});
    layout->runs.push_back({.trial = rows.integer(row, "trial_id"),
                            .tokens_per_s_per_gpu = *speed,
                            .resolution = resolution});
  }
  input.heatmap.cells[0][0].answer = answer_of(cell);
}

ReportInput sample_report() {
  ReportInput input;
  auto& trials = input.facts.trials;
  trials.columns = {"sweep",
                    "trial",
                    "model",
                    "seq_len",
                    "nodes",
                    "gpus",
                    "layout",
                    "tp",
                    "pp",
                    "micro_batch",
                    "repeat",
                    "outcome",
                    "tokens_per_s_per_gpu",
                    "peak_memory_bytes",
                    "runner",
                    "runner_version",
                    "cause",
                    "phases",
                    "trial_id",
                    "software"};
  trials.rows = {trial("a", 1, 1, 1, 100), trial("b", 1, 1, 2, 102), trial("c", 2, 1, 1, 90),
                 trial("d", 2, 2, 1, 80),  trial("e", 1, 2, 1, 0),   trial("f", 1, 1, 3, 101)};
  input.facts.sweeps = {{"sweep", "backend", "cluster", "runner", "runner_version", "revision",
                         "resolved", "job_template"},
                        {{std::string("demo"), std::string("local"), std::string("here"),
                          std::string("bench"), std::string("1.0"), std::int64_t{1},
                          "name: demo\n# " + hostile_report, std::string()}}};
  Heatmap& heatmap = input.heatmap;
  heatmap = {"model", "nodes", "tokens_per_s_per_gpu", {"tiny"}, {"1"}, {}, "", {"bench 1.0"}};
  heatmap.cells = {{{"completed", ' ', 101.0, "dp1 tp1 mb1", 6, 5, 0, 0}}};
  answer(input);
  input.log_tails["demo/e"] = hostile_report;
  return input;
}

std::size_t times(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("layouts of a cell are ranked by the median of their runs") {
  const auto input = sample_report();
  const auto layouts = layouts_of_cells(input.heatmap, Rows(input.facts.trials));
  REQUIRE(layouts.cells.size() == 1);
  const auto& cell = layouts.cells[0];
  CHECK(cell.trials.size() == 6);
  REQUIRE(cell.layouts.size() == 3);
  CHECK(cell.layouts[0].name == "dp1 tp1 mb1");
  CHECK(cell.layouts[0].ranked.value == 101);
  CHECK(cell.layouts[0].ranked.runs == 3);
  CHECK(cell.layouts[0].ranked.spread == doctest::Approx(2.0 / 101));
}

TEST_CASE("a lead that logs round away is said to be none") {
  auto input = sample_report();
  auto& trials = input.facts.trials;
  trials.rows = {trial("a", 1, 1, 1, 100), trial("b", 2, 1, 1, 99.3)};
  answer(input, 0.004);
  const auto page = report_page(input);
  const auto* sentence = "the difference is within the 0.8 % that their logs round away";
  CHECK(page.find(sentence) != std::string::npos);
}

TEST_CASE("of two layouts that are alike the older trial is named first, and the tie is said") {
  auto input = sample_report();
  auto& trials = input.facts.trials;
  trials.rows = {trial("b", 1, 1, 1, 100), trial("a", 2, 1, 1, 100)};
  answer(input);
  const auto page = report_page(input);
  CHECK(page.find("<li>tiny on 1 node: dp1 tp2 mb1 with 100 tokens/s/GPU: tie: equal (1 run "
                  "each); runner-up dp1 tp1 mb1 with 100.") != std::string::npos);
}

TEST_CASE("a report's sentence names winner, runner-up, gap, runs and what is undecided") {
  const auto page = report_page(sample_report());
  CHECK(page.find(
            "<li>tiny on 1 node: dp1 tp1 mb1 with 101 tokens/s/GPU: faster by 12.2 % +/- ") !=
        std::string::npos);
  CHECK(page.find("(3 and 1 runs); runner-up dp1 tp2 mb1 with 90.") != std::string::npos);
  auto alone = sample_report();
  std::erase_if(alone.facts.trials.rows,
                [](const auto& row) { return std::get<std::int64_t>(row[10]) > 1; });
  answer(alone);
  CHECK(report_page(alone).find(
            "dp1 tp1 mb1 with 100 tokens/s/GPU: fastest so far: 11.1 % ahead "
            "(1 run each); runner-up dp1 tp2 mb1 with 90.") != std::string::npos);
}

TEST_CASE("where finals ran a report's sentence has their verdict") {
  auto input = sample_report();
  auto& verdict = input.heatmap.cells[0][0].answer.layouts[0].verdict;
  verdict = {.open = Open::clocks, .share = 0.03, .pairs = 8};
  const auto page = report_page(input);
  CHECK(page.find("dp1 tp1 mb1 with 101 tokens/s/GPU: open: 3.0 % ahead by its clock alone (8 "
                  "pairs); runner-up dp1 tp2 mb1") != std::string::npos);
}

TEST_CASE("nothing of a name, a cause, a log or a file is obeyed by a page") {
  const auto page = report_page(sample_report());
  // The data and the page's own script.
  CHECK(times(page, "<script") == 2);
  CHECK(times(page, "</script") == 2);
  CHECK(page.find("\\u003c/script>\\u003cscript>window.obeyed") != std::string::npos);
  CHECK(page.find("# &lt;/script&gt;") != std::string::npos);
  CHECK(times(page, "http://") == times(page, "http://www.w3.org/2000/svg"));
  CHECK(page.find("https://") == std::string::npos);
}

TEST_CASE("what differs between runs stands out, and what is equal is said once") {
  auto input = sample_report();
  auto page = report_page(input);
  CHECK(page.find("<dt>nccl</dt><dd>2.28</dd>") != std::string::npos);
  CHECK(page.find("Not equal in all runs") == std::string::npos);
  input.facts.trials.rows[0].back() = std::string("gpu=H100;nccl=2.29");
  page = report_page(input);
  CHECK(page.find("<dt class=\"warning\">nccl</dt><dd>2.28 (4 runs), 2.29 (1 run)</dd>") !=
        std::string::npos);
}

TEST_CASE("a slice joins layouts that differ in its axis alone") {
  const auto input = sample_report();
  const Rows trials(input.facts.trials);
  const auto layouts = layouts_of_cells(input.heatmap, trials);
  const auto panel =
      cell_panel({input.facts, input.heatmap, layouts, trials, {}}, layouts.cells[0]);
  // tp 1 and 2 with micro-batch 1; micro-batch 1 and 2 with tp 2; nothing joins the diagonal.
  CHECK(times(panel, "aria-label=\"tp\"") == 1);
  CHECK(times(panel, "aria-label=\"micro_batch\"") == 1);
  CHECK(times(panel, "<title>tp 1: ") == 1);
  CHECK(times(panel, "micro_batch 2: ") == 1);
  CHECK(panel.find("aria-label=\"zero") == std::string::npos);
}

TEST_CASE("a slice holds every axis but its own fixed") {
  for (const AxisInfo& axis : axes()) {
    // The cell's own axes are equal in it; dp and grad_accum follow from world and batch.
    if (axis.is(AxisUse::cell) || axis.allows_auto) continue;
    const std::string column(axis.name);
    if (column == "tp" || column == "micro_batch" || column == "pp") continue;
    auto input = sample_report();
    auto& facts = input.facts.trials;
    facts.columns.emplace_back(column);
    facts.rows = {trial("a", 1, 1, 1, 100), trial("c", 2, 1, 1, 90)};
    for (auto& row : facts.rows)
      row.emplace_back(std::get<std::string>(row[1]) == "a" ? std::int64_t{1} : 2);
    const Rows trials(facts);
    const auto layouts = layouts_of_cells(input.heatmap, trials);
    const auto panel =
        cell_panel({input.facts, input.heatmap, layouts, trials, {}}, layouts.cells[0]);
    CHECK_MESSAGE(times(panel, "aria-label=\"tp\"") == 0, column << " differs too");
    for (auto& row : facts.rows)
      row[7] = std::int64_t{1};
    const auto alone =
        cell_panel({input.facts, input.heatmap, layouts, trials, {}}, layouts.cells[0]);
    CHECK_MESSAGE(times(alone, "aria-label=\"" + column + "\"") == 1, column);
  }
}

TEST_CASE("a chart of one value, of none and of infinities is a chart") {
  Chart chart{"t", {"x", ""}, {"y", ""}};
  CHECK(chart_picture(chart).height > 0);
  chart.series.push_back({"one", {{1, 1}, {1, 1}, {1e308 * 10, 2}}});
  const auto drawing = chart_picture(chart);
  std::size_t dots = 0;
  for (const auto& group : drawing.groups) {
    for (const auto& shape : group.shapes) {
      if (std::holds_alternative<Dot>(shape)) ++dots;
      const auto* many = std::get_if<Dots>(&shape);
      if (many == nullptr) continue;
      for (const auto& place : many->places) {
        CHECK(place.x > 0);
        CHECK(place.x < chart.width);
        ++dots;
      }
    }
  }
  CHECK(dots == 2);  // the point, drawn once, and the legend's
}

TEST_CASE("the number of a bar does not cross the line of the limit") {
  const auto drawing = bars_picture(
      "Where memory goes", "peak_memory_bytes",
      {{"small", {{"weights", 40.0}}}, {"near", {{"weights", 97.0}}}}, 100.0, "limit");
  double line = 0;
  for (const auto& group : drawing.groups) {
    for (const auto& shape : group.shapes) {
      if (const auto* stroke = std::get_if<Stroke>(&shape)) line = stroke->points.front().x;
    }
  }
  REQUIRE(line > 0);
  const auto place_of = [&drawing](const std::string& text) {
    for (const auto& group : drawing.groups) {
      for (const auto& shape : group.shapes) {
        const auto* label = std::get_if<Label>(&shape);
        if (label != nullptr && label->text == text) return label->x;
      }
    }
    return -1.0;
  };
  CHECK(place_of("40 B") > 0);
  CHECK(place_of("40 B") < line);
  CHECK(place_of("97 B") > line);
}

TEST_CASE("a frontier's picture names each group once, and what is beaten once") {
  Frontier nodes{FrontierCost::nodes, "nodes", {}, {}};
  for (const char* model : {"a", "b", "c"})
    nodes.groups.push_back({model, {{1, 100, "dp1"}, {2, 150, "dp2"}, {4, 120, "dp4", true}}});
  const auto names = [](const Drawing& drawing, const std::string& name) {
    std::size_t count = 0;
    for (const auto& group : drawing.groups) {
      for (const auto& shape : group.shapes) {
        const auto* label = std::get_if<Label>(&shape);
        count += label != nullptr && label->text == name ? 1 : 0;
      }
    }
    return count;
  };
  auto drawing = frontier_picture(nodes);
  for (const char* name : {"a", "b", "c", "beaten"})
    CHECK_MESSAGE(names(drawing, name) == 1, name);
  nodes.by = FrontierCost::memory;
  drawing = frontier_picture(nodes);
  // A chart for each group, with its own legend.
  CHECK(names(drawing, "a") == 1);
  CHECK(names(drawing, "beaten") == 3);
}
