// SPDX-License-Identifier: Apache-2.0
// Series from runs, what changed at a change point, and how they are printed.
#include "show/history.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

using namespace shardsweep;

namespace {

constexpr std::int64_t day = 86'400'000'000;

HistoryRun nightly_run(
    std::int64_t night, double speed, const std::string& version, const std::string& image = "a") {
  HistoryRun run;
  run.cell.model = "tiny";
  run.cell.gpus = 2;
  run.cell.seq_len = 32;
  run.layout = "dp2 tp1";
  run.sweep = "nightly";
  run.trial = "t" + std::to_string(night);
  run.id = night;
  run.ended_at = night * day;
  run.measured.speed = speed;
  run.software = {{"version", version}, {"image", image}};
  return run;
}

/// Ten nights; from the seventh on the version is 2 and the speed another one.
std::vector<HistoryRun> ten_nights(double after) {
  std::vector<HistoryRun> runs;
  for (std::int64_t night = 1; night <= 10; ++night) {
    const double wobble = night % 3 == 0 ? 1.002 : 0.999;
    runs.push_back(night < 7 ? nightly_run(night, 1000 * wobble, "1")
                             : nightly_run(night, after * wobble, "2"));
  }
  return runs;
}

}  // namespace

TEST_CASE("a change is said with what else changed there and with nothing more") {
  auto runs = ten_nights(900);
  runs[3].software["image"] = "b";
  for (std::size_t i = 6; i < runs.size(); ++i)
    runs[i].software["image"] = "b";  // which was there at full speed
  const auto history = history_of(runs, HistoryOf::layout, 0.01);
  REQUIRE(history.series.size() == 1);
  const auto& series = history.series.front();
  CHECK(series.since() == 6);
  CHECK(series.verdict().difference == Difference::slower);
  CHECK(series.reason() == "version 1 -> 2");
  CHECK(series.loss == doctest::Approx(0.1).epsilon(0.05));
  CHECK(history_sentence(series).find("SLOWER by 10.0 % since") == 0);
  CHECK(history_summary(history) == "1 series with 10 points: 1 SLOWER.");
}

TEST_CASE("a change in doubt is said since when and with its doubt") {
  auto runs = ten_nights(500);
  for (std::size_t i = 6; i < runs.size(); ++i)
    runs[i].measured.others_cpu = 0.879;
  const auto history = history_of(runs, HistoryOf::layout, 0.01);
  const auto& series = history.series.front();
  CHECK(series.since() == 6);
  CHECK(series.loss == 0);
  const auto sentence = history_sentence(series);
  CHECK(sentence.find("looks slower by 50.0 % since") == 0);
  CHECK(sentence.find("version 1 -> 2; UNDECIDED: other processes used up to 87.9 % of the CPUs") !=
      std::string::npos);
  CHECK(history_doubts(history).find("tiny, 2 GPUs, seq_len 32: dp2 tp1 looks slower by 50.0 %") ==
      0);
  CHECK(history_doubts(history_of(ten_nights(500), HistoryOf::layout, 0.01)).empty());
  const auto table = history_table(history, true);
  const auto share = std::find(table.columns.begin(), table.columns.end(), "change_share");
  const auto& value = table.rows[0][static_cast<std::size_t>(share - table.columns.begin())];
  CHECK(std::get<double>(value) == doctest::Approx(-0.5).epsilon(0.01));
}

TEST_CASE("a measurement that rerun has replaced is told of") {
  auto run = nightly_run(1, 900, "1");
  run.replaced = 1000;
  const auto history = history_of({run}, HistoryOf::layout, 0.01);
  for (const auto& table : {history_points(history), history_table(history, true)}) {
    const auto reason = std::find(table.columns.begin(), table.columns.end(), "reason");
    const auto& value = table.rows[0][static_cast<std::size_t>(reason - table.columns.begin())];
    CHECK(std::get<std::string>(value).find(
              "; an earlier result of this trial was replaced: 1,000") != std::string::npos);
  }
}

