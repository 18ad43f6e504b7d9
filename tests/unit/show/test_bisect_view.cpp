// SPDX-License-Identifier: Apache-2.0
// What trials of a bisection say: which are pairs, which version is broken, and in which words.
#include "show/bisect_view.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;

namespace {

std::vector<BisectVersion> versions_of(std::size_t count) {
  std::vector<BisectVersion> versions;
  for (std::size_t i = 0; i < count; ++i)
    versions.push_back({std::string(40, static_cast<char>('a' + i)),
        std::string(12, static_cast<char>('a' + i)), "Ada: change"});
  return versions;
}

BisectRun measured(
    const BisectVersion& version, std::int64_t pair, double step_ms, std::int64_t allocation = 1) {
  return {.version = version.name,
      .pair = pair,
      .outcome = "completed",
      .allocation = allocation,
      .speed = 1e5 / step_ms,
      .step_ms = step_ms};
}

BisectRun failed(const BisectVersion& version, std::int64_t pair, std::string outcome) {
  return {.version = version.name,
      .pair = pair,
      .outcome = std::move(outcome),
      .cause = "the cause",
      .allocation = 1};
}

}  // namespace

TEST_CASE("two runs of one number in one allocation are a pair") {
  const auto versions = versions_of(3);
  std::vector<BisectRun> runs{measured(versions[0], 1, 100), measured(versions[2], 1, 105),
      measured(versions[2], 2, 106), measured(versions[0], 2, 100), measured(versions[0], 3, 100),
      measured(versions[2], 3, 105, 2)};
  const auto record = bisect_record(versions, runs, {});
  const BisectStep step{0, 2};
  REQUIRE(record.steps == std::vector{step});
  const auto& pairs = record.facts.measured.at(step);
  CHECK(pairs.slower_by.size() == 2);
  CHECK(pairs.slower_by[0] == doctest::Approx(0.04879));
  CHECK(pairs.lost == 1);
  CHECK(record.step_ms.at(step).first == doctest::Approx(100));
  CHECK(record.step_ms.at(step).second == doctest::Approx(105.5));
  CHECK(record.runs == 6);
  CHECK(record.pairs.size() == 3);
  CHECK_FALSE(record.open);
}

TEST_CASE("a version of which each run ended by its own fault is broken") {
  const auto versions = versions_of(4);
  std::vector<BisectRun> runs{measured(versions[0], 1, 100), failed(versions[1], 1, "crashed"),
      measured(versions[0], 2, 100), failed(versions[2], 2, "node_failure"),
      measured(versions[0], 3, 100), measured(versions[3], 3, 100), measured(versions[0], 4, 100),
      failed(versions[3], 4, "crashed")};
  const auto record = bisect_record(versions, runs, {});
  CHECK(record.facts.broken == std::vector<bool>{false, true, false, false});
  CHECK(record.broken.at(1) == "the cause");
  // What a node did says nothing of the version.
  CHECK(record.facts.measured.at({0, 2}).lost == 1);
  CHECK(record.facts.measured.at({0, 3}).lost == 1);
}

TEST_CASE("a run that has not ended leaves its pair open and breaks nothing") {
  const auto versions = versions_of(2);
  auto open = failed(versions[1], 1, "");
  open.open = true;
  const auto record = bisect_record(versions, {measured(versions[0], 1, 100), open}, {});
  CHECK(record.open);
  CHECK(record.broken.empty());
}

TEST_CASE("the answer names the version first and then what it rests on") {
  const auto versions = versions_of(3);
  std::vector<BisectRun> runs;
  for (std::int64_t pair = 1; pair <= 6; ++pair) {
    runs.push_back(measured(versions[0], pair, 100));
    runs.push_back(measured(versions[2], pair, 105));
  }
  for (std::int64_t pair = 7; pair <= 8; ++pair) {
    runs.push_back(measured(versions[0], pair, 100));
    runs.push_back(measured(versions[1], pair, 105));
  }
  const auto record = bisect_record(versions, runs, {});
  const auto decision = decide_bisect(record.facts, {});
  REQUIRE(decision.end == BisectEnd::found);
  const auto lines = bisect_answer(versions, record, decision);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] ==
      "bbbbbbbbbbbb made it slower by 5.0 % than aaaaaaaaaaaa, which is before it (95 % "
      "interval 5.0 to 5.0 %, 2 pairs).");
  CHECK(lines[1] == "Ada: change");
  CHECK(lines[2] ==
      "cccccccccccc is slower by 5.0 % than aaaaaaaaaaaa (95 % interval 5.0 to 5.0 %, 6 "
      "pairs).");
  CHECK(lines[3] == "16 runs in 2 steps.");
  const auto table = bisect_table(versions, record, decision);
  REQUIRE(table.rows.size() == 2);
  CHECK(std::get<std::string>(table.rows[1][3]) == "SLOWER");
}

TEST_CASE("what cannot be measured is listed with its reason") {
  const auto versions = versions_of(4);
  std::vector<BisectRun> runs;
  for (std::int64_t pair = 1; pair <= 6; ++pair) {
    runs.push_back(measured(versions[0], pair, 100));
    runs.push_back(measured(versions[3], pair, 105));
  }
  const auto record =
      bisect_record(versions, runs, {{1, "no compiler"}, {2, "no compiler either"}});
  const auto decision = decide_bisect(record.facts, {});
  REQUIRE(decision.end == BisectEnd::range);
  const auto lines = bisect_answer(versions, record, decision);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] ==
      "It became slower after aaaaaaaaaaaa: because of dddddddddddd, or of one of the 2 before it, "
      "which cannot be measured:");
  CHECK(lines[2] == "cccccccccccc: no compiler either");
}
