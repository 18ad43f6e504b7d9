// SPDX-License-Identifier: Apache-2.0
#include "show/heatmap_view.hpp"
#include "show/pivot.hpp"
#include "show/share_steps.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <ostream>

using namespace shardsweep;

namespace {

Heatmap sample(const std::string& value = "tokens_per_s_per_gpu") {
  Heatmap heatmap{"model", "nodes", value, {"tiny", "sm,all"}, {"1", "2", "10"}, {}, "note"};
  heatmap.cells = {
      {{"completed", ' ', 1234.5, "dp8 tp1", 4, 2, 1, 0}, {"oom", 'M', {}, "", 3, 0, 0, 0}, {}},
      {{"completed", ' ', 99.0, "dp4 tp2", 1, 1, 0, 0}, {"planned", '.', {}, "", 2, 0, 2, 0},
          {"infeasible", '/', {}, "", 0, 0, 0, 5}}};
  return heatmap;
}

}  // namespace

TEST_CASE("a heatmap shows value and layout and marks with their legend") {
  CHECK(heatmap_text(sample(), {}) ==
      "tokens/s/GPU of the fastest layout of each cell\nmodel   "
      "nodes=1  nodes=2  nodes=10\ntiny    1,235 +  M\n        dp8 tp1\nsm,all  99       .   "
      "     /\n        dp4 tp2\n/  infeasible: every layout is infeasible; `plan` says "
      "why\nM  oom: ran out of memory\n.  planned: not run yet\n+  this cell has trials that "
      "have not run yet\n");
}

TEST_CASE("a heatmap says whose measurements it shows") {
  auto heatmap = sample();
  heatmap.runners = {"mine 1.2", "shardbench 0.2.0"};
  CHECK(heatmap_text(heatmap, {}).ends_with("\nrunner: mine 1.2, shardbench 0.2.0\n"));
}

TEST_CASE("a row of models has its own scale, as in a picture") {
  const auto text = heatmap_text(sample(), {.terminal = {.colour = true}});
  CHECK(text.find("\x1b[48;5;17;38;5;231m 1,235 + \x1b[0m") != std::string::npos);
  CHECK(text.find("\x1b[48;5;17;38;5;231m 99      \x1b[0m") != std::string::npos);
  CHECK(text.find("\x1b[2m M       \x1b[0m") != std::string::npos);
  CHECK(text.find("at least this share of the row's best:\n\x1b[48;5;17;38;5;231m 97 % \x1b[0m") !=
      std::string::npos);
  CHECK(heatmap_text(sample(), {}).find('\x1b') == std::string::npos);
}

TEST_CASE("rows that are no models have one scale, from the lowest to the highest value") {
  auto heatmap = sample();
  heatmap.row_name = "tp";
  const auto text = heatmap_text(heatmap, {.terminal = {.colour = true}});
  CHECK(text.find("\x1b[48;5;17;38;5;231m 1,235 + \x1b[0m") != std::string::npos);
  CHECK(text.find("\x1b[48;5;255;38;5;16m 99      \x1b[0m") != std::string::npos);
}

TEST_CASE("outcomes are words") {
  CHECK(heatmap_text(sample("outcome"), {}) ==
      "outcome of the fastest layout of each cell\nmodel   nodes=1      nodes=2  "
      "nodes=10\ntiny    completed +  oom\n        dp8 tp1\nsm,all  completed    planned  "
      "infeasible\n        dp4 tp2\ninfeasible: every layout is infeasible; `plan` says "
      "why\noom: ran out of memory\nplanned: not run yet\n+  this cell has trials that have "
      "not run yet\n");
}

TEST_CASE("csv is a matrix with a status where there is no value") {
  CHECK(heatmap_text(sample(), {.format = Format::csv}) ==
      "model,nodes=1,nodes=2,nodes=10\n"
      "tiny,1234.5,oom,\n"
      "\"sm,all\",99,planned,infeasible\n");
  CHECK(heatmap_text(sample("outcome"), {.format = Format::csv}) ==
      "model,nodes=1,nodes=2,nodes=10\n"
      "tiny,completed,oom,\n"
      "\"sm,all\",completed,planned,infeasible\n");
}

