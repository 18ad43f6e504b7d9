// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "plan/plan_cost.hpp"
#include "predict/time_model.hpp"
#include "sweep/identity.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/axis_table.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

class PlannedFilter : public PointFilter {
 public:
  explicit PlannedFilter(std::function<int(const Point&)> match) : match_(std::move(match)) {}
  int first_match(const Point& point) override { return match_(point); }
  std::optional<Fault> failure() const override { return failure_; }
  void fail(std::string what) { failure_ = Fault{FaultKind::invalid_input, std::move(what)}; }

 private:
  std::function<int(const Point&)> match_;
  std::optional<Fault> failure_;
};

SweepSpec playground() {
  auto sweep = sweep_of(llama3_8b(),
      {values("nodes", {1, 2, 4}), values("tp", {1, 2, 3, 8}), values("pp", {1, 2, 4}),
          values("micro_batch", {4, 1, 2}), values("zero", {0, 1, 3}),
          values("recompute", {0, 1, 2}), automatic("dp"), automatic("grad_accum")},
      {values("seq_len", {4096})});
  sweep.models.push_back(small_model());
  sweep.axes.push_back(values("model", {0, 1}));
  sweep.global_batch_tokens = 1 << 20;
  sweep.measure.repeats = 2;
  sweep.vars = {{"nvls", {"0", "1"}}};
  return sweep;
}

Plan plan_of(const SweepSpec& sweep, PointFilter* excludes = nullptr) {
  auto plan = make_plan(sweep, any_runner(), excludes, nullptr);
  REQUIRE(plan);
  return *plan;
}

}  // namespace

TEST_CASE("every point is a trial or left out with a named constraint and a sentence") {
  const auto plan = plan_of(playground());
  CHECK(plan.points == 3 * 4 * 3 * 3 * 3 * 3 * 2 * 2 * 2);
  CHECK(plan.points == static_cast<std::int64_t>(plan.trials.size() + plan.left_out.size()));
  CHECK(plan.trials.size() > 1000);
  std::map<std::string, std::int64_t, std::less<>> counted;
  for (const auto& left : plan.left_out) {
    CHECK_FALSE(left.verdict.feasible);
    CHECK_FALSE(left.verdict.why.empty());
    ++counted[left.verdict.constraint];
  }
  CHECK(counted == plan.left_out_by_constraint);
  for (const auto& [constraint, count] : counted) {
    CHECK_FALSE(constraint.empty());
    REQUIRE(plan.examples.count(constraint) == 1);
    CHECK(plan.examples.at(constraint).verdict.constraint == constraint);
  }
  CHECK(counted.count("memory") == 1);
  CHECK(counted.count("world") == 1);
}

TEST_CASE("a lane is a lane key and ascends in micro_batch") {
  const auto sweep = playground();
  const auto plan = plan_of(sweep);
  const Identifier identifier(sweep, any_runner());
  std::set<std::string> keys;
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    const auto& trial = plan.trials[i];
    const auto key = identifier.lane_key(trial.point);
    if (i == 0 || trial.lane != plan.trials[i - 1].lane) {
      CHECK(keys.insert(key).second);
      CHECK(trial.lane == static_cast<std::int32_t>(keys.size()) - 1);
      continue;
    }
    const auto& before = plan.trials[i - 1].point;
    CHECK(key == identifier.lane_key(before));
    const auto order = [](const Point& point) {
      return std::pair(point.layout.micro_batch, point.repeat);
    };
    CHECK(order(before) < order(trial.point));
  }
}

TEST_CASE("lanes go by nodes and then by their best trial") {
  const auto plan = plan_of(playground());
  std::map<std::int32_t, double> best;
  for (const auto& trial : plan.trials)
    best[trial.lane] = std::max(best[trial.lane], trial.prediction.tokens_per_s_per_gpu);
  for (std::size_t i = 1; i < plan.trials.size(); ++i) {
    const auto& before = plan.trials[i - 1];
    const auto& trial = plan.trials[i];
    CHECK(before.point.nodes <= trial.point.nodes);
    if (before.point.nodes == trial.point.nodes) CHECK(best[before.lane] >= best[trial.lane]);
  }
}

