// SPDX-License-Identifier: Apache-2.0
// Our own figures over commits: a time that grows is a loss, of the commit at which it grew.
#include "tools/lab/bench_figures.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace shardsweep;

namespace {

std::string line(int day, double seconds, double rate) {
  return fmt::format(
      "{{\"commit\": \"c{0}\", \"date\": \"2026-11-{0:02}T08:00:00Z\", \"host\": \"vm\", "
      "\"figures\": {{\"plan.plan_s\": {{\"value\": {1}, \"kind\": \"time\", \"rounds\": 3, "
      "\"noise\": 0.01}}, \"plan.points_per_s\": {{\"value\": {2}, \"kind\": \"rate\", "
      "\"rounds\": 3, \"noise\": 0.01}}}}}}\n",
      day, seconds, rate);
}

/// Twenty commits; from the eleventh on planning takes a fifth longer.
std::string kept() {
  std::string text;
  for (int day = 1; day <= 20; ++day) {
    const double noise = 1 + 0.004 * ((day * 7) % 5 - 2);
    text += line(day, (day > 10 ? 1.2 : 1.0) * noise, 5e5 * noise);
  }
  return text;
}

std::string why_not(const std::string& text) {
  const auto history = history_of_bench(text, "bench.jsonl", {}, 0.01);
  REQUIRE_FALSE(history);
  return history.error().what;
}

}  // namespace

TEST_CASE("a time that grew is slower since its commit and a rate that stayed is not") {
  const auto history = history_of_bench(kept(), "bench.jsonl", {}, 0.01);
  REQUIRE(history);
  REQUIRE(history->series.size() == 2);
  const auto& slow = history->series[0];
  CHECK(slow.title == "plan.plan_s on vm");
  CHECK(slow.verdict().difference == Difference::slower);
  REQUIRE(slow.since() < slow.points.size());
  CHECK(slow.points[slow.since()].run.software.at("commit") == "c11");
  CHECK(slow.reason() == "commit c10 -> c11");
  CHECK(history->series[1].since() == history->series[1].points.size());
  CHECK(point_sentence(slow, 0).find(" per second, commit c1.") != std::string::npos);
  const auto table = without_layouts(history_table(*history, true));
  CHECK(table.columns.front() == "figure");
  CHECK(table.rows.front().size() == table.columns.size());
}

TEST_CASE("figures are chosen by name and what is no line is refused with its place") {
  CHECK(history_of_bench(kept(), "b", {"plan.plan_s"}, 0.01)->series.size() == 1);
  CHECK(history_of_bench(kept(), "b", {"plan"}, 0.01).error().what.find("no figure is named") !=
      std::string::npos);
  CHECK(why_not("") == "bench.jsonl: no line in it");
  CHECK(why_not(kept() + "{}\n").find("bench.jsonl:21: this is no line of") == 0);
  CHECK(why_not(kept() + line(31, 1, 1)).find("bench.jsonl:21: 'date' is like") == 0);
  CHECK(why_not(line(1, -1, 1)).find("bench.jsonl:1: the figure 'plan.plan_s' has no") == 0);
}
