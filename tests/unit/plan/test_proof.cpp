// SPDX-License-Identifier: Apache-2.0
#include "plan/proof.hpp"
#include "sweep/launch.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;

namespace {

SweepSpec sweep_of_a_trainer() {
  SweepSpec sweep;
  sweep.name = "mine";
  sweep.cluster.gpus_per_node = 8;
  sweep.models = {{.name = "tiny",
      .layers = 8,
      .hidden = 64,
      .ffn = 256,
      .heads = 4,
      .kv_heads = 4,
      .vocab = 512}};
  sweep.prove = true;
  sweep.runner.trainer.argv = {"train", "--pp", "{pp}", "--nodes", "{nodes}"};
  sweep.runner.trainer.log = "megatron";
  return sweep;
}

PlannedTrial trial(std::int32_t dp, std::int32_t pp, double speed) {
  PlannedTrial one;
  one.point.seq_len = 32;
  one.point.layout.dp = dp;
  one.point.layout.pp = pp;
  one.point.gpus = dp * pp;
  one.point.nodes = dp * pp / 8;
  one.prediction.tokens_per_s_per_gpu = speed;
  return one;
}

}  // namespace

TEST_CASE("first, middle and last stage of the fastest predicted layouts of each cell") {
  const SweepSpec sweep = sweep_of_a_trainer();
  Plan plan;
  plan.trials = {trial(16, 1, 9), trial(8, 2, 10), trial(4, 4, 11), trial(2, 8, 3)};
  const Proof proof = make_proof(sweep, plan);
  CHECK(proof.sweep.name == "mine-proof");
  CHECK(proof.sweep.proof_of == "mine");
  CHECK_FALSE(proof.sweep.prove);
  // 4 x 4 has three stages of its own, 8 x 2 two, 16 x 1 one; 2 x 8 is slower than three
  // others.
  REQUIRE(proof.plan.trials.size() == 6);
  std::string ranks;
  for (const auto& one : proof.plan.trials) {
    CHECK(one.point.gpus == 1);
    CHECK(one.point.layout.world() == 16);
    const AttemptSpec spec = attempt_spec(proof.sweep, one.point, {.slots_per_node = 8});
    CHECK(spec.world == 1);
    CHECK(spec.trainer->fake_world == 16);
    // The trainer hears of the world that it pretends.
    CHECK(spec.argv.back() == "2");
    ranks += std::to_string(spec.trainer->fake_rank) + " ";
  }
  CHECK(ranks == "0 8 12 0 8 0 ");
}

TEST_CASE("the ranks of a proof run as the trials of its sweep do, and have no finals") {
  SweepSpec sweep = sweep_of_a_trainer();
  sweep.measure = {.warmup = 1, .steps = 20, .first = 5, .finalists = 3, .node_sets = 2};
  Plan plan;
  plan.trials = {trial(4, 4, 11)};
  const Proof proof = make_proof(sweep, plan);
  CHECK(proof.sweep.measure == Measure{.warmup = 1, .steps = 5});
}

TEST_CASE("what ranks have shown is their layout's: the largest peak, and one OOM is enough") {
  const SweepSpec sweep = sweep_of_a_trainer();
  Plan plan;
  plan.trials = {trial(4, 4, 11), trial(8, 2, 10)};
  const Proof proof = make_proof(sweep, plan);
  const auto& trials = proof.plan.trials;
  REQUIRE(trials.size() == 5);
  const auto shown = proved(proof.sweep,
      {{trials[0].point, true, 100, 0.5}, {trials[1].point, true, 300, 0.7},
          {trials[2].point, true, 200, 0}, {trials[3].point, true, 400, 0},
          {trials[4].point, false, 0, 0}});
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].point == plan.trials[0].point);
  CHECK(shown[0].fits);
  CHECK(shown[0].peak_bytes == 300);
  CHECK(shown[0].slowest_step_s == doctest::Approx(0.7));
  CHECK(shown[1].point == plan.trials[1].point);
  CHECK_FALSE(shown[1].fits);
}
