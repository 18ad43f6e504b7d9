// SPDX-License-Identifier: Apache-2.0
// Changes of a series of measurements: what is said, and what is not.
#include "answer/series.hpp"
#include "unit/answer/simulated_series.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Speeds that go up and down by `noise` around a level.
std::vector<SeriesPoint> around(double level, std::size_t count, double noise) {
  std::vector<SeriesPoint> points;
  constexpr double share_of_cycle = 0.38;
  for (std::size_t i = 0; i < count; ++i) {
    const auto turn = static_cast<double>(i) * share_of_cycle;
    points.push_back({.speed = level * (1 + noise * (2 * (turn - std::floor(turn)) - 1))});
  }
  return points;
}

std::vector<SeriesPoint> joined(
    std::vector<SeriesPoint> first, const std::vector<SeriesPoint>& second) {
  first.insert(first.end(), second.begin(), second.end());
  for (std::size_t i = 0; i < first.size(); ++i)
    first[i].at = static_cast<double>(i);
  return first;
}

void set_nodes(std::vector<SeriesPoint>& points, std::size_t from, const std::string& nodes) {
  for (auto i = from; i < points.size(); ++i)
    points[i].nodes = nodes;
}

constexpr std::array watched_kinds{
    Disturbance::none, Disturbance::drift, Disturbance::nodes, Disturbance::gaps};

/// Share of steps of 3 % and 10 % that are said within so many points.
double found_in_time(double noise, std::size_t window) {
  constexpr std::uint64_t each = 25;
  std::uint64_t seed = 1;
  double steps = 0;
  double found = 0;
  for (const auto disturbance : watched_kinds) {
    for (const double step : {0.03, 0.1}) {
      for (std::uint64_t i = 0; i < each; ++i) {
        const auto series = simulated_series({disturbance, step, noise}, seed++);
        const auto at = *series.step_at;
        ++steps;
        if (watch(series, window, {at + 1, at + window}).delay) ++found;
      }
    }
  }
  return found / steps;
}

/// Of a hundred looks.
double false_alarms(double noise, std::size_t window) {
  constexpr std::uint64_t each = 4;
  std::uint64_t seed = 1;
  double alarms = 0;
  double looks = 0;
  for (const auto disturbance : watched_kinds) {
    for (const double step : {0.0, 0.01, 0.03, 0.1}) {
      for (std::uint64_t i = 0; i < each; ++i) {
        const auto watched = watch(simulated_series({disturbance, step, noise}, seed++), window);
        alarms += static_cast<double>(watched.false_alarms);
        looks += static_cast<double>(watched.looks);
      }
    }
  }
  return 100 * alarms / looks;
}

}  // namespace

TEST_CASE("a step is one change with its share and its place") {
  const auto answer = answer_of_series(joined(around(1000, 20, 0.01), around(930, 5, 0.01)));
  REQUIRE(answer.changes.size() == 1);
  const auto& change = answer.changes.front();
  CHECK(change.first == 20);
  CHECK(change.from == 0);
  CHECK(change.end == 25);
  CHECK(change.verdict.difference == Difference::slower);
  CHECK(change.verdict.share == doctest::Approx(-0.07).epsilon(0.1));
  CHECK(answer.last_sure() == &change);
  CHECK(answer.points[20] == change.verdict);
  CHECK(answer.levels[3] == doctest::Approx(1000).epsilon(0.01));
  CHECK(answer.levels[24] == doctest::Approx(930).epsilon(0.01));
}

TEST_CASE("a level that stays has no change and its points are the same or undecided") {
  const auto answer = answer_of_series(joined(around(1000, 60, 0.002), {}));
  CHECK(answer.changes.empty());
  CHECK(answer.last_sure() == nullptr);
  CHECK(answer.points[0].open == Open::too_little_data);
  CHECK(answer.points[30].difference == Difference::same);
}

TEST_CASE("a lone slow run is no change and a second one makes it one") {
  const auto once = answer_of_series(joined(around(1000, 20, 0.01), around(900, 1, 0.01)));
  CHECK(once.changes.empty());
  CHECK(once.points.back().difference == Difference::undecided);
  CHECK(once.points.back().open == Open::too_little_data);
  CHECK(once.points.back().reason.find("run it once more") != std::string::npos);
  const auto twice = answer_of_series(joined(around(1000, 20, 0.01), around(900, 2, 0.01)));
  REQUIRE(twice.changes.size() == 1);
  CHECK(twice.changes.front().first == 20);
  const auto back = answer_of_series(
      joined(joined(around(1000, 20, 0.01), around(900, 1, 0.01)), around(1000, 20, 0.01)));
  CHECK(back.changes.empty());
}

TEST_CASE("equal speeds have no noise, and another speed beside them is a change") {
  std::vector<SeriesPoint> points;
  for (int i = 0; i < 13; ++i)
    points.push_back({.speed = i < 5 ? 100.0 : 60.0, .at = static_cast<double>(i)});
  const auto answer = answer_of_series(points);
  REQUIRE(answer.changes.size() == 1);
  CHECK(answer.changes.front().first == 5);
  CHECK(answer.changes.front().verdict.difference == Difference::slower);
  CHECK(answer.loss() == doctest::Approx(0.4).epsilon(0.001));
}

