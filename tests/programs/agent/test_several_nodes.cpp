// SPDX-License-Identifier: Apache-2.0
// A lead with several node agents on this host, as under one srun: who ran where, and which of
// them is slow.
#include "programs/agent/allocation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

using namespace shardsweep;
using test::Allocation;
using test::wait_until;

namespace {

// Slurm copies its stdin to every node; what they say comes mixed.
const std::string three_node_srun = R"(
while [ "${1#-}" != "$1" ]; do shift; done
place=$(mktemp -d)
mkfifo "$place/2" "$place/0"
SLURMD_NODENAME=n2 SLURM_NODEID=2 "$@" <"$place/2" &
SLURMD_NODENAME=n0 SLURM_NODEID=0 "$@" <"$place/0" &
exec 8>"$place/2" 9>"$place/0"
rm -r "$place"
tee /dev/fd/8 /dev/fd/9 8>&8 | { exec 8>&- 9>&-; SLURMD_NODENAME=n1 SLURM_NODEID=1 exec "$@"; }
exec 8>&- 9>&-
wait
)";

/// Each with GPUs of its own.
const std::string three_node_srun_with_gpus = [] {
  std::string script = three_node_srun;
  for (const char* node : {"0", "1", "2"}) {
    const std::string id = std::string("SLURM_NODEID=") + node;
    script.insert(script.find(id), std::string("FAKE_NVML=\"$FAKES/gpus") + node + "\" ");
  }
  return script;
}();

/// The numbers behind "key":[
std::vector<double> numbers(const std::string& text, const std::string& key) {
  std::vector<double> values;
  const std::size_t at = text.find("\"" + key + "\":[");
  REQUIRE(at != std::string::npos);
  const char* next = text.c_str() + at + key.size() + 4;
  for (char* end = nullptr; *next != '\0'; next = end + 1) {
    values.push_back(std::strtod(next, &end));
    if (*end != ',') break;
  }
  return values;
}

std::size_t descriptors_of(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/" + std::to_string(pid) + "/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

}  // namespace

TEST_CASE("the ranks' own times and the nodes that they ran on come in one order") {
  Allocation allocation;
  allocation.spec.launch = LaunchMode::agents;
  allocation.spec.nodes = 3;
  allocation.spec.slots_per_node = allocation.every.ranks_per_node = 2;
  allocation.put_on_path("srun", three_node_srun);
  // Rank 3 is on the second of the nodes.
  const std::vector<std::string> flags{"--layers", "2", "--hidden", "32", "--ffn", "64", "--heads",
      "2", "--vocab", "64", "--seq-len", "16", "--micro-batch", "1", "--dp", "6", "--steps", "3",
      "--fault", "slow@train:3"};
  const auto attempt = allocation.assign_training(flags, 6);
  allocation.start();
  const Ended ended = allocation.wait_ended(attempt.attempt);
  REQUIRE_MESSAGE(ended.ending.outcome == Outcome::completed, ended.ending.cause);
  CHECK(ended.nodes == std::vector<std::string>{"n0", "n1", "n2"});
  const auto records = read_attempt_records(AttemptPaths{attempt.dir});
  REQUIRE(records);
  const auto busy_ms = numbers(records->text, "busy_ms_by_rank");
  REQUIRE(busy_ms.size() == 6);
  // It sleeps so long; the others may be as slow only on a machine that does other work.
  CHECK(busy_ms[3] >= 50);
  CHECK(numbers(records->text, "stage_by_rank") == std::vector<double>(6, 0));
}

TEST_CASE("a lead of 2,048 node agents takes what they say and packs what their ranks wrote") {
  constexpr int nodes = 2048;
  Allocation allocation;
  allocation.spec.launch = LaunchMode::agents;
  allocation.spec.nodes = nodes;
  allocation.every.ranks_per_node = 1;
  const auto report = allocation.paths().dir / "longest_silence";
  allocation.put_on_path("srun",
      "exec " SHARDSWEEP_BIN_DIR "/agent_test_many_agents " + std::to_string(nodes) + " " +
          std::to_string(allocation.spec.limits.agent_lease_s) + " " + report.string() + "\n");
  std::vector<Assign> attempts;
  attempts.reserve(3);
  for (int i = 0; i < 3; ++i)
    attempts.push_back(allocation.assign({"result"}, nodes));
  allocation.start();
  std::size_t most_descriptors = 0;
  const bool in_time = test::wait_until(
      [&] {
        most_descriptors = std::max(most_descriptors, descriptors_of(allocation.lead()));
        return allocation.ended(attempts.back().attempt).has_value();
      },
      test::patience_s, 50);
  REQUIRE_MESSAGE(in_time, allocation.log());
  for (const Assign& attempt : attempts) {
    const Ended ended = allocation.wait_ended(attempt.attempt);
    REQUIRE_MESSAGE(ended.ending.outcome == Outcome::completed, ended.ending.cause);
    CHECK(ended.nodes.size() == nodes);
  }
  allocation.tell(Drain{});
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.findings().empty());
  // For how long they heard nothing is shown by tests/soak.
  MESSAGE("descriptors ", most_descriptors);
  CHECK(most_descriptors < 40);
}