TEST_CASE("the list has one line per cell") {
  CHECK(heatmap_text(sample(), {.format = Format::csv, .list = true}) ==
      "model,nodes,tokens_per_s_per_gpu,layout,status,trials,completed,open,infeasible,lead_"
      "share,runner_up,repeats,repeat_spread,predicted,predicted_layout,why,verdict,"
      "verdict_reason,certainty,doubts,to_settle\n"
      "tiny,1,1234.5,dp8 tp1,completed,4,2,1,0,,,0,,,,,,,,,\n"
      "tiny,2,,,oom,3,0,0,0,,,0,,,,,,,,,\n"
      "tiny,10,,,none,0,0,0,0,,,0,,,,,,,,,\n"
      "\"sm,all\",1,99,dp4 tp2,completed,1,1,0,0,,,0,,,,,,,,,\n"
      "\"sm,all\",2,,,planned,2,0,2,0,,,0,,,,,,,,,\n"
      "\"sm,all\",10,,,infeasible,0,0,0,5,,,0,,,,,,,,,\n");
  const auto json = nlohmann::json::parse(heatmap_text(sample(), {.format = Format::json}));
  REQUIRE(json.size() == 6);
  CHECK(json[0]["tokens_per_s_per_gpu"] == 1234.5);
  CHECK(json[0]["nodes"] == 1);
  CHECK(json[1]["layout"].is_null());
}

TEST_CASE("a rule's name is not broken in a narrow column") {
  Heatmap heatmap{"tp", "pp", "tokens_per_s_per_gpu", {"4"}, {"4"}, {}, ""};
  heatmap.cells = {{{"infeasible", '/', {}, "", 0, 0, 0, 5}}};
  heatmap.cells[0][0].why = "sequence_parallel: it needs tp > 1";
  CHECK(heatmap_text(heatmap, {}).find("sequence_parallel\n") != std::string::npos);
}

TEST_CASE("a heatmap of nothing says so") {
  CHECK(heatmap_text(Heatmap{}, {}) == "no trials\n");
}