TEST_CASE("a first run alone is a level if three of the next time contradict it") {
  std::vector<SeriesPoint> points{{.speed = 100, .at = 0, .time = "own"}};
  for (int i = 1; i < 4; ++i)
    points.push_back({.speed = 90 + 0.1 * i, .at = static_cast<double>(i), .time = "again"});
  const SeriesSettings settings{.elsewhere = noise_of_others({points}, {points})};
  const auto answer = answer_of_series(points, settings);
  REQUIRE(answer.changes.size() == 1);
  CHECK(answer.changes.front().first == 1);
  CHECK(answer.changes.front().verdict.difference == Difference::slower);
  for (auto& point : points)
    point.time = "own";
  CHECK(answer_of_series(points, settings).changes.empty());
}

TEST_CASE("a change is found at its place however long the series is") {
  for (const std::size_t place : {700, 2900, 3990}) {
    auto points = joined(around(1000, place, 0.01), around(960, 4000 - place, 0.01));
    const auto answer = answer_of_series(points);
    REQUIRE(answer.changes.size() == 1);
    CHECK(
        answer.changes.front().first == doctest::Approx(static_cast<double>(place)).epsilon(0.001));
    CHECK(answer.changes.front().verdict.share == doctest::Approx(-0.04).epsilon(0.1));
  }
}

TEST_CASE("a drift is no staircase of changes") {
  auto points = joined(around(1000, 60, 0.01), {});
  for (auto& point : points)
    point.speed *= 1 - 0.001 * point.at;
  const auto answer = answer_of_series(points);
  CHECK(answer.changes.empty());
  CHECK(answer.drift == doctest::Approx(-0.001).epsilon(0.2));
}

TEST_CASE("slow nodes that come and go are no changes") {
  auto points = joined(around(1000, 40, 0.005), {});
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool slow = i / 5 % 2 == 1;
    points[i].nodes = slow ? "n2" : "n1";
    if (slow) points[i].speed *= 0.95;
  }
  const auto answer = answer_of_series(points);
  CHECK(answer.changes.empty());
  CHECK(answer.by_nodes);
  for (auto& point : points)
    point.nodes.clear();
  CHECK_FALSE(answer_of_series(points).changes.empty());  // then they are all that is known
}

TEST_CASE("a step with which the nodes change may be theirs") {
  auto points = joined(around(1000, 20, 0.01), around(900, 5, 0.01));
  set_nodes(points, 0, "n1");
  CHECK(answer_of_series(points).changes.front().verdict.difference == Difference::slower);
  set_nodes(points, 20, "n2");
  const auto answer = answer_of_series(points);
  REQUIRE(answer.changes.size() == 1);
  CHECK(answer.changes.front().verdict.difference == Difference::undecided);
  CHECK(answer.changes.front().verdict.open == Open::mixed_state);
  CHECK(answer.changes.front().verdict.reason.find("from n1 to n2") != std::string::npos);
  CHECK(answer.last_sure() == nullptr);
}

TEST_CASE("a step by clocks or beside load is undecided as everywhere") {
  auto points = joined(around(1000, 20, 0.01), around(900, 5, 0.01));
  for (std::size_t i = 0; i < points.size(); ++i)
    points[i].sm_clock_mhz = i < 20 ? 1980 : 1700;
  CHECK(answer_of_series(points).changes.front().verdict.open == Open::clocks);
  for (std::size_t i = 20; i < points.size(); ++i) {
    points[i].sm_clock_mhz = 1980;
    points[i].others_cpu = 0.5;
  }
  CHECK(answer_of_series(points).changes.front().verdict.open == Open::load);
}

TEST_CASE("a change in doubt stands until one the other way") {
  const auto beside_load = [](std::vector<SeriesPoint> points, double others_cpu) {
    for (auto& point : points)
      point.others_cpu = others_cpu;
    return points;
  };
  const auto fast = around(1000, 6, 0.001);
  const auto slow = beside_load(around(500, 6, 0.001), 0.5);
  const auto dropped = answer_of_series(joined(fast, slow));
  CHECK(dropped.last_sure() == nullptr);
  REQUIRE(dropped.standing() != nullptr);
  CHECK(dropped.standing()->first == 6);
  CHECK(dropped.standing()->verdict.share == doctest::Approx(-0.5).epsilon(0.01));
  CHECK(dropped.standing()->verdict.open == Open::load);
  // One more of the kind hides nothing: neither a small one the same way, nor one back that is
  // small beside it.
  for (const double next : {490.0, 520.0}) {
    const auto sure = joined(fast, around(500, 6, 0.001));
    const auto more = answer_of_series(joined(sure, beside_load(around(next, 6, 0.001), 0.5)));
    REQUIRE(more.changes.size() == 2);
    REQUIRE(more.standing() != nullptr);
    CHECK(more.standing()->first == 6);
  }
  const auto back = answer_of_series(joined(joined(fast, slow), fast));
  CHECK(back.changes.size() == 2);
  CHECK(back.standing() == nullptr);
  // A small step up in doubt behind a drop in doubt hides nothing.
  const auto still =
      answer_of_series(joined(joined(fast, slow), beside_load(around(515, 6, 0.001), 0.9)));
  REQUIRE(still.standing() != nullptr);
  CHECK(still.standing()->first == 6);
  // What is sure stays, but for a gain that a drop in doubt has followed.
  const auto sure = joined(fast, around(900, 6, 0.001));
  const auto worse = answer_of_series(joined(sure, beside_load(around(700, 6, 0.001), 0.5)));
  REQUIRE(worse.standing() != nullptr);
  CHECK(worse.standing() == worse.last_sure());
  const auto gained = joined(fast, around(1100, 6, 0.001));
  const auto lost = answer_of_series(joined(gained, beside_load(around(700, 6, 0.001), 0.5)));
  REQUIRE(lost.standing() != nullptr);
  CHECK(lost.standing()->first == 12);
}

