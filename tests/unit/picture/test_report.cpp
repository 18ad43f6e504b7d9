// SPDX-License-Identifier: Apache-2.0
#include "answer/answer.hpp"
#include "picture/svg.hpp"
#include "report/charts.hpp"
#include "report/page.hpp"
#include "report/page_data.hpp"
#include "report/report_page.hpp"
#include "report/sections.hpp"
#include "unit/table_rows.hpp"

#include <shardsweep/point.hpp>

#include <doctest/doctest.h>

#include <map>
#include <ostream>

using namespace shardsweep;

namespace {

const std::string hostile_report = "</script><script>window.obeyed=1</script>";

ReportedTrial trial(
    const std::string& name, std::int64_t tp, std::int64_t micro_batch, double speed) {
  ReportedTrial one;
  one.trial_id = name.front();
  one.sweep = "demo";
  one.trial = name;
  one.model = "tiny";
  one.seq_len = 128;
  one.nodes = 1;
  one.gpus = 8;
  one.layout = "dp1 tp" + std::to_string(tp) + " mb" + std::to_string(micro_batch);
  set_axis(one, "tp", tp);
  set_axis(one, "pp", std::int64_t{1});
  set_axis(one, "micro_batch", micro_batch);
  one.outcome = speed == 0 ? "oom" : "completed";
  if (speed > 0) {
    one.tokens_per_s_per_gpu = speed;
    one.peak_memory_bytes = 1000 * micro_batch;
  } else {
    one.cause = hostile_report;
  }
  one.runner = "bench";
  one.runner_version = "1.0";
  one.phases = "forward=3;backward=6;gradient_norm=0.5;reduction=0.001";
  one.software = "gpu=H100;nccl=2.28";
  return one;
}

/// What the store would ask for, and what planner/answer says to it.
void answer_anew(ReportInput& input) {
  std::map<std::string, std::size_t> places;
  CellRuns cell;
  for (const auto& trial : input.facts.trials) {
    if (!trial.tokens_per_s_per_gpu) continue;
    const auto [found, added] = places.try_emplace(trial.layout, cell.layouts.size());
    if (added) cell.layouts.push_back({.name = trial.layout, .runs = {}});
    cell.layouts[found->second].runs.push_back(
        {.trial = trial.trial_id, .tokens_per_s_per_gpu = *trial.tokens_per_s_per_gpu});
  }
  input.heatmap.cells[0][0].answer = answer_of(cell);
}

ReportInput sample_report() {
  ReportInput input;
  input.facts.trials = {trial("a", 1, 1, 100), trial("b", 1, 1, 102), trial("c", 2, 1, 90),
      trial("d", 2, 2, 80), trial("e", 1, 2, 0), trial("f", 1, 1, 101)};
  input.facts.sweeps = {{.sweep = "demo",
      .backend = Backend::local,
      .cluster = "here",
      .runner = "bench",
      .runner_version = "1.0",
      .revision = 1,
      .resolved = "name: demo\n# " + hostile_report,
      .job_template = {}}};
  Heatmap& heatmap = input.heatmap;
  heatmap = {"model", "nodes", "tokens_per_s_per_gpu", {"tiny"}, {"1"}, {}, "", {"bench 1.0"}};
  heatmap.cells = {{{"completed", ' ', 101.0, "dp1 tp1 mb1", 6, 5, 0, 0}}};
  input.log_tails["demo/e"] = hostile_report;
  answer_anew(input);
  return input;
}

std::size_t times(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("the page says of each cell what its answer says") {
  const auto input = sample_report();
  const auto& trials = input.facts.trials;
  const auto cells = cells_of_page(input.heatmap, trials);
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].trials.size() == 6);
  const auto& answer = cells[0].answer;
  REQUIRE(answer.layouts.size() == 3);
  CHECK(answer.layouts[0].name == "dp1 tp1 mb1");
  CHECK(answer.layouts[0].runs.size() == 3);
  const auto page = report_page(input);
  const auto badge = badge_of(answer);
  CHECK(page.find("<span class=\"badge " + badge.style + "\">" + badge.text + "</span>") !=
      std::string::npos);
  CHECK(page.find(xml_escaped(certainty_text(answer)).substr(1)) != std::string::npos);
}