TEST_CASE("a plan depends on its input alone and slugs and identities are unique in it") {
  const auto sweep = playground();
  const auto plan = plan_of(sweep);
  const auto again = plan_of(sweep);
  REQUIRE(plan.trials.size() == again.trials.size());
  const Identifier identifier(sweep, any_runner());
  std::set<std::string> slugs;
  std::set<std::string> identities;
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    CHECK(plan.trials[i].point == again.trials[i].point);
    CHECK(slugs.insert(identifier.slug(plan.trials[i].point)).second);
    CHECK(identities.insert(identifier.identity(plan.trials[i].point)).second);
  }
}

TEST_CASE("GPU-hours are the attempts' times on the GPUs they hold") {
  const auto sweep = playground();
  const auto plan = plan_of(sweep);
  double seconds = 0;
  for (const auto& trial : plan.trials)
    seconds += trial.prediction.attempt_s * trial.point.nodes * 8;
  CHECK(plan.gpu_hours == doctest::Approx(seconds / 3600));
}

TEST_CASE("stored points left out are bounded and counted all the same") {
  auto sweep = playground();
  const auto whole = plan_of(sweep);
  sweep.policy.max_stored_left_out = 10;
  const auto plan = plan_of(sweep);
  CHECK(plan.left_out.size() == 10);
  CHECK(plan.left_out_by_constraint == whole.left_out_by_constraint);
  CHECK(plan.examples.size() == whole.examples.size());
}

TEST_CASE("excludes that remove nothing or everything are warned of") {
  auto sweep = playground();
  sweep.vars = {};
  CHECK(plan_of(sweep).warnings.empty());
  sweep.excludes = {{"tp > 64", "", {}}, {"nodes = 4", "", {}}};
  PlannedFilter some([](const Point& point) { return point.nodes == 4 ? 1 : -1; });
  const auto one = plan_of(sweep, &some);
  REQUIRE(one.warnings.size() == 1);
  CHECK(one.warnings[0].find("exclude \"tp > 64\" matched none of the ") == 0);

  PlannedFilter all([](const Point&) { return 1; });
  const auto none = plan_of(sweep, &all);
  REQUIRE(none.warnings.size() == 3);
  CHECK(none.warnings[1].find("exclude \"nodes = 4\" matched all ") == 0);
  CHECK(none.warnings[2] ==
      "None of the 3,888 points can run: " + none.examples.at("exclude").verdict.why + ".");
  PlannedFilter both([](const Point& point) { return point.nodes == 4 ? 1 : 0; });
  CHECK(plan_of(sweep, &both).warnings[0].find("the exclude rules together matched all ") == 0);
}

TEST_CASE("vars and a budget that is too small are warned of") {
  auto sweep = playground();
  sweep.policy.max_gpu_hours = 1;
  const auto plan = plan_of(sweep);
  REQUIRE(plan.warnings.size() == 2);
  CHECK(plan.warnings[0] == "Predictions ignore the variable nvls.");
  CHECK(plan.warnings[1].find("limits.max_gpu_hours is 1. ") != std::string::npos);
}

TEST_CASE("memory in decimal units and tp across nodes are warned of") {
  auto sweep = playground();
  sweep.vars = {};
  sweep.cluster.memory_bytes = 94'000'000'000;
  const auto decimal = plan_of(sweep).warnings;
  REQUIRE(decimal.size() == 1);
  CHECK(decimal[0].find("94 GiB") != std::string::npos);
  sweep.cluster.memory_bytes = std::int64_t{95830} << 20;
  CHECK(plan_of(sweep).warnings.empty());
  sweep.cluster.gpus_per_node = 2;
  const auto wide = plan_of(sweep).warnings;
  REQUIRE(wide.size() == 1);
  CHECK(wide[0].find("2 GPUs") != std::string::npos);
}

