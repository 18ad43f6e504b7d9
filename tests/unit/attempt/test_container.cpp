// SPDX-License-Identifier: Apache-2.0
#include "attempt/container.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;

namespace {

using Words = std::vector<std::string>;

ContainerSpec some_container(ContainerRuntime runtime, const std::string& image) {
  ContainerSpec container;
  container.runtime = runtime;
  container.image = image;
  container.mounts = {"/data", "/a:/b:ro"};
  container.env = {{"HF_HOME", "/data/hf"}, {"NCCL_ALGO", "Tree"}};
  container.options = {"--extra"};
  return container;
}

/// NCCL_ALGO is the sweep's, and wins over the container's.
RankStart some_rank() {
  return {{"python3", "train.py"},
      {"PATH=/bin", "HOME=/home/me", "NCCL_ALGO=Ring", "CUDA_VISIBLE_DEVICES=3,4", "RANK=3",
          "WORLD_SIZE=8", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=n1",
          "MASTER_PORT=29500", "SHARDSWEEP_MARKER=t/7/n1"},
      "/scratch/run"};
}

const ContainerPlace on_gpus{.token = "t", .job = "42", .node = "n1", .has_gpus = true};

const Words inside{"env", "LOCAL_RANK=3", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=n1",
    "MASTER_PORT=29500", "RANK=3", "WORLD_SIZE=8", "python3", "train.py"};

const Words named{"CUDA_VISIBLE_DEVICES=3,4", "HF_HOME=/data/hf", "LOCAL_RANK=3",
    "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=n1", "MASTER_PORT=29500", "NCCL_ALGO=Ring", "RANK=3",
    "SHARDSWEEP_MARKER=t/7/n1", "WORLD_SIZE=8"};

Words with_flags(const char* flag, const Words& values) {
  Words words;
  for (const auto& value : values) {
    words.emplace_back(flag);
    words.push_back(value);
  }
  return words;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

RankStart started(
    ContainerRuntime runtime, const std::string& image, const ContainerPlace& place = on_gpus) {
  return entered(some_container(runtime, image), some_rank(), place);
}

}  // namespace

TEST_CASE("enroot: made from the file once, and the rank enters it by its name") {
  const auto container = some_container(ContainerRuntime::enroot, "/images/a.sqsh");
  const Words make = make_command(container, on_gpus);
  REQUIRE(make.size() == 6);
  const std::string& name = make[4];
  CHECK(make == Words{"enroot", "create", "-f", "-n", name, "/images/a.sqsh"});
  CHECK(name.starts_with("shardsweep-t-"));
  CHECK(remove_command(container, on_gpus) == Words{"enroot", "remove", "-f", name});
  const RankStart start = entered(container, some_rank(), on_gpus);
  CHECK(start.argv ==
      Words{"enroot", "start", "--extra"} + with_flags("-e", named) +
          Words{"-e", "NVIDIA_VISIBLE_DEVICES=all", "-m", "/data:/data", "-m",
              "/a:/b:none:x-create=auto,rbind,ro", name, "sh", "-c", "cd -- \"$0\" && exec \"$@\"",
              "/scratch/run"} +
          inside);
  // Another image of the same allocation has another name.
  CHECK(
      make_command(some_container(ContainerRuntime::enroot, "/images/b.sqsh"), on_gpus)[4] != name);
}

TEST_CASE("enroot: a container that is there already is made by nobody") {
  const auto container = some_container(ContainerRuntime::enroot, "mine");
  CHECK(make_command(container, on_gpus).empty());
  CHECK(remove_command(container, on_gpus).empty());
  const Words argv = entered(container, some_rank(), on_gpus).argv;
  CHECK(std::count(argv.begin(), argv.end(), "mine") == 1);
}

TEST_CASE("pyxis: srun makes the container, and the rank enters it without another srun") {
  const auto container = some_container(ContainerRuntime::pyxis, "nvcr.io#nvidia/pytorch:24.05");
  const Words make = make_command(container, on_gpus);
  REQUIRE(make.size() == 11);
  const std::string name = make[9].substr(17, make[9].size() - 17 - 7);
  CHECK(make ==
      Words{"srun", "-N1", "-n1", "--overlap", "--cpu-bind=none", "--mpi=none", "-w", "n1",
          "--container-image=nvcr.io#nvidia/pytorch:24.05", "--container-name=" + name + ":create",
          "true"});
  CHECK(remove_command(container, on_gpus).empty());  // pyxis does when the job ends
  const Words argv = entered(container, some_rank(), on_gpus).argv;
  CHECK(argv[1] == "start");
  CHECK(std::count(argv.begin(), argv.end(), "pyxis_42_" + name) == 1);
}

TEST_CASE("apptainer: variables arrive by their prefix, commas and all") {
  const RankStart start = started(ContainerRuntime::apptainer, "/images/a.sif");
  CHECK(start.argv ==
      Words{"apptainer", "exec", "--nv", "--pid", "--cleanenv", "--no-home", "--extra", "--bind",
          "/data:/data", "--bind", "/a:/b:ro", "--pwd", "/scratch/run", "/images/a.sif"} +
          inside);
  Words prefixed;
  for (const auto& one : named)
    prefixed.push_back("APPTAINERENV_" + one);
  CHECK(start.environment == some_rank().environment + prefixed);
  CHECK(started(ContainerRuntime::apptainer, "x.sif", {}).argv[2] == "--pid");
}

TEST_CASE("podman-hpc: one container for each rank, with the host's network and memory") {
  const RankStart start = started(ContainerRuntime::podman_hpc, "docker.io/a/b:1");
  CHECK(start.argv ==
      Words{"podman-hpc", "run", "--rm", "--network=host", "--ipc=host", "--gpu", "--extra"} +
          with_flags("-e", named) +
          Words{"-v", "/data:/data", "-v", "/a:/b:ro", "-w", "/scratch/run",
              "--entrypoint=", "docker.io/a/b:1"} +
          inside);
}

TEST_CASE("podman-hpc: the image is fetched once, and what is killed is removed by its owner") {
  const auto container = some_container(ContainerRuntime::podman_hpc, "docker.io/a/b:1");
  const Words make = make_command(container, on_gpus);
  REQUIRE(make.size() == 4);
  CHECK(make[3] == container.image);
  ContainerPlace owned = on_gpus;
  owned.name = "shardsweep-t-7-3";
  owned.owner = ContainerOwner{"n1", "pid:[4026531836]", 55, 600}.text();
  const Words argv = entered(container, some_rank(), owned).argv;
  CHECK(Words(argv.begin() + 6, argv.begin() + 10) ==
      Words{
          "--name", "shardsweep-t-7-3", "--label", "shardsweep.owner=n1/pid:[4026531836]/55/600"});
  CHECK(remove_left_command(container, owned.owner).back() == "label=" + argv[9]);
  CHECK(list_owners_command(container).back() == "{{index .Labels \"shardsweep.owner\"}}");
  for (const auto other : {ContainerRuntime::none, ContainerRuntime::pyxis,
           ContainerRuntime::enroot, ContainerRuntime::apptainer, ContainerRuntime::shifter}) {
    CHECK(remove_left_command(some_container(other, "x"), "o").empty());
    CHECK(list_owners_command(some_container(other, "x")).empty());
  }
}

TEST_CASE("containers of an owner who is gone are found, and those of others are let alone") {
  const ContainerOwner self{"n1", "pid:[4]", 55, 600};
  const auto lives = [](const ContainerOwner& one) { return one.pid == 55 && one.start == 600; };
  CHECK(gone_owners("n1/pid:[4]/55/600\n"  // this one
                    "n1/pid:[4]/56/600\n"  // killed, with two containers
                    "n1/pid:[4]/56/600\n"
                    "n1/pid:[4]/55/599\n"  // its number was given again
                    "n1/pid:[5]/57/1\n"    // in a job with processes of its own
                    "n2/pid:[4]/58/1\n"    // another host's, over shared storage
                    "n1/pid:[4]/-/1\n\nnoise\n",
            self, lives) == Words{"n1/pid:[4]/56/600", "n1/pid:[4]/55/599"});
}

TEST_CASE("shifter: a site sets variables behind its options, so all of ours are set inside") {
  const RankStart start = started(ContainerRuntime::shifter, "docker:a/b:1");
  CHECK(start.argv ==
      Words{"shifter", "--image=docker:a/b:1", "--volume=/data:/data", "--volume=/a:/b:ro",
          "--workdir=/scratch/run", "--extra", "env"} +
          named + Words{"python3", "train.py"});
}

TEST_CASE("without a container nothing changes") {
  const RankStart start = started(ContainerRuntime::none, "x");
  CHECK(start.argv == some_rank().argv);
  CHECK(start.environment == some_rank().environment);
}

TEST_CASE("variables of a step's task are known by their names") {
  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_ID",
           "PMI_RANK", "PMIX_NAMESPACE", "PALS_RANKID", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"})
    CHECK(is_of_a_task(name));
  for (const char* name : {"PATH", "RANK", "SLURMX", "NCCL_SOCKET_IFNAME"})
    CHECK(!is_of_a_task(name));
}

TEST_CASE("an image tells which one it is as far as its runtime knows") {
  CHECK(digest_command(some_container(ContainerRuntime::podman_hpc, "a/b:1")) ==
      Words{"podman-hpc", "image", "inspect", "--format", "{{.Digest}}", "a/b:1"});
  CHECK(digest_command(some_container(ContainerRuntime::shifter, "docker:a/b:1")) ==
      Words{"shifterimg", "lookup", "docker:a/b:1"});
  CHECK(digest_command(some_container(ContainerRuntime::enroot, "a.sqsh")).empty());
  std::string sif(32, 'x');
  sif += std::string("SIF_MAGIC\0", 10) + std::string("01\0", 3) + std::string("02\0", 3);
  CHECK(digest_in_file(sif).empty());
  for (char c = 1; c <= 16; ++c)
    sif += c;
  CHECK(digest_in_file(sif) == "sif:0102030405060708090a0b0c0d0e0f10");
  CHECK(digest_in_file(std::string(96, 'x')).empty());
}

TEST_CASE("images of enroot are told apart by their superblock or their name") {
  std::string squashed = "hsqs";
  for (char c = 4; c < 96; ++c)
    squashed += c;
  CHECK(
      digest_in_file(squashed) == "sqsh:08090a0b202122232425262728292a2b2c2d2e2f4041424344454647");
  CHECK(digest_in_file(squashed.substr(0, 95)).empty());
  const std::string digest = "sha256:" + std::string(64, 'a');
  CHECK(digest_in_name("registry/a/b:1@" + digest) == digest);
  CHECK(digest_in_name("a/b:1").empty());
  CHECK(digest_in_name("a/b@sha256:" + std::string(63, 'a')).empty());
  CHECK(digest_in_name("a/b@sha256:" + std::string(64, 'g')).empty());
}