TEST_CASE("the best of a cell has a point for each software and sweep") {
  auto runs = ten_nights(1010);
  auto other = nightly_run(11, 1500, "2");
  other.layout = "dp1 tp2";
  runs.push_back(other);
  const auto history = history_of(runs, HistoryOf::cell, 0.01);
  REQUIRE(history.series.size() == 1);
  const auto& points = history.series.front().points;
  REQUIRE(points.size() == 2);
  CHECK(points[0].runs == 6);
  CHECK(points[1].run.layout == "dp1 tp2");
  CHECK(points[1].layouts.size() == 2);
  // That more layouts were measured is said, because it may be all that has happened.
  CHECK(history.series.front().reason() ==
      "version 1 -> 2, best layout dp2 tp1 -> dp1 tp2, layouts measured 1 -> 2");
  CHECK(history.series.front().verdict().open == Open::mixed_state);
  CHECK(history.series.front().verdict().reason.find("dp1 tp2 was not measured before") == 0);
  // Nor does another doubt hide that.
  runs.back().measured.others_cpu = 0.5;
  const auto loaded = history_of(runs, HistoryOf::cell, 0.01);
  CHECK(loaded.series.front().verdict().reason.find("dp1 tp2 was not measured before") == 0);
}

TEST_CASE("a cell is followed by the layouts that were measured again") {
  std::vector<HistoryRun> runs{nightly_run(1, 20480, "1"), nightly_run(2, 17067, "1")};
  runs[1].layout = "dp1 tp2";
  for (std::int64_t night = 3; night < 7; ++night) {
    runs.push_back(nightly_run(night, night == 3 ? 20480 : 10240, "1"));
    runs.back().sweep = runs.front().sweep;
    runs.back().remeasured = night == 3 ? 1 : 2;
  }
  runs[1].sweep = runs.front().sweep;
  const auto by_cell = history_of(runs, HistoryOf::cell, 0.01);
  REQUIRE(by_cell.series.size() == 1);
  const auto& series = by_cell.series.front();
  CHECK(series.of == HistoryOf::layout);
  CHECK(series.points.size() == 5);
  CHECK(series.since() == 2);
  CHECK(series.verdict().difference == Difference::slower);
  CHECK(series.loss == doctest::Approx(0.5).epsilon(0.01));
  const auto by_layout = history_of(runs, HistoryOf::layout, 0.01);
  REQUIRE(by_layout.series.size() == 2);
  CHECK(by_layout.series.front().verdict().reason == series.verdict().reason);
}

TEST_CASE("a series too short for a noise of its own has that of repeated runs") {
  std::vector<HistoryRun> runs{nightly_run(1, 1000, "1"), nightly_run(2, 900, "2")};
  const auto unknown = history_of(runs, HistoryOf::layout, 0.01);
  CHECK(unknown.series.front().verdict().open == Open::too_little_data);
  for (std::int64_t repeat = 3; repeat < 6; ++repeat) {
    auto run = nightly_run(repeat, 500 + static_cast<double>(repeat), "2");
    run.layout = "dp1 tp2";
    runs.push_back(run);
  }
  const auto known = history_of(runs, HistoryOf::layout, 0.01);
  CHECK(known.series.front().verdict().difference == Difference::slower);
  CHECK(known.series.front().since() == 1);
}

TEST_CASE("the largest loss stands first") {
  auto runs = ten_nights(1000);
  for (auto run : ten_nights(900)) {
    run.cell.model = "other";
    runs.push_back(run);
  }
  const auto history = history_of(runs, HistoryOf::layout, 0.01);
  REQUIRE(history.series.size() == 2);
  CHECK(history.series[0].points[0].run.cell.model == "other");
  CHECK(history.series[1].loss == 0);
  CHECK(history_table(history, true).rows.size() == 2);
  CHECK(history_points(history).rows.size() == 20);
}

TEST_CASE("without a time of each run the order is that of the trials") {
  auto runs = ten_nights(900);
  for (auto& run : runs)
    run.ended_at = 0;
  const auto history = history_of(runs, HistoryOf::layout, 0.01);
  CHECK_FALSE(history.by_time);
  CHECK(history.series.front().since() == 6);
  CHECK(history_sentence(history.series.front()).find("since nightly") != std::string::npos);
}

TEST_CASE("a spark has a height for each speed and of noise it is nearly flat") {
  CHECK(spark_text({1, 2, 3}, 8, true) == "▁▅█");
  CHECK(spark_text({1, 2, 3}, 2, false) == "_#");
  CHECK(spark_text({1000, 1000.5}, 8, true) == "▄▅");
  CHECK(spark_text({}, 8, true).empty());
}