/// Whose folder a test may write to.
struct OpenAllocation : Allocation {
  [[nodiscard]] std::filesystem::path path() const { return folder().path(); }
};

TEST_CASE("the clocks of own runners are those of the slowest node while steps are timed") {
  OpenAllocation allocation;
  allocation.spec.launch = LaunchMode::agents;
  allocation.spec.nodes = 3;
  allocation.spec.slots_per_node = allocation.every.ranks_per_node = 1;
  allocation.every.watch_pace = true;
  allocation.put_on_path(
      "srun", "export FAKES=" + allocation.path().string() + three_node_srun_with_gpus);
  const auto gpus = [&](int node) { return allocation.path() / ("gpus" + std::to_string(node)); };
  const auto tell = [&](int node, const std::string& pace) {
    std::ofstream(gpus(node)) << "device|NVIDIA H100 80GB HBM3|GPU-aa|0|80000000000|0|" << pace;
  };
  tell(0, "0x1|1980|700000\n");
  tell(1, "0x4|1755|400000\n");
  tell(2, "0x1|1980|700000\n");
  allocation.environment["LD_LIBRARY_PATH"] = SHARDSWEEP_FAKES_DIR "/new";
  allocation.environment["CUDA_VISIBLE_DEVICES"] = "0";
  const std::string done = (allocation.path() / "done").string();
  const auto attempt = allocation.assign({"0:steps", "until=" + done, "result"}, 3);
  allocation.start();
  for (const int node : {0, 1, 2})
    REQUIRE(wait_until([&] { return std::filesystem::exists(gpus(node).string() + ".asked"); }));
  const std::ofstream go_on(done);
  const Ended ended = allocation.wait_ended(attempt.attempt);
  REQUIRE_MESSAGE(ended.ending.outcome == Outcome::completed, ended.ending.cause);
  CHECK(ended.sm_clock_mhz == 1755);
  CHECK(ended.power_w == doctest::Approx(600));
  CHECK(ended.throttled == "power cap");
}

TEST_CASE("ranks are numbered in the network's order, from the first node on") {
  Allocation allocation;
  allocation.spec.launch = LaunchMode::agents;
  allocation.spec.nodes = 3;
  allocation.spec.slots_per_node = allocation.every.ranks_per_node = 2;
  std::string script = "export SLURM_TOPOLOGY_ADDR_PATTERN=switch.node\n" + three_node_srun;
  for (const auto& [node, leaf] :
      {std::pair("0", "leaf1"), std::pair("1", "leaf2"), std::pair("2", "leaf1")}) {
    const std::string id = std::string("SLURM_NODEID=") + node;
    script.insert(script.find(id), std::string("SLURM_TOPOLOGY_ADDR=") + leaf + ".n" + node + " ");
  }
  allocation.put_on_path("srun", script);
  const auto attempt = allocation.assign({"place", "result"}, 6);
  allocation.start();
  const Ended ended = allocation.wait_ended(attempt.attempt);
  REQUIRE_MESSAGE(ended.ending.outcome == Outcome::completed, ended.ending.cause);
  CHECK(ended.nodes == std::vector<std::string>{"n0", "n2", "n1"});
  // Each rank prints its number and the node that it is for; a tar file has it as it is.
  const auto pack = read_file(AttemptPaths{attempt.dir}.pack());
  REQUIRE(pack);
  for (const auto& [rank, node] : {std::pair("0", "n0"), std::pair("1", "n0"), std::pair("2", "n2"),
           std::pair("3", "n2"), std::pair("4", "n1"), std::pair("5", "n1")}) {
    const std::size_t at = pack->find(std::string("place ") + rank + " ");
    REQUIRE(at != std::string::npos);
    const std::string line = pack->substr(at, pack->find('\n', at) - at);
    CHECK_MESSAGE(line.find(std::string("/") + node + " ") != std::string::npos, line);
  }
}

TEST_CASE("an attempt that is cut short on one node ends on all, and nobody has failed") {
  Allocation allocation;
  allocation.spec.launch = LaunchMode::agents;
  allocation.spec.nodes = 3;
  allocation.spec.slots_per_node = allocation.every.ranks_per_node = 2;
  allocation.put_on_path("srun", three_node_srun);
  allocation.every.give_up_above_ms = 100;
  allocation.every.tokens_per_step = 1000;
  const auto slow = allocation.assign({"0:step=200", "0:step=200", "hang"}, 6);
  const auto next = allocation.assign({"result"}, 6);
  allocation.start();
  const Ended ended = allocation.wait_ended(slow.attempt);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause.empty());
  CHECK(ended.ending.also.empty());
  CHECK(allocation.wait_ended(next.attempt).ending.outcome == Outcome::completed);
}