TEST_CASE("the header names hardware, trials, cost and certainty, and what nobody recorded") {
  auto input = sample_report();
  auto page = report_page(input);
  CHECK(page.find("<b>5 measured of 6</b>") != std::string::npos);
  CHECK(page.find("<b>not recorded</b>the trials have no run times") != std::string::npos);
  ClusterSpec cluster;
  cluster.name = "h100-8x";
  cluster.gpu = "NVIDIA H100";
  cluster.gpus_per_node = 8;
  cluster.memory_bytes = std::int64_t{80} << 30;
  input.clusters = {cluster};
  for (auto& one : input.facts.trials)
    one.gpu_seconds = 3600;
  input.price = price_from("2.50 EUR");
  page = report_page(input);
  CHECK(page.find("<b>8 × NVIDIA H100 per node</b>") != std::string::npos);
  CHECK(page.find("80.0 GiB per GPU") != std::string::npos);
  CHECK(page.find("<b>6.0 GPU-h = 15.00 EUR</b>2.50 EUR per GPU-hour") != std::string::npos);
  CHECK(source_line(input.facts, input.clusters) == "demo · 8 × NVIDIA H100 per node");
}

TEST_CASE("a price is a number above 0, perhaps with a currency") {
  CHECK(price_from("2.50")->per_gpu_hour == 2.5);
  CHECK(price_from("3 USD")->currency == "USD");
  for (const char* wrong : {"", "free", "0", "-1", "2x", "nan"})
    CHECK_MESSAGE(!price_from(wrong), wrong);
}

TEST_CASE("times of GPUs have the unit that people would choose") {
  CHECK(gpu_time_text(33'408'000) == "9,280 GPU-h");
  CHECK(gpu_time_text(3600 * 4.29) == "4.3 GPU-h");
  CHECK(gpu_time_text(204) == "3.4 GPU-min");
  CHECK(gpu_time_text(1.764) == "1.8 GPU-s");
}

TEST_CASE("a note is no error: it has a box of its own") {
  auto input = sample_report();
  input.heatmap.note = "1,855 trials of another version are left out.";
  const auto page = report_page(input);
  CHECK(page.find("<p class=\"note\">1,855 trials of another version") != std::string::npos);
  CHECK(page.find("class=\"warning\"") == std::string::npos);
}

TEST_CASE("nothing of a name, a cause, a log or a file is obeyed by a page") {
  const auto page = report_page(sample_report());
  // The data and the page's own script; a chart has its points in one too.
  CHECK(times(page, "<script") == 2 + times(page, "<figure class=\"lines\">"));
  CHECK(times(page, "<script") == times(page, "</script"));
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
  input.facts.trials[0].software = "gpu=H100;nccl=2.29";
  page = report_page(input);
  CHECK(page.find("<dt>nccl</dt><dd>2.28 (4 runs), 2.29 (1 run)</dd>") != std::string::npos);
}

TEST_CASE("a cause stands only with what has failed, and not if it is a place in a table alone") {
  auto input = sample_report();
  auto& trials = input.facts.trials;
  trials[0].cause = "recorded in line 3 of table.csv";
  CHECK(shown_cause(trials[0]).empty());
  trials[4].cause = "recorded in line 7 of table.csv";
  CHECK(shown_cause(trials[4]).empty());
  trials[4].cause = "CUDA out of memory";
  CHECK(shown_cause(trials[4]) == "CUDA out of memory");
  CHECK(report_page(input).find("recorded in line") == std::string::npos);
}

TEST_CASE("a part of a train step that is too thin to see has no place in the bars") {
  const auto page = report_page(sample_report());
  CHECK(page.find("</span>forward 3 ms") != std::string::npos);
  CHECK(page.find("</span>gradient norm 0.5 ms") != std::string::npos);
  const auto bars = page.substr(page.find("Where a train step goes"), 4000);
  CHECK(bars.substr(0, bars.find("</div></div>")).find("reduction") == std::string::npos);
}