TEST_CASE("names from a sweep give a terminal no orders") {
  auto heatmap = sample();
  heatmap.rows[0] = "\x1b[31mred";
  heatmap.columns[0] = "1\n2";
  const auto text = heatmap_text(heatmap, {});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\\x1b[31mred") != std::string::npos);
  CHECK(text.find("nodes=1\\n2") != std::string::npos);
}

TEST_CASE("where an imported table ranks otherwise the cell is marked and the winner named") {
  auto heatmap = sample();
  const auto plain = nlohmann::json::parse(heatmap_text(heatmap, {.format = Format::json}));
  CHECK_FALSE(plain[0].contains("published_layout"));
  heatmap.cells[0][0].published_layout = "dp4 pp2";
  heatmap.cells[0][0].published_tokens_per_s_per_gpu = 1200;
  const auto text = heatmap_text(heatmap, {});
  CHECK(text.find("tiny    1,235 + *  M\n") != std::string::npos);
  CHECK(text.find("*  the table's MFU column prefers another layout:\n"
                  "   model=tiny nodes=1: dp4 pp2, 1,200 tokens/s/GPU\n") != std::string::npos);
  heatmap.cells[0][0].published_gap = 0.028;
  CHECK(heatmap_text(heatmap, {})
            .find("dp4 pp2, 1,200 tokens/s/GPU: 2.8 % slower. Its MFU is higher only because "
                  "the table counts more FLOPs per token for it.\n") != std::string::npos);
  heatmap.cells[0][0].published_by = "theirs 1.0";
  CHECK(heatmap_text(heatmap, {})
            .find("dp4 pp2, 1,200 tokens/s/GPU: not ranked here, because other software (theirs "
                  "1.0) measured it. --all-versions ranks it too.\n") != std::string::npos);
  const auto object = nlohmann::json::parse(heatmap_text(heatmap, {.format = Format::json}));
  CHECK(object[0]["published_layout"] == "dp4 pp2");
  CHECK(object[0]["published_tokens_per_s_per_gpu"] == 1200);
  CHECK(object[0]["published_by"] == "theirs 1.0");
  CHECK(object[1]["published_layout"].is_null());
}

namespace {

/// Certain, predicted and ruled out: one cell of each.
Heatmap telling() {
  auto heatmap = sample();
  auto& best = heatmap.cells[0][0];
  best.answer.layouts.resize(2);
  auto& winner = best.answer.layouts[0];
  winner.name = best.layout;
  winner.runs = {1, 2, 3};
  winner.verdict = {.difference = Difference::faster,
      .open = Open::nothing,
      .share = 0.034,
      .half_width = 0.012,
      .first_runs = 3,
      .second_runs = 3};
  best.answer.layouts[1].name = "dp2 tp4";
  auto& planned = heatmap.cells[1][1];
  planned.predicted = 1e6;
  planned.predicted_layout = "dp2 tp1";
  heatmap.cells[1][2].why = "memory: needs 91 GiB of 80 GiB";
  return heatmap;
}

}  // namespace

TEST_CASE("a cell says how certain it is, what is predicted and which rule left it out") {
  const auto text = heatmap_text(telling(), {});
  CHECK(text.find("faster by 3.4 %: faster by 3.4 % +/- 1.2 % (3 runs each)") != std::string::npos);
  CHECK(text.find("(1,000,000) .") != std::string::npos);
  CHECK(text.find("(12)  predicted, not measured") != std::string::npos);
  CHECK(text.find("memory\n") != std::string::npos);
}

TEST_CASE("a prediction is no part of the scale") {
  const auto heatmap = telling();
  const auto scale = colour_scale(heatmap);
  CHECK(scale.low == 99);
  CHECK(scale.high == 1234.5);
  const auto text = heatmap_text(heatmap, {.terminal = {.colour = true}});
  CHECK(text.find("\x1b[2m (1,000,000) . \x1b[0m") != std::string::npos);
}

TEST_CASE("a terminal of 24 bits gets the scale itself") {
  const auto text = heatmap_text(sample(), {.terminal = {.colour = true, .truecolour = true}});
  CHECK(text.find("\x1b[48;2;8;63;93;38;2;255;255;255m 1,235 + \x1b[0m") != std::string::npos);
}

TEST_CASE("facets are heatmaps below each other, or one table with their column") {
  auto one = sample();
  one.facet_name = "tp";
  one.facet_value = std::int64_t{1};
  auto two = one;
  two.facet_value = std::int64_t{2};
  two.columns.pop_back();
  for (auto& row : two.cells)
    row.pop_back();
  const auto text = heatmap_text(std::vector{one, two}, {});
  CHECK(text.starts_with("tp 1: tokens/s/GPU"));
  CHECK(text.find("\n\ntp 2: tokens/s/GPU") != std::string::npos);
  CHECK(heatmap_text(std::vector{one, two}, {.format = Format::csv}) ==
      "tp,model,nodes=1,nodes=2,nodes=10\n1,tiny,1234.5,oom,\n1,\"sm,all\",99,planned,"
      "infeasible\n2,tiny,1234.5,oom,\n2,\"sm,all\",99,planned,\n");
}

TEST_CASE("an aggregate is named, and is no layout's") {
  auto heatmap = sample();
  heatmap.aggregate = Aggregate::median;
  CHECK(heatmap_title(heatmap) == "tokens/s/GPU median over the measured layouts of each cell");
  heatmap.aggregate = Aggregate::count;
  CHECK(heatmap_title(heatmap) == "number of measured trials of each cell");
}

TEST_CASE("the sentence of a cell has all that is known of it") {
  const auto heatmap = telling();
  CHECK(cell_sentence(heatmap, 0, 0) ==
      "model tiny, nodes 1: 1,235 tokens/s/GPU, dp8 tp1, faster by 3.4 % +/- 1.2 % (3 runs "
      "each); runner-up dp2 tp4, 1 trial not run yet");
  CHECK(cell_sentence(heatmap, 1, 2) ==
      "model sm,all, nodes 10: infeasible: every layout is infeasible; `plan` says why "
      "(memory: needs 91 GiB of 80 GiB)");
  CHECK(cell_sentence(heatmap, 1, 1).ends_with("; predicted 1,000,000 with dp2 tp1"));
}
