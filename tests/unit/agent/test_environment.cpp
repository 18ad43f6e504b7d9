// SPDX-License-Identifier: Apache-2.0
#include "agent/containers.hpp"
#include "agent/environment.hpp"
#include "agent/options.hpp"
#include "agent/trainer_rank.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::agent;

namespace {

AttemptSpec some_spec() {
  AttemptSpec spec;
  spec.attempt = 7;
  spec.token = "3f9a01";
  spec.world = 16;
  spec.env = {{"NCCL_DEBUG", "INFO"}, {"RANK", "wrong"}};
  return spec;
}

AllocationSpec some_allocation() {
  AllocationSpec spec;
  spec.token = "3f9a01";
  spec.nodes = 4;
  spec.slots_per_node = 8;
  spec.launch = LaunchMode::agents;
  spec.limits.agent_lease_s = 15;
  spec.limits.beat_s = 1;
  spec.limits.watch_interval_s = 0.2;
  return spec;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("no command line of a container shows a secret, and every container gets it") {
  AttemptSpec spec = some_spec();
  spec.container = ContainerSpec{};
  spec.container->image = "image.sif";
  spec.env.emplace("HF_TOKEN", "planted");
  spec.secrets = {"HF_TOKEN"};
  for (const auto runtime : {ContainerRuntime::apptainer, ContainerRuntime::enroot,
           ContainerRuntime::podman_hpc, ContainerRuntime::shifter}) {
    spec.container->runtime = runtime;
    RankProcess process{{"train"}, {"PATH=/bin", "HF_TOKEN=planted"}, "/tmp", "/tmp/out", 0, 0};
    enter_container(process, spec, {}, {}, "/tmp/attempt");
    for (const auto& word : process.argv)
      CHECK_MESSAGE(word.find("planted") == std::string::npos, word);
    CHECK(has(process.environment, "HF_TOKEN=planted"));
    if (runtime == ContainerRuntime::apptainer)
      CHECK(has(process.environment, "APPTAINERENV_HF_TOKEN=planted"));
    if (runtime == ContainerRuntime::enroot || runtime == ContainerRuntime::podman_hpc)
      CHECK(has(process.argv, "HF_TOKEN"));
  }
}

TEST_CASE("a rank sees its place and the attempt's variables and no scheduler") {
  const Environment own{"PATH=/bin", "SLURM_NTASKS=4", "PMI_RANK=1", "PMIX_SERVER=x", "RANK=9",
      "MASTER_ADDR=old", "MASTER_PORT=1", "SHARDSWEEP_X=1", "OMP_NUM_THREADS=64", "LD_PRELOAD=x",
      "SLURMD_NODENAME=n"};
  const auto environment = rank_environment(own, some_spec(), {9, 1, 8, "node-1"}, {});
  CHECK(environment ==
      Environment{"PATH=/bin", "LD_PRELOAD=x", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
          "NCCL_DEBUG=INFO", "RANK=9", "WORLD_SIZE=16", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=8",
          "SHARDSWEEP_MARKER=3f9a01/7/node-1"});
}

TEST_CASE("each slot has its GPU where there are GPUs and the attempt's word is stronger") {
  AttemptSpec spec = some_spec();
  const RankPlace place{1, 1, 2, "n"};
  CHECK(value_in(rank_environment({}, spec, place, {"4", "6"}), "CUDA_VISIBLE_DEVICES") == "6");
  CHECK(!value_in(rank_environment({}, spec, place, {}), "CUDA_VISIBLE_DEVICES"));
  spec.env["CUDA_VISIBLE_DEVICES"] = "0,1";
  spec.env["OMP_NUM_THREADS"] = "8";
  const auto environment = rank_environment({}, spec, place, {"4", "6"});
  CHECK(value_in(environment, "CUDA_VISIBLE_DEVICES") == "0,1");
  CHECK(value_in(environment, "OMP_NUM_THREADS") == "8");
}

TEST_CASE("a rank of another trainer sees the GPUs of its node, and takes its own by number") {
  AttemptSpec spec = some_spec();
  spec.trainer.emplace().log = "megatron";
  const std::vector<std::string> node{"4", "6", "GPU-c", "7"};
  for (const int local_rank : {0, 1, 2}) {
    const auto environment = rank_environment({}, spec, {local_rank, local_rank, 3, "n"}, node);
    CHECK(value_in(environment, "CUDA_VISIBLE_DEVICES") == "4,6,GPU-c");
    CHECK(value_in(environment, "LOCAL_RANK") == std::to_string(local_rank));
  }
  CHECK(!value_in(rank_environment({}, spec, {0, 0, 1, "n"}, {}), "CUDA_VISIBLE_DEVICES"));
  // So does a launcher that makes the ranks of its node itself, and it numbers them.
  spec.trainer->per_node = true;
  spec.ranks_per_node = 3;
  const RankPlace place{0, 0, 3, "n"};
  RankProcess process;
  process.environment = rank_environment({}, spec, place, node);
  complete_trainer(process, spec, place, "n1:2950");
  CHECK(value_in(process.environment, "CUDA_VISIBLE_DEVICES") == "4,6,GPU-c");
  CHECK(!value_in(process.environment, "LOCAL_RANK"));
}

TEST_CASE("the devices of a node are what Slurm gave or else one per slot") {
  using Devices = std::vector<std::string>;
  CHECK(visible_devices({"CUDA_VISIBLE_DEVICES=4,6"}, 2, false) == Devices{"4", "6"});
  CHECK(
      visible_devices({"CUDA_VISIBLE_DEVICES=GPU-a,MIG-b"}, 8, true) == Devices{"GPU-a", "MIG-b"});
  CHECK(visible_devices({}, 2, true) == Devices{"0", "1"});
  CHECK(visible_devices({}, 2, false).empty());
  for (const char* none : {"", "-1", "NoDevFiles"})
    CHECK(visible_devices({std::string("CUDA_VISIBLE_DEVICES=") + none}, 2, true).empty());
}

TEST_CASE("the one srun of an allocation") {
  const auto command = srun_command("/usr/bin/srun", some_allocation(),
      node_command("/opt/bin/shardsweep-agent", some_allocation(), ""));
  CHECK(command ==
      std::vector<std::string>{"/usr/bin/srun", "-N4", "-n4", "--ntasks-per-node=1", "--overlap",
          "--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none", "--mpi=none",
          "--export=ALL", "/opt/bin/shardsweep-agent", "node", "--slots", "8", "--lease", "15",
          "--beat", "1", "--watch", "0.2", "--token", "3f9a01"});
}

TEST_CASE("one srun of an attempt has all its ranks and keeps neighbours together") {
  AttemptSpec spec = some_spec();
  spec.ranks_per_node = 8;
  CHECK(step_command("/usr/bin/srun", spec, {"/opt/bin/shardsweep-agent", "rank"}) ==
      std::vector<std::string>{"/usr/bin/srun", "-n16", "-N2", "--ntasks-per-node=8",
          "--distribution=block", "--kill-on-bad-exit=1", "--overlap", "--cpu-bind=none",
          "--mpi=none", "--input=none", "--export=ALL", "/opt/bin/shardsweep-agent", "rank"});
  spec.world = 9;
  CHECK(step_command("/usr/bin/srun", spec, {})[2] == "-N2");
  // Slurm 24.11: "--nodes is incompatible with --distribution=arbitrary".
  const auto by_hostfile = step_command("/usr/bin/srun", spec, {}, true);
  CHECK(std::find(by_hostfile.begin(), by_hostfile.end(), "--distribution=arbitrary") !=
      by_hostfile.end());
  CHECK(std::find(by_hostfile.begin(), by_hostfile.end(), "-N2") == by_hostfile.end());
  const auto environment = step_rank_environment(
      {"SLURM_JOB_ID=7", "PMI_RANK=1", "RANK=9", "SHARDSWEEP_AGENT=x"}, spec, {9, 1, 8, "n"}, {});
  CHECK(value_in(environment, "SLURM_JOB_ID") == "7");
  CHECK(value_in(environment, "PMI_RANK") == "1");
  CHECK(value_in(environment, "RANK") == "9");
  CHECK(!value_in(environment, "SHARDSWEEP_AGENT"));
}

TEST_CASE("srun keeps the job's variables and loses those that set its options") {
  CHECK(
      srun_environment({"SLURM_JOB_ID=7", "SLURM_UNBUFFEREDIO=1", "SLURM_LABELIO=1",
          "SLURM_NTASKS=8", "SLURM_CPU_BIND_TYPE=x", "SRUN_CPUS_PER_TASK=2", "SLURM_JOB_NODELIST=n",
          "HOME=/h", "SLURM_EXPORT_ENV=NONE", "SLURM_TRES_BIND=gres/gpu:closest"}) ==
      Environment{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n", "HOME=/h"});
}

TEST_CASE("the node command reads back as it was meant") {
  auto command = node_command("agent", some_allocation(), "local");
  command.erase(command.begin());
  const auto options =
      parse_options(command, {"SLURM_PROCID=6", "SLURM_NODEID=3", "SLURMD_NODENAME=n7"});
  REQUIRE(options);
  CHECK(options->verb == Verb::node);
  CHECK(options->node.node.name == "local");
  CHECK(options->node.node.index == 0);
  CHECK(options->node.node.slots == 8);
  CHECK(options->node.lease_s == 15);
  CHECK(options->node.watch_s == 0.2);
  command = node_command("agent", some_allocation(), "");
  command.erase(command.begin());
  const auto under_srun =
      parse_options(command, {"SLURM_PROCID=6", "SLURM_NODEID=3", "SLURMD_NODENAME=n7"});
  REQUIRE(under_srun);
  CHECK(under_srun->node.node.name == "n7");
  CHECK(under_srun->node.node.index == 3);
  for (const Environment& unplaced :
      {Environment{}, {"SLURM_NODEID=3"}, {"SLURMD_NODENAME=n7", "SLURM_PROCID=3"}})
    CHECK(!parse_options(command, unplaced));
}

TEST_CASE("of a daemon's shell ranks get what finds programs, and no secret") {
  const Environment shell{"PATH=/bin", "HOME=/home/x", "LD_LIBRARY_PATH=/lib", "CONDA_PREFIX=/c",
      "LC_ALL=C", "LMOD_CMD=lmod", "TSAN_OPTIONS=x", "AWS_PROFILE=x", "HF_HOME=/hf",
      "NCCL_ALGO=Tree", "CONDA_TOKEN=planted", "EDITOR=vi"};
  CHECK(passed_on(shell) ==
      Environment{"PATH=/bin", "HOME=/home/x", "LD_LIBRARY_PATH=/lib", "CONDA_PREFIX=/c",
          "LC_ALL=C", "LMOD_CMD=lmod", "TSAN_OPTIONS=x"});
  auto here = some_allocation();
  const auto in_a_shell = [&](LaunchMode launch) {
    here.launch = launch;
    auto command = node_command("agent", here, "n");
    command.erase(command.begin());
    return parse_options(command, {}).value().node.node.in_a_shell;
  };
  CHECK(in_a_shell(LaunchMode::local));
  CHECK_FALSE(in_a_shell(LaunchMode::agents));
}

TEST_CASE("wrong command lines are told apart") {
  const auto why = [](const std::vector<std::string>& arguments) {
    return parse_options(arguments, {}).error().what;
  };
  CHECK(why({}) == "no command given");
  CHECK(why({"lad"}) == "unknown command 'lad'");
  CHECK(why({"lead"}) == "option '--dir' is missing");
  CHECK(why({"lead", "--dir"}) == "option '--dir' needs a value");
  CHECK(why({"lead", "--dir", "a", "--dir", "b"}) == "option '--dir' is given twice");
  CHECK(why({"lead", "--direction", "a"}) == "unknown option '--direction'");
  CHECK(why({"sweep-leftovers", "--token", ""}) == "option '--token' is missing");
  CHECK(why({"node", "--slots", "0", "--lease", "1", "--beat", "1", "--watch", "1"}) ==
      "option '--slots' needs a count, got '0'");
  CHECK(why({"node", "--slots", "1", "--lease", "nan", "--beat", "1", "--watch", "1"}) ==
      "option '--lease' needs seconds, got 'nan'");
}

TEST_CASE("in a container the sweep's variables are named, and the job's number stays outside") {
  AttemptSpec spec = some_spec();
  spec.env = {{"OF_THE_SWEEP", "1"}, {"BOTH", "sweep"}};
  spec.container.emplace();
  spec.container->runtime = ContainerRuntime::apptainer;
  spec.container->image = "a.sif";
  spec.container->env = {{"BOTH", "container"}, {"INSIDE", "2"}};
  RankProcess process;
  process.argv = {"train"};
  process.environment = rank_environment({"HOME=/h", "SLURM_PROCID=0"}, spec, {9, 1, 8, "n"}, {});
  process.directory = "/run";
  const RankStart inside = enter_container(process, spec, {9, "n1:2950"},
      place_of_container({"SLURM_JOB_ID=42"}, "3f9a01", false), "/attempt");
  CHECK(inside.argv == std::vector<std::string>{"train"});
  CHECK(value_in(inside.environment, "MASTER_PORT") == "2950");
  CHECK(process.directory == "/attempt");
  CHECK(value_in(process.environment, "APPTAINERENV_OF_THE_SWEEP") == "1");
  CHECK(value_in(process.environment, "APPTAINERENV_BOTH") == "sweep");
  CHECK(value_in(process.environment, "APPTAINERENV_INSIDE") == "2");
  CHECK(value_in(process.environment, "APPTAINERENV_SHARDSWEEP_RANK") == "9");
  CHECK(!value_in(process.environment, "APPTAINERENV_HOME"));
  CHECK(value_in(process.environment, "SLURM_JOB_ID") == "42");
  CHECK(!value_in(process.environment, "APPTAINERENV_SLURM_JOB_ID"));
  CHECK(!value_in(process.environment, "SLURM_PROCID"));
  CHECK(process.argv.back() == "train");
  CHECK(process.argv.at(process.argv.size() - 2).starts_with("WORLD_SIZE="));
}

TEST_CASE("in a container the first rank's environment is written when it begins") {
  AttemptSpec spec = some_spec();
  spec.container.emplace();
  spec.container->runtime = ContainerRuntime::apptainer;
  spec.container->image = "a.sif";
  RankProcess process;
  process.argv = {"train", "--fast"};
  process.environment = rank_environment({}, spec, {0, 0, 8, "n"}, {});
  const RankStart inside = enter_container(process, spec, {0, "n1:2950"}, {}, "/attempts/a b");
  CHECK(inside.argv == std::vector<std::string>{"train", "--fast"});
  const std::vector<std::string> last(process.argv.end() - 4, process.argv.end());
  CHECK(last[0] == R"((umask 077; { env -0 && echo; } >"$0") 2>/dev/null; exec "$@")");
  CHECK(last[1] == "/attempts/a b/environment");
  CHECK(last[2] == "train");
}

namespace {

/// The third stage's first rank of a world of 32, as its trainer pretends it.
RankProcess alone(const char* trainer, AttemptSpec& spec) {
  spec.world = 1;
  spec.env.clear();
  spec.trainer.emplace().log = trainer;
  spec.trainer->fake_world = 32;
  spec.trainer->fake_rank = 16;
  const RankPlace place{0, 0, 1, "n"};
  RankProcess process;
  process.argv = {"./train", "--tp", "2", "rank={rank}"};
  process.environment = rank_environment({}, spec, place, {"3"});
  complete_trainer(process, spec, place, "n1:2950");
  return process;
}

}  // namespace

TEST_CASE("alone on one GPU a rank gets its trainer's own mode, and its place in that world") {
  AttemptSpec spec = some_spec();
  const RankProcess megatron = alone("megatron", spec);
  CHECK(megatron.argv ==
      std::vector<std::string>{"./train", "--tp", "2", "rank=16", "--fake-process-group"});
  CHECK(value_in(megatron.environment, "RANK") == "16");
  CHECK(value_in(megatron.environment, "WORLD_SIZE") == "32");
  CHECK(value_in(megatron.environment, "LOCAL_RANK") == "0");
  CHECK(value_in(megatron.environment, "LOCAL_WORLD_SIZE") == "1");
  CHECK(value_in(megatron.environment, "CUDA_VISIBLE_DEVICES") == "3");
  CHECK(!value_in(megatron.environment, "COMM_MODE"));

  RankProcess titan = alone("torchtitan", spec);
  // The module reads the flag, its run_train.sh the variable.
  CHECK(titan.argv ==
      std::vector<std::string>{"./train", "--tp", "2", "rank=16", "--comm.mode=fake_backend"});
  CHECK(value_in(titan.environment, "COMM_MODE") == "fake_backend");
  CHECK(value_in(titan.environment, "NGPU") == "32");
  CHECK(value_in(titan.environment, "RANK") == "16");
  CHECK(value_in(titan.environment, "WORLD_SIZE") == "32");

  spec.container.emplace();
  spec.container->runtime = ContainerRuntime::apptainer;
  spec.container->image = "a.sif";
  (void)enter_container(titan, spec, {0, "n1:2950"}, {}, "/attempt");
  CHECK(value_in(titan.environment, "APPTAINERENV_COMM_MODE") == "fake_backend");
  CHECK(value_in(titan.environment, "APPTAINERENV_NGPU") == "32");
  CHECK(value_in(titan.environment, "APPTAINERENV_RANK") == "16");

  // plan says so of a sweep (tests/data/cases/sweep_errors/prove_without_a_mode).
  CHECK(alone("nanotron", spec).argv.size() == 4);
}

TEST_CASE("Python tells a trainer's lines when they are printed, unless its user says no") {
  AttemptSpec spec = some_spec();
  spec.trainer.emplace().log = "megatron";
  const auto told = [&] {
    const RankPlace place{9, 1, 8, "n"};
    RankProcess process;
    process.argv = {"python3", "train.py"};
    process.environment = rank_environment({}, spec, place, {});
    complete_trainer(process, spec, place, "n1:2950");
    return value_in(process.environment, "PYTHONUNBUFFERED");
  };
  CHECK(told() == "1");
  spec.env["PYTHONUNBUFFERED"] = "";
  CHECK(told() == "");
}

TEST_CASE("segments that grow join the user's own setting, wherever that stands") {
  AttemptSpec spec = some_spec();
  spec.expandable_segments = true;
  const char* name = "PYTORCH_CUDA_ALLOC_CONF";
  const RankPlace place{9, 1, 8, "n"};
  CHECK(value_in(rank_environment({}, spec, place, {}), name) == "expandable_segments:True");
  CHECK(
      value_in(rank_environment({"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"}, spec, place, {}),
          name) == "max_split_size_mb:64,expandable_segments:True");
  spec.env["PYTORCH_ALLOC_CONF"] = "expandable_segments:False";
  CHECK(value_in(rank_environment({}, spec, place, {}), "PYTORCH_ALLOC_CONF") ==
      "expandable_segments:True");
}