TEST_CASE("failures that differ in a number or in the trial behind them are one cause") {
  auto input = sample_report();
  for (const std::size_t row : {0U, 1U, 4U}) {
    auto& one = input.facts.trials[row];
    one.outcome = "oom";
    one.tokens_per_s_per_gpu.reset();
    one.cause = "rank " + std::to_string(row) + " needs " + std::to_string(row * 7) + " bytes";
  }
  const auto page = report_page(input);
  CHECK(page.find("<td class=\"number\">3</td><td class=\"word\">out of memory</td><td "
                  "class=\"long\">rank 0 needs 0 bytes</td>") != std::string::npos);
  for (const std::size_t row : {0U, 1U}) {
    auto& one = input.facts.trials[row];
    one.outcome = "skipped";
    one.cause = "micro_batch 1 ran out of memory (mini-" + std::string(row + 1, 'a') + ")";
  }
  CHECK(report_page(input).find("<td class=\"number\">2</td><td class=\"word\">skipped</td>") !=
      std::string::npos);
}

TEST_CASE("a thing's values have the titles of columns") {
  const Table table{{"name", "value"},
      {{std::string("model"), std::string("mini")}, {std::string("train_step_ms"), 2610.0}}};
  const auto html = html_table(table, "t");
  CHECK(html.find("<td class=\"word\">train step</td>") != std::string::npos);
  CHECK(html.find("<td class=\"word\">2.61 s</td>") != std::string::npos);
}

