// SPDX-License-Identifier: Apache-2.0
#include "show/side_by_side.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

using namespace shardsweep;

namespace {

/// As Reader::layouts() has them.
Side side(std::string name, std::vector<std::vector<Value>> rows) {
  Table table{{"model", "seq_len", "nodes", "gpus", "layout", "tokens_per_s_per_gpu", "sweep",
                  "runner", "runner_version", "image", "repeats", "repeat_spread"},
      {}};
  for (auto& row : rows) {
    table.rows.push_back({std::string("tiny"), std::int64_t{32}, std::int64_t{1}, std::int64_t{8},
        row[0], row[1], name, std::string("mine"), std::string("1"), row[2], row[3], row[4]});
  }
  return {std::move(name), std::move(table)};
}

std::vector<Value> layout(
    const char* name, double speed, std::int64_t runs, double spread, const char* image = "a") {
  return {std::string(name), speed, std::string(image), runs, runs > 1 ? Value(spread) : Value()};
}

constexpr double one_percent = 0.01;

}  // namespace

TEST_CASE("a change that both logs round away is none, however often they ran") {
  auto coarse = side("a", {layout("dp8", 100, 9, 0.001)});
  auto later = side("b", {layout("dp8", 99.3, 9, 0.001)});
  for (auto* one : {&coarse, &later}) {
    one->layouts.columns.emplace_back("resolution");
    one->layouts.rows.front().emplace_back(0.004);
  }
  // No loss for CI to stop at, and no part of what names a cell.
  const auto both = side_by_side(coarse, later, "image", one_percent);
  CHECK(both.worst_loss == 0);
  CHECK(both.rows.rows.size() == 1);
}

TEST_CASE("layouts are joined by cell, and what has no partner is counted") {
  const auto before = side("a",
      {layout("dp8", 100, 2, 0.002), layout("dp4 tp2", 90, 2, 0.002), layout("tp8", 50, 2, 0.002)});
  const auto after = side("b",
      {layout("dp8", 95, 2, 0.002), layout("dp4 tp2", 97, 2, 0.002), layout("pp8", 40, 2, 0.002)});
  const auto both = side_by_side(before, after, "sweep", one_percent);
  CHECK(both.rows.rows.size() == 2);
  CHECK(both.only_first == 1);
  CHECK(both.only_second == 1);
  CHECK(both.counts == std::array<std::int64_t, 4>{1, 1, 0, 0});
  CHECK(both.changed_winners == 1);
  CHECK(both.worst_loss == doctest::Approx(0.05));
  CHECK(both.worst_layout == "dp8");
  CHECK(summary_text(both, before, after) ==
      "2 layouts on both sides: 1 FASTER, 1 SLOWER. 1 only in a, 1 only in b. The fastest "
      "layout differs in 1 of 1 cell.");
}

TEST_CASE("the column that is compared is no part of a cell, another var is") {
  const auto before = side("a", {layout("dp8", 100, 2, 0.002, "a")});
  const auto after = side("b", {layout("dp8", 95, 2, 0.002, "b")});
  CHECK(side_by_side(before, after, "image", one_percent).rows.rows.size() == 1);
  const auto apart = side_by_side(before, after, "sweep", one_percent);
  CHECK(apart.rows.rows.empty());
  CHECK(apart.only_first + apart.only_second == 2);
}

TEST_CASE("a side without a var is compared with each of its values, whichever side it is") {
  auto plain = side("plain", {layout("dp8", 100, 2, 0.002)});
  auto varied = side("varied",
      {layout("dp8", 99, 2, 0.002), layout("dp8", 50, 2, 0.002), layout("tp8", 40, 2, 0.002)});
  varied.layouts.columns.emplace_back("compile");
  for (std::size_t i = 0; i < varied.layouts.rows.size(); ++i)
    varied.layouts.rows[i].emplace_back(std::string(i == 0 ? "off" : "on"));
  const auto values = [](const SideBySide& both) {
    const auto& columns = both.rows.columns;
    const auto at = std::find(columns.begin(), columns.end(), "compile") - columns.begin();
    std::vector<Value> found;
    for (const auto& row : both.rows.rows)
      found.push_back(row[static_cast<std::size_t>(at)]);
    return found;
  };
  const std::vector<Value> each{std::string("off"), std::string("on")};
  const auto there = side_by_side(plain, varied, "sweep", one_percent);
  CHECK(values(there) == each);
  CHECK(there.only_first == 0);
  CHECK(there.only_second == 1);
  CHECK(there.winners.rows.size() == 2);
  const auto back = side_by_side(varied, plain, "sweep", one_percent);
  CHECK(values(back) == each);
  CHECK(back.only_first == 1);
  CHECK(back.only_second == 0);
  CHECK(summary_text(back, varied, plain)
            .find("plain has no compile, so it is compared with each value of it, and no "
                  "difference is certain.") != std::string::npos);
  CHECK(judge_limit(there, 0.1).code == ExitCode::done);
  CHECK(summary_text(there, plain, varied).find("plain has no compile") != std::string::npos);
  CHECK(summary_text(there, plain, varied).find("varied has no") == std::string::npos);
}

TEST_CASE("a loss that noise explains is none, one of unknown noise is kept apart") {
  const auto noisy = side_by_side(side("a", {layout("dp8", 100, 2, 0.1)}),
      side("b", {layout("dp8", 97, 2, 0.1)}), "sweep", one_percent);
  CHECK(noisy.worst_loss == 0);
  const auto once = side_by_side(side("a", {layout("dp8", 100, 1, 0)}),
      side("b", {layout("dp8", 97, 1, 0)}), "sweep", one_percent);
  CHECK(once.worst_loss == 0);
  CHECK(once.worst_open == doctest::Approx(0.03));
}

TEST_CASE("a limit stops CI at a layout that is SLOWER, and tells of one that is UNDECIDED") {
  const auto both = [](std::int64_t runs, double spread) {
    return side_by_side(side("a", {layout("dp8", 100, runs, spread)}),
        side("b", {layout("dp8", 90, runs, spread)}), "sweep", one_percent);
  };
  const auto slower = judge_limit(both(4, 0.002), 0.02);
  CHECK(slower.code == ExitCode::failed);
  CHECK(slower.sentence == "exit 1: dp8 is slower by 10.0 %; --fail-on allows less than 2.0 %.");
  const auto unknown = judge_limit(both(1, 0), 0.02);
  CHECK(unknown.code == ExitCode::done);
  CHECK(unknown.sentence ==
      "dp8 seems slower by 10.0 %, but that is UNDECIDED, so --fail-on does not count it: noise "
      "unknown: no "
      "layout ran twice on either side.");
  const auto noisy = judge_limit(both(2, 0.2), 0.02);
  CHECK(noisy.code == ExitCode::done);
  CHECK(noisy.sentence.find("95 % interval") != std::string::npos);
  CHECK(judge_limit(both(1, 0), 0.2).code == ExitCode::done);
}

TEST_CASE("of several measurements of one layout the fastest counts") {
  const auto both = side_by_side(side("a", {layout("dp8", 80, 1, 0), layout("dp8", 100, 1, 0)}),
      side("b", {layout("dp8", 100, 1, 0)}), "sweep", one_percent);
  REQUIRE(both.rows.rows.size() == 1);
  CHECK(both.counts[static_cast<std::size_t>(Difference::undecided)] == 1);
  CHECK(both.worst_loss == 0);
}
