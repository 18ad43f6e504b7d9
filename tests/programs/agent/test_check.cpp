// SPDX-License-Identifier: Apache-2.0
// The check of nodes: the first act of an allocation, with real node agents. srun is a script
// here, the GPU's driver that of tests/tools/fakes.
#include "programs/agent/allocation.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

struct CheckedNode : Allocation {
  CheckedNode() {
    spec.limits.check_home_s = no_limit_s;
    spec.limits.check_limit_s = no_limit_s;
    spec.limits.check_hook_s = no_limit_s;
    spec.check.emplace();
  }
  std::vector<Checked> checked() {
    std::vector<Checked> all;
    for (const FromLead& line : lines()) {
      if (const auto* one = std::get_if<Checked>(&line.body)) all.push_back(*one);
    }
    return all;
  }
  /// It runs to its end, which is the check's.
  Checked failed() {
    assign({"result"}, 1);
    start();
    REQUIRE(wait_exit() == 0);
    REQUIRE(checked().size() == 1);
    CHECK(revoked() == std::vector<AttemptId>{1});
    CHECK(!said<Started>());
    REQUIRE(findings().size() == 1);
    CHECK(findings().front().kind == EvidenceKind::check);
    CHECK(findings().front().detail == checked().front().detail);
    CHECK(bye() == "node local fails its check: " + checked().front().detail);
    return checked().front();
  }
  /// What it is given runs after it.
  Checked passed() {
    assign({"result"}, 1);
    start();
    CHECK(wait_ended(1).ending.outcome == Outcome::completed);
    REQUIRE(checked().size() == 1);
    CHECK(checked().front().detail.empty());
    CHECK(findings().empty());
    return checked().front();
  }
  /// A microbenchmark that prints this.
  void gemm_says(const std::string& text, const std::string& name = "bench") {
    put_on_path(name, "echo '" + text + "'\n");
    spec.check->gemm = {(folder().path() / "bin" / name).string()};
    spec.limits.check_gemm = 0.8;
  }
  /// With the driver of tests/tools/fakes.
  void gpu(const std::string& fields) {
    environment["LD_LIBRARY_PATH"] = SHARDSWEEP_FAKES_DIR "/new";
    environment["FAKE_NVML"] = folder().write("gpus", fields + "\n").string();
    environment["CUDA_VISIBLE_DEVICES"] = "0";
    spec.check->gpu_slack_bytes = 1e9;
    spec.limits.check_memory = 1e-9;
    spec.limits.check_clocks = 0.8;
  }
};

struct TwoCheckedNodes : CheckedNode {
  TwoCheckedNodes() {
    spec.launch = LaunchMode::agents;
    spec.nodes = 2;
    spec.slots_per_node = every.ranks_per_node = 1;
    put_on_path("srun", two_node_srun);
    environment["SLURM_JOB_NODELIST"] = "n[7-8]";
    environment["SLURMD_NODENAME"] = "n7";
  }
};

}  // namespace

TEST_CASE("a node that is well is checked before the first attempt") {
  CheckedNode node;
  node.spec.limits.check_memory = 1e-9;
  node.spec.check->programs = {"/bin/sh"};
  node.gemm_says(R"({"gemm_gflops": 12.5, "x": 1})");
  const Checked checked = node.passed();
  CHECK(checked.node == "local");
  CHECK(!checked.facts.device.empty());
  CHECK(checked.facts.gemm_flops == 12.5e9);
  CHECK(checked.facts.host_free > 0);
  // What can't be made or judged is named.
  CHECK(checked.facts.unmade ==
      std::vector<std::string>{"gpu memory: this node has no NVIDIA GPU",
          "gemm: 12.5 GFLOP/s, not judged, because fewer than 3 nodes with this device were "
          "measured"});
}

TEST_CASE("a node that fails a check is named, and what it was given goes back") {
  CheckedNode node;
  std::string wanted;
  SUBCASE("a program that it does not see") {
    node.spec.check->programs = {"/nowhere/train"};
    wanted = "programs: /nowhere/train: No such file or directory";
  }
  SUBCASE("a microbenchmark that fails") {
    node.put_on_path("bench", "echo no GPU; exit 3\n");
    node.gemm_says("no GPU");
    wanted = "gemm: " + node.spec.check->gemm.front() + " ended with 0: no GPU";
  }
  SUBCASE("a line of the site's own") {
    node.spec.check->before = {"true", "echo first; echo GPU 3 is ill >&2; exit 7", "false"};
    wanted = "before: 'echo first; echo GPU 3 is ill >&2; exit 7' ended with 7: GPU 3 is ill";
  }
  SUBCASE("one that does not end") {
    node.spec.limits.check_hook_s = at_once_s;
    node.spec.check->before = {"exec tail -f /dev/null"};
    wanted = "before: 'exec tail -f /dev/null' took longer than 0.2 s";
  }
  SUBCASE("memory that others hold") {
    node.spec.limits.check_memory = 1;
    node.assign({"result"}, 1);
    node.start();
    REQUIRE(node.wait_exit() == 0);
    CHECK(node.findings().front().detail.starts_with("memory: "));
    return;
  }
  SUBCASE("memory of a GPU that is held") {
    node.gpu("device|NVIDIA H100 80GB HBM3|GPU-aa|4000000000|80000000000|0|0");
    wanted = "gpu memory: 3.7 GiB of a GPU's memory are in use before anything runs";
  }
  SUBCASE("a GPU that counts errors") {
    node.gpu("device|NVIDIA H100 80GB HBM3|GPU-aa|0|80000000000|2|0");
    wanted = "gpu: GPU 0 counts 2 uncorrected memory errors";
  }
  CHECK(node.failed().detail == wanted);
}