TEST_CASE("lines of a log stay lines") {
  auto input = sample_report();
  input.log_tails["demo/e"] = "first\nsecond \x1b[31m";
  const auto page = report_page(input);
  CHECK(page.find(R"("4":"first\nsecond \\x1b[31m\n")") != std::string::npos);
}

TEST_CASE("a sweep over gpus has no column of nodes") {
  auto input = sample_report();
  for (auto& one : input.facts.trials)
    one.nodes = 0;
  CHECK(report_page(input).find(R"("name":"nodes","title":"nodes","axis":1,"same":null)") !=
      std::string::npos);
  Table table{{"nodes", "at"}, {{std::int64_t{0}, std::int64_t{5}}}};
  CHECK(html_table(table, "t").find("nodes") == std::string::npos);
  table.rows[0][0] = std::int64_t{2};
  CHECK(html_table(table, "t").find("nodes") != std::string::npos);
}

TEST_CASE("texts that follow each other are told by what is new in them") {
  // Two digits: how many bytes of the beginning and of the end are those of the line before.
  CHECK(front_coded({"abc-1-x", "abc-2-x", "abc-2-x", ""}) == "##abc-1-x\n'%2\n*#\n##");
  // The script counts in other units beyond ASCII.
  CHECK(front_coded({"é1", "é2"}) == "##é1\n##é2");
}

TEST_CASE("names of many trials are told by their model, common words and a hash") {
  auto input = sample_report();
  auto& trials = input.facts.trials;
  const auto one = trials[0];
  trials.clear();
  constexpr std::size_t many = 20'001;
  for (std::size_t i = 0; i < many; ++i) {
    trials.push_back(one);
    trials.back().trial = "tiny-dp1-mb" + std::to_string(i % 3) + "-" + std::to_string(100'000 + i);
  }
  auto page = report_page(input);
  CHECK(
      page.find(R"("name":"trial","title":"trial","after":"model","length":6,"hashes":"100000)") !=
      std::string::npos);
  // A name that is not made so is told as a text.
  trials[7].trial = "other";
  page = report_page(input);
  CHECK(page.find(R"("name":"trial","title":"trial","front":")") != std::string::npos);
}

TEST_CASE("layouts that differ in one axis alone are pairs of that axis") {
  const auto input = sample_report();
  const auto& trials = input.facts.trials;
  const TrialRows rows(trials);
  const auto effects = axis_effects(cells_of_page(input.heatmap, trials), trials, rows);
  // tp 1 and 2 with micro-batch 1; micro-batch 1 and 2 with tp 2; nothing joins the diagonal.
  REQUIRE(effects.size() == 2);
  for (const auto& effect : effects) {
    CHECK(effect.changes.size() == 1);
    CHECK(effect.from == "1");
    CHECK(effect.to == "2");
    const double expected = effect.axis == "tp" ? 90.0 / 101 : 80.0 / 90;
    CHECK(effect.at(0.5) == doctest::Approx(expected - 1));
  }
}

TEST_CASE("a pair holds every axis but its own fixed") {
  for (const AxisInfo& axis : axes()) {
    // The cell's own axes are equal in it; dp and grad_accum follow from world and batch.
    if (axis.is(AxisUse::cell) || axis.allows_auto) continue;
    const std::string column(axis.name);
    if (column == "tp" || column == "micro_batch" || column == "pp") continue;
    auto input = sample_report();
    auto& trials = input.facts.trials;
    trials = {trial("a", 1, 1, 100), trial("c", 2, 1, 90)};
    for (auto& one : trials) {
      set_axis(one, column, std::int64_t{one.trial == "a" ? 1 : 2});
      if (column == "dtype") one.dtype = one.trial;
    }
    answer_anew(input);
    const TrialRows rows(trials);
    CHECK_MESSAGE(axis_effects(cells_of_page(input.heatmap, trials), trials, rows).empty(),
        column << " differs too");
    for (auto& one : trials)
      set_axis(one, "tp", std::int64_t{1});
    const auto alone = axis_effects(cells_of_page(input.heatmap, trials), trials, rows);
    REQUIRE_MESSAGE(alone.size() == 1, column);
    CHECK(alone[0].axis == column);
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

TEST_CASE("numbers of measurements are whole, if there is one of them or two") {
  for (const double most : {1.0, 2.0}) {
    Chart chart{"t", {.title = "measurements", .whole = true}, {"y", ""}};
    chart.series.push_back({"one", {{1, 5}, {most, 5}}});
    for (const auto& group : chart_picture(chart).groups) {
      for (const auto& shape : group.shapes) {
        const auto* label = std::get_if<Label>(&shape);
        CHECK((label == nullptr || (label->text != "0.9" && label->text != "1.2")));
      }
    }
  }
}

TEST_CASE("every series of a chart is in its legend, and ticks stand at the data") {
  Chart chart{"t", {"GPUs", "", true, false, {}, true}, {"y", ""}};
  for (int i = 0; i < 9; ++i)
    chart.series.push_back({"a series with a long name " + std::to_string(i),
        {{8, 1.0 + i}, {16, 2.0 + i}, {24, 3.0 + i}}});
  const auto drawing = chart_picture(chart);
  const auto has = [&drawing](const std::string& text) {
    for (const auto& group : drawing.groups) {
      for (const auto& shape : group.shapes) {
        const auto* label = std::get_if<Label>(&shape);
        if (label == nullptr || label->text != text) continue;
        CHECK(label->size >= 12);
        CHECK(label->y < drawing.height);
        return true;
      }
    }
    return false;
  };
  for (const auto& series : chart.series)
    CHECK_MESSAGE(has(series.name), series.name);
  for (const char* tick : {"8", "16", "24"})
    CHECK_MESSAGE(has(tick), tick);
  const auto figure = chart_figure(chart, "what it shows");
  CHECK(times(figure, "\"name\":\"a series") == 9);
  CHECK(figure.find("\"exact\":true") != std::string::npos);
}

// Pages left degrees of 1 out, tables wrote them.
TEST_CASE("a page writes a layout as tables do; a var may be broken, and is text") {
  CHECK(layout_html("dp8 tp1 algo=<tree>") ==
      "<span>dp<b>8</b></span> <span>tp<b>1</b></span> "
      "<span class=\"var\">algo=&lt;tree&gt;</span>");
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
