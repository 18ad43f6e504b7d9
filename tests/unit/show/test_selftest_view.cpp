// SPDX-License-Identifier: Apache-2.0
#include "show/selftest_view.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>

using namespace shardsweep;

namespace {

std::vector<SelfTestTrial> good_trials() {
  const SelfTestTrial healthy{.slug = "a",
      .layout = "dp4",
      .fault = "none",
      .outcome = "completed",
      .ranks = 4,
      .loss = 5.347257 + 2e-6,
      .peak_memory_bytes = 1000,
      .predicted_memory_bytes = 1010,
      .bus_bandwidth = 2.5e9};
  std::vector<SelfTestTrial> trials(6, healthy);
  trials[3].fault = "fork@train";
  trials[3].leaked = 1;
  trials[4] = {.slug = "k",
      .fault = "kill@train+1",
      .outcome = "crashed",
      .cause = "rank 3 was killed by signal 9",
      .ranks = 4};
  trials[5] = {.slug = "h",
      .fault = "hang@train+1",
      .outcome = "hung",
      .cause = "no progress; rank 3 on n1 waits in all_reduce",
      .ranks = 4};
  return trials;
}

SelfTestVerdict verdict_on(const std::string& check, const std::vector<SelfTestTrial>& trials) {
  const auto verdicts = judge_selftest(trials);
  const auto found = std::find_if(
      verdicts.begin(), verdicts.end(), [&](const auto& each) { return each.check == check; });
  REQUIRE(found != verdicts.end());
  return *found;
}

}  // namespace

TEST_CASE("a machine on which everything is right passes each check") {
  const auto verdicts = judge_selftest(good_trials());
  CHECK(verdicts.size() == 6);
  for (const auto& each : verdicts)
    CHECK_MESSAGE(each.passed, each.check << ": " << each.detail);
}

TEST_CASE("one layout with another loss fails the gradients") {
  auto trials = good_trials();
  trials[1].loss += 1e-3;
  CHECK_FALSE(verdict_on("gradients", trials).passed);
  for (auto& trial : trials)
    trial.loss = 0;
  CHECK_FALSE(verdict_on("gradients", trials).passed);
  trials = good_trials();
  trials[1].outcome = "comm_error";
  trials[1].cause = "peer lost";
  const auto verdict = verdict_on("gradients", trials);
  CHECK_FALSE(verdict.passed);
  CHECK(verdict.detail == "a ended comm_error: peer lost");
}

TEST_CASE("memory beyond the prediction, a hang without its rank, an unseen process fail") {
  auto trials = good_trials();
  trials[0].peak_memory_bytes = 1300;
  CHECK_FALSE(verdict_on("memory", trials).passed);
  trials[5].cause = "no progress; rank 1 on n1 waits";
  CHECK_FALSE(verdict_on("hang", trials).passed);
  trials[3].leaked = 0;
  CHECK_FALSE(verdict_on("leak", trials).passed);
  trials[4].outcome = "completed";
  CHECK_FALSE(verdict_on("kill", trials).passed);
}

TEST_CASE("where nothing ran, nothing passes") {
  for (const auto& each : judge_selftest({}))
    CHECK_MESSAGE(!each.passed, each.check);
  auto trials = good_trials();
  for (auto& trial : trials)
    trial.outcome.clear();
  CHECK_FALSE(verdict_on("kill", trials).passed);
  CHECK(verdict_on("kill", trials).detail == "k has not ended");
}

TEST_CASE("the page has a line per check") {
  const auto table = selftest_table({{"hang", false, "why"}, {"leak", true, "how"}});
  CHECK(table.columns == std::vector<std::string>{"check", "verdict", "detail"});
  CHECK(table.rows.size() == 2);
  CHECK(std::get<std::string>(table.rows[0][1]) == "FAIL");
  CHECK(std::get<std::string>(table.rows[1][1]) == "pass");
}