TEST_CASE("a trainer's step that may outlast step_limit, and axes that are off, are warned of") {
  auto sweep = playground();
  sweep.vars = {};
  sweep.runner.trainer.argv = {"train"};
  double longest_s = 0;
  for (const auto& trial : plan_of(sweep).trials)
    longest_s = std::max(longest_s, trial.prediction.train_step_s);
  REQUIRE(longest_s > 0);
  const auto said = [&](const char* word) {
    const auto warnings = plan_of(sweep).warnings;
    return std::any_of(warnings.begin(), warnings.end(),
        [&](const std::string& warning) { return warning.find(word) != std::string::npos; });
  };
  sweep.policy.attempt.step_limit_s = 3 * longest_s;
  CHECK(!said("step_limit"));
  sweep.policy.attempt.step_limit_s = longest_s;
  CHECK(said("step_limit"));
  sweep.runner.trainer.argv.clear();
  CHECK(!said("step_limit"));

  sweep.runner.trainer.argv = {"train"};
  std::erase_if(
      sweep.axes, [](const AxisValues& values) { return values.axis->name == "recompute"; });
  std::erase_if(
      sweep.constants, [](const AxisValues& values) { return values.axis->name == "recompute"; });
  sweep.constants.push_back({find_axis("recompute"), false, {0}});
  CHECK(!said("recompute none"));
  sweep.cluster.memory_bytes = std::int64_t{1} << 30;
  CHECK(said("recompute none"));
}

TEST_CASE("a search is warned of by what it may run at most") {
  auto sweep = playground();
  sweep.search.policy = SearchPolicy::best_first;
  sweep.search.until = {.runs = 3};
  auto plan = plan_of(sweep);
  // Two models on three node counts, each with two values of the variable.
  auto bound = search_bound(sweep, plan);
  CHECK(bound.runs == 2 * 3 * 2 * 3);
  CHECK(bound.binds);
  CHECK(bound.gpu_hours < plan.gpu_hours / 10);
  sweep.policy.max_gpu_hours = bound.gpu_hours * 1.01;
  CHECK(plan_of(sweep).warnings.size() == 1);
  sweep.policy.max_gpu_hours = bound.gpu_hours * 0.5;
  plan = plan_of(sweep);
  REQUIRE(plan.warnings.size() == 2);
  CHECK(plan.warnings[1].find("The search needs at most about ") == 0);
  CHECK(plan.warnings[1].find("The last trials may not run.") != std::string::npos);
  sweep.search.until = {.regret = 0.05};
  bound = search_bound(sweep, plan);
  CHECK(bound.runs == static_cast<std::int64_t>(plan.trials.size()));
  CHECK_FALSE(bound.binds);
  sweep.search.until = {.gpu_hours = plan.gpu_hours / 100};
  CHECK(search_bound(sweep, plan).gpu_hours < plan.gpu_hours);
}

TEST_CASE("an expression that fails while it is evaluated is a fault") {
  PlannedFilter broken([](const Point&) { return -1; });
  broken.fail("exclude 'abs(x)': integer overflow");
  const auto plan = make_plan(playground(), any_runner(), &broken, nullptr);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().what == "exclude 'abs(x)': integer overflow");
}

TEST_CASE("a sweep of hand-picked points alone is planned") {
  auto sweep = sweep_of(small_model(), {automatic("dp")});
  sweep.points = {{{values("nodes", {1}), values("tp", {4})}, {}, {}}};
  const auto plan = plan_of(sweep);
  REQUIRE(plan.trials.size() == 1);
  CHECK(plan.trials[0].point.layout.dp == 2);
}

TEST_CASE("replicas that do not divide dp have no cost") {
  // dp 1 in two replicas leaves no rank to shard over, and the predictor has no such world.
  const auto sweep = sweep_of(llama3_8b(), {values("dp", {1}), values("dp_replicate", {2})},
      {values("gpus", {1}), values("seq_len", {4096})});
  const auto plan = make_plan(sweep, any_runner(), nullptr, nullptr);
  REQUIRE(plan);
  CHECK(plan->left_out_by_constraint.at("dp_replicate") == 1);
  CHECK(plan->left_out_gpu_hours.empty());
}
