// SPDX-License-Identifier: Apache-2.0
#include "sweep/identity.hpp"
#include "sweep/launch.hpp"
#include "sweep/trainer_command.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// What follows `flag`; empty where it is not there.
std::string value_of(const std::vector<std::string>& argv, const std::string& flag) {
  const auto at = std::find(argv.begin(), argv.end(), flag);
  return at == argv.end() || at + 1 == argv.end() ? std::string() : *(at + 1);
}

}  // namespace

TEST_CASE("every axis of a layout reaches the runner as a flag") {
  Point point;
  point.layout.dp = 8;
  point.layout.dp_replicate = 2;
  point.layout.zero = 3;
  point.layout.sequence_parallel = true;
  point.layout.rank_order = RankOrder::tp_pp_dp;
  const auto argv = runner_command(sweep_of(small_model(), {}), point, {});
  CHECK(value_of(argv, "--dp") == "8");
  CHECK(value_of(argv, "--dp-replicate") == "2");
  CHECK(value_of(argv, "--zero") == "3");
  CHECK(value_of(argv, "--sequence-parallel") == "on");
  CHECK(value_of(argv, "--rank-order") == "tp-pp-dp");
  CHECK(value_of(argv, "--kv-heads") == "4");
}

TEST_CASE("the runner is told that a model ties its embeddings") {
  auto model = small_model();
  const auto untied = runner_command(sweep_of(model, {}), {}, {});
  CHECK(std::find(untied.begin(), untied.end(), "--tied-embeddings") == untied.end());
  model.tied_embeddings = true;
  CHECK(value_of(runner_command(sweep_of(model, {}), {}, {}), "--tied-embeddings") == "on");
}

TEST_CASE("a profile reaches the runner before the flags that may override it") {
  auto sweep = sweep_of(small_model(), {});
  const auto plain = runner_command(sweep, {}, {});
  CHECK(std::find(plain.begin(), plain.end(), "--profile") == plain.end());
  sweep.runner.profile = "megatron";
  const auto argv = runner_command(sweep, {}, {});
  REQUIRE(argv.size() > 3);
  CHECK(argv[1] == "--profile");
  CHECK(argv[2] == "megatron");
}

TEST_CASE("the runner's own arguments come last and so have the last word") {
  auto sweep = sweep_of(small_model(), {});
  sweep.runner.args = {"--stages", "5,3"};
  const auto argv = runner_command(sweep, {}, {});
  REQUIRE(argv.size() > 2);
  CHECK(std::vector<std::string>(argv.end() - 2, argv.end()) == sweep.runner.args);
}

TEST_CASE("a sweep that names no program gets shardbench's for its cluster") {
  auto sweep = sweep_of(small_model(), {});
  const std::string installed = "/opt/bin/shardbench-cpu";
  sweep.cluster.gpu = "H100";
  CHECK(runner_program(sweep, installed) == "/opt/bin/shardbench-cuda");
  sweep.runner.program = "mine";
  CHECK(runner_program(sweep, installed) == "/opt/bin/mine");
  sweep.runner.program = "/elsewhere/mine";
  CHECK(runner_program(sweep, installed) == "/elsewhere/mine");
  sweep.runner.program.clear();
  sweep.cluster.gpu.clear();
  CHECK(runner_program(sweep, installed) == installed);
}

TEST_CASE("a slow attempt's limit comes from its prediction where there is one") {
  auto sweep = sweep_of(small_model(), {});
  sweep.policy.slow_factor = 20;
  sweep.policy.slow_floor_s = 900;
  LaunchContext context;
  context.lane = "a lane";
  CHECK(attempt_spec(sweep, {}, context).slow_limit_s == 0);
  context.predicted_s = 10;
  CHECK(attempt_spec(sweep, {}, context).slow_limit_s == 900);
  context.predicted_s = 100;
  const AttemptSpec spec = attempt_spec(sweep, {}, context);
  CHECK(spec.slow_limit_s == 2000);
  CHECK(spec.predicted_s == 100);
  CHECK(spec.group == "a lane");
  sweep.policy.slow_factor = 0;
  CHECK(attempt_spec(sweep, {}, context).slow_limit_s == 0);
}

// N2: nobody looked at others' load unless a file asked for it, not even on this machine.
TEST_CASE(
    "others' use of the CPUs is looked at unless a file says no, and shared hosts mark "
    "nothing") {
  auto sweep = sweep_of(small_model(), {});
  const auto limit = [&sweep] { return attempt_spec(sweep, {}, {}).limits.others_cpu_limit; };
  CHECK(limit() == 1);
  sweep.cluster.shared_host = false;
  sweep.policy.attempt.others_cpu_limit = 0.25;
  CHECK(limit() == 0.25);
  sweep.cluster.shared_host = true;
  CHECK(limit() == 1);
  sweep.policy.attempt.others_cpu_limit = 0;
  CHECK(limit() == 0);
}

TEST_CASE("a trainer gets its own command line, and is told apart by it") {
  auto sweep = sweep_of(small_model(), {});
  sweep.measure.warmup = 2;
  sweep.measure.steps = 5;
  auto& trainer = sweep.runner.trainer;
  trainer.argv = {"train", "--tp={tp}", "{sequence_parallel?--sp}", "--rank={rank}",
      "{attempt_dir}/c.json", "{train_steps}"};
  trainer.log = "megatron";
  trainer.files = {{"c.json", "{\"micro\": {micro_batch}, \"keep\": \"{{tp}}\"}\n"}};
  trainer.directory = "{attempt_dir}";
  sweep.env = {
      {"CUDA_DEVICE_MAX_CONNECTIONS", "{tp>1 or cp>1?1:32}"}, {"TOKENS", "{micro_batch*seq_len}"}};
  Point point;
  point.seq_len = 64;
  point.layout.dp = 2;
  point.layout.tp = 2;
  point.layout.micro_batch = 3;
  LaunchContext context;
  context.paths.dir = "/attempts/7";
  context.slots_per_node = 8;
  context.parameters = 8030261248;
  const auto spec = attempt_spec(sweep, point, context);
  CHECK(spec.argv ==
      std::vector<std::string>{"train", "--tp=2", "--rank={rank}", "/attempts/7/c.json", "7"});
  REQUIRE(spec.trainer);
  CHECK(spec.env ==
      std::map<std::string, std::string>{{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}, {"TOKENS", "192"}});
  CHECK(spec.trainer->directory == "/attempts/7");
  CHECK(spec.trainer->tokens_per_step == 2 * 3 * 64);
  CHECK(spec.trainer->dp == 2);
  // Held against what it prints of its model, also if a recipe of its own says the model's shape.
  CHECK(spec.trainer->parameters == 8030261248);
  CHECK(trainer_files(sweep, point, "/attempts/7", 4).at("c.json") ==
      "{\"micro\": 3, \"keep\": \"{tp}\"}\n");
  point.layout.sequence_parallel = true;
  CHECK(attempt_spec(sweep, point, context).argv.at(2) == "--sp");

  const auto before = identity(sweep, {}, point);
  trainer.directory = "/elsewhere";
  CHECK(identity(sweep, {}, point) == before);
  trainer.files["c.json"] += "\n";
  CHECK(identity(sweep, {}, point) != before);
}