TEST_CASE("a node that gives no answer is named when the limit is over") {
  CheckedNode node;
  node.spec.limits.check_limit_s = at_once_s;
  node.spec.limits.check_hook_s = at_once_s;
  // Not even `timeout` ends.
  node.put_on_path("timeout", "exec tail -f /dev/null\n");
  node.spec.check->before = {"true"};
  CHECK(node.failed().detail == "answer: none within 0 s");
}

TEST_CASE("of two nodes the one that fails is named, and what both fail is nobody's") {
  TwoCheckedNodes job;
  std::string blamed;
  SUBCASE("one") {
    job.spec.check->before = {"test $SLURMD_NODENAME = n7"};
    blamed = "n8";
  }
  SUBCASE("both") {
    job.spec.check->programs = {"/nowhere/train"};
  }
  job.assign({"result"}, 2);
  job.start();
  REQUIRE(job.wait_exit() == 0);
  CHECK(job.revoked() == std::vector<AttemptId>{1});
  CHECK(job.checked().size() == 2);
  if (blamed.empty()) {
    CHECK(job.findings().empty());
    CHECK(job.bye() ==
        "all 2 nodes fail their check, so no node is to blame: programs: /nowhere/train: No "
        "such file or directory (on n7)");
  } else {
    REQUIRE(job.findings().size() == 1);
    CHECK(job.findings().front().node == blamed);
  }
}

TEST_CASE("lines of the site's own run after the last attempt, and their end is evidence") {
  CheckedNode node;
  node.spec.limits.check_home_s = 0;
  const auto file = node.paths().dir / "ran";
  node.spec.check->before = {"echo before >>" + file.string()};
  node.spec.check->after = {"echo after >>" + file.string(), "exit 4"};
  node.assign({"result"}, 1);
  node.start();
  CHECK(node.wait_ended(1).ending.outcome == Outcome::completed);
  node.tell(Drain{});
  REQUIRE(node.wait_exit() == 0);
  CHECK(read_file(file) == "before\nafter\n");
  REQUIRE(node.findings().size() == 1);
  CHECK(node.findings().front().detail == "after: 'exit 4' ended with 4");
  CHECK(node.bye() == "drained");
}

TEST_CASE("two nodes time an all-reduce between them, as the last part of their check") {
  TwoCheckedNodes job;
  job.spec.limits.check_allreduce = 0.5;
  const std::string runner = std::string(SHARDSWEEP_BIN_DIR) + "/shardbench-cpu";
  job.spec.check->allreduce = {
      runner, "--microbench", "--network-probe", "alone", "--model", "tiny", "--world-size", "2"};
  bool slow = false;
  SUBCASE("nothing to compare with") {}
  SUBCASE("the check before has not ended when the pairs are told") {
    job.fail_at("node.check_said:stop");
  }
  SUBCASE("beyond what the cluster file says") {
    job.spec.check->stated_busbw = 1e15;
    slow = true;
  }
  job.assign({"result"}, 2);
  job.start();
  if (slow) {
    REQUIRE(job.wait_exit() == 0);
    CHECK(job.revoked() == std::vector<AttemptId>{1});
    REQUIRE(job.findings().size() == 2);
    for (const FoundOnNode& found : job.findings())
      CHECK(found.kind == EvidenceKind::slow_pair);
    CHECK(job.bye().starts_with(
        "the network between n7 and n8 is slow; which of the two is to blame is unknown"));
  } else {
    CHECK(job.wait_ended(1).ending.outcome == Outcome::completed);
    CHECK(job.findings().empty());
  }
  REQUIRE(job.checked().size() == 2);
  CHECK(job.checked().front().facts.busbw_bytes_per_s > 0);
  CHECK(job.checked().front().facts.busbw_bytes_per_s ==
      job.checked().back().facts.busbw_bytes_per_s);
  CHECK(job.checked().front().facts.meet.empty());
}