TEST_CASE("a drop among points too few to tell their noise is seen in doubt") {
  const auto one = answer_of_series(joined(around(1000, 3, 0), around(500, 1, 0)));
  CHECK(one.standing() == nullptr);
  CHECK(one.points.back().share == doctest::Approx(-0.5));
  CHECK(one.points.back().reason == "noise unknown: too few measurements");
  const auto two = answer_of_series(joined(around(1000, 3, 0), around(500, 2, 0)));
  REQUIRE(two.standing() != nullptr);
  CHECK(two.standing()->first == 3);
  CHECK(two.standing()->verdict.share == doctest::Approx(-0.5));
}

TEST_CASE("a point is compared as it was measured with what is before it") {
  const auto shares = [](const SeriesAnswer& answer) {
    std::vector<double> found;
    for (std::size_t i = 1; i < answer.points.size(); ++i)
      found.push_back(std::round(1000 * answer.points[i].share) / 1000);
    return found;
  };
  const std::vector<SeriesPoint> points = joined(joined(around(5120, 1, 0), around(6827, 1, 0)),
      joined(around(10240, 1, 0), around(5120, 1, 0)));
  const std::vector<double> one_by_one{0.333, 0.5, -0.5};
  const std::vector<SeriesPoint> first_three(points.begin(), points.end() - 1);
  CHECK(shares(answer_of_series(first_three)) == std::vector<double>{0.333, 0.5});
  // Neither an unknown noise nor one that is far smaller than the differences makes them level.
  for (const Noise elsewhere : {Noise{}, Noise{1e-5, 4}}) {
    const auto answer = answer_of_series(points, {.elsewhere = elsewhere});
    CHECK(shares(answer) == one_by_one);
    CHECK(answer.levels == std::vector<double>{5120, 6827, 10240, 5120});
  }
  // A lone slow run is no change, and is as slow as it is.
  auto lone = joined(joined(around(1000, 8, 0), around(500, 1, 0)), around(1000, 4, 0));
  const auto answer = answer_of_series(lone);
  CHECK(answer.changes.empty());
  CHECK(answer.points[8].share == doctest::Approx(-0.5));
  CHECK(answer.points[8].difference == Difference::undecided);
  CHECK(answer.points[9].share == doctest::Approx(0).epsilon(0.001));
  lone.resize(9);
  CHECK(answer_of_series(lone).points.back().share == doctest::Approx(-0.5));
}

TEST_CASE("two points are judged by the noise of others or not at all") {
  const auto points = joined(around(1000, 1, 0), around(900, 1, 0));
  const auto alone = answer_of_series(points);
  CHECK(alone.changes.empty());
  CHECK(alone.points[1].open == Open::too_little_data);
  const auto among = answer_of_series(points, {.elsewhere = {0.005, 20}});
  REQUIRE(among.changes.size() == 1);
  CHECK(among.changes.front().verdict.difference == Difference::slower);
  CHECK(noise_of_others({points}, {points}).known() == false);
  CHECK(
      noise_of_others({around(1000, 20, 0.01)}, {}).of_run == doctest::Approx(0.0058).epsilon(0.5));
}

TEST_CASE("no points and equal points have answers too") {
  CHECK(answer_of_series({}).points.empty());
  const auto answer = answer_of_series(joined(around(1000, 10, 0), {}));
  CHECK(answer.changes.empty());
  CHECK(answer.points[5].difference == Difference::same);
}

// bench_history shows the whole table.
TEST_CASE("steps of 3 % and more are found in time") {
  CHECK(found_in_time(0.01, 3) >= 0.95);
  CHECK(found_in_time(0.02, 8) >= 0.9);
}

TEST_CASE("about one alarm of a hundred looks is false") {
  // Of these few series 1.2; of the five hundred of bench_history one.
  CHECK(false_alarms(0.01, 3) <= 1.25);
  CHECK(false_alarms(0.02, 8) <= 1.25);
}
