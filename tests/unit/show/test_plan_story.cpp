// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "show/plan_view.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

// Two cells of 3 x 2 points: tp 3 never fits the world.
SweepSpec two_cells(SearchPolicy policy) {
  auto sweep = sweep_of(small_model(),
      {values("nodes", {1, 2}), values("tp", {1, 2, 3}), values("micro_batch", {1, 2})},
      {automatic("dp"), automatic("grad_accum")});
  sweep.global_batch_samples = 64;
  sweep.cluster = h100();
  sweep.search.policy = policy;
  return sweep;
}

nlohmann::json rows_of(SearchPolicy policy) {
  const auto sweep = two_cells(policy);
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  return nlohmann::json::parse(plan_story_text(plan_story(sweep, *plan), {.format = Format::json}));
}

}  // namespace

TEST_CASE("a plan's story has each launch in the plan's order and each point left out") {
  const auto sweep = two_cells(SearchPolicy::best_first);
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  const auto story = plan_story(sweep, *plan);
  REQUIRE(story.size() == 2);
  std::size_t next = 0;
  std::size_t left_out = 0;
  for (const auto& cell : story) {
    CHECK(cell.launches.size() == 4);
    for (const auto& one : cell.launches) {
      CHECK(one.point == plan->trials[next++].point);
      CHECK(one.tokens_per_s_per_gpu > 0);
      CHECK(one.fits > 0.9);
      CHECK(one.gpu_hours > 0);
    }
    left_out += cell.left_out.size();
  }
  CHECK(next == plan->trials.size());
  CHECK(left_out == plan->left_out.size());
  CHECK(story[0].launches[0].why.find("Best expected speed") == 0);
  CHECK(story[0].launches[1].why.find("% likely to beat the first.") != std::string::npos);
}

TEST_CASE("as JSON it is a row for each, with the rule of those left out") {
  const auto rows = rows_of(SearchPolicy::best_first);
  CHECK(rows.size() == 12);
  std::size_t ruled = 0;
  for (const auto& row : rows) {
    if (row["rule"].is_null()) {
      CHECK(row["launch"].get<int>() >= 1);
    } else {
      ++ruled;
      CHECK_FALSE(row["why"].get<std::string>().empty());
    }
  }
  CHECK(ruled == 4);
}

TEST_CASE("an exhaustive plan says that its order is its own") {
  for (const auto& row : rows_of(SearchPolicy::exhaustive)) {
    if (row["rule"].is_null())
      CHECK(row["why"] == "In the plan's order, because the search policy is exhaustive.");
  }
}

TEST_CASE("layouts that differ in any axis are told apart") {
  auto sweep = sweep_of(small_model(),
      {values("cp", {1, 2}), values("cp_mode", {0, 1}), values("vpp", {1, 2}),
          values("schedule", {0, 1}), values("rank_order", {0, 1}), values("bucket_mb", {25, 50}),
          values("overlap", {0, 1})},
      {values("nodes", {1}), values("pp", {2}), automatic("dp"), automatic("grad_accum")});
  sweep.global_batch_samples = 64;
  sweep.cluster = h100();
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  const auto rows =
      nlohmann::json::parse(plan_story_text(plan_story(sweep, *plan), {.format = Format::json}));
  REQUIRE(plan->trials.size() > 40);
  std::set<std::string> layouts;
  for (const auto& row : rows)
    layouts.insert(row["layout"].get<std::string>());
  CHECK(layouts.size() == rows.size());
}
