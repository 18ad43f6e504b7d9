// SPDX-License-Identifier: Apache-2.0
// Lead, node agent and guard by real seconds and at random moments: numbers to look at, and
// bounds that hold on a quiet machine.
#include "machine/processes.hpp"
#include "programs/agent/hang_case.hpp"

#include <doctest/doctest.h>

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

using namespace shardsweep;
using test::Allocation;
using test::HangCase;
using test::wait_until;

namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point then) {
  return std::chrono::duration<double>(Steady::now() - then).count();
}

double number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + words.size());
}

void print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.empty()) return;
  std::printf("%-52s n %3zu  median %7.3f s  most %7.3f s\n", what, values.size(),
      values[values.size() / 2], values.back());
}

/// Two ranks that ignore SIGTERM, each with a detached child that does too.
const std::vector<std::string> clinging{"stubborn", "leak", "steps", "hang"};

}  // namespace

TEST_CASE("hangs are found soon after their limit, and the guilty rank is named") {
  constexpr double floor_s = 0.6;
  std::vector<double> late_s;
  int named = 0;
  const int count = test::repeats(20);
  for (int seed = 1; seed <= count; ++seed) {
    const HangCase hang = test::hang_case(static_cast<unsigned>(seed));
    CAPTURE(seed);
    CAPTURE(hang.fault);
    Allocation allocation;
    allocation.every.limits.hang_floor_s = floor_s;
    const auto hung = allocation.assign_training(hang.flags, hang.world);
    allocation.start();
    const Ended ended = allocation.wait_ended(hung.attempt);
    CHECK(ended.ending.outcome == Outcome::hung);
    const double still_s = number_after(ended.ending.cause, "no progress in phase 'train' for ");
    const double limit_s = number_after(ended.ending.cause, "s (limit ");
    late_s.push_back(still_s - limit_s);
    const std::string guilty = "rank " + std::to_string(hang.rank) + " on local: ";
    named += ended.ending.cause.find(guilty) != std::string::npos ? 1 : 0;
    CHECK(still_s <= limit_s + 2 * allocation.spec.limits.watch_interval_s + 1);
  }
  print("hang found, after its limit", late_s);
  std::printf("named the guilty rank: %d of %d\n", named, count);
  CHECK(named == count);
}

TEST_CASE("an attempt that is slow and advances is not hung") {
  int wrong = 0;
  const int count = test::repeats(5);
  for (int i = 0; i < count; ++i) {
    Allocation allocation;
    // All steps are longer than the floor: what they take is what counts.
    allocation.every.limits.hang_floor_s = 0.02;
    allocation.every.limits.hang_factor = 20;
    HangCase slow = test::hang_case(2);
    slow.flags.back() = "slow@warmup";
    const auto attempt = allocation.assign_training(slow.flags, slow.world);
    allocation.start();
    wrong += allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed ? 0 : 1;
  }
  std::printf("slow attempts called hung: %d of %d\n", wrong, count);
  CHECK(wrong == 0);
}

TEST_CASE("whose lease is over is given up in time") {
  constexpr double lease_s = 1;
  std::vector<double> node_s;
  std::vector<double> lead_s;
  for (int i = 0; i < test::repeats(10); ++i) {
    for (const bool node : {true, false}) {
      Allocation allocation;
      allocation.spec.limits.node_lease_s = allocation.spec.limits.agent_lease_s = lease_s;
      const auto attempt = allocation.assign(clinging);
      allocation.start();
      allocation.wait_steps(attempt, 2);
      ::kill(node ? allocation.node_agent() : allocation.lead(), SIGSTOP);
      const auto stopped = Steady::now();
      REQUIRE(wait_until([&] { return allocation.marked().empty(); }));
      (node ? node_s : lead_s).push_back(seconds_since(stopped));
      if (node) {
        CHECK(allocation.wait_exit() == 0);
        CHECK(allocation.ended(attempt.attempt)->ending.outcome == Outcome::node_failure);
      }
    }
  }
  print("ranks gone after a node agent was stopped, lease 1 s", node_s);
  print("ranks gone after a lead was stopped, lease 1 s", lead_s);
  CHECK(node_s.back() < lease_s + 3);
}

TEST_CASE("whatever is killed at any moment, nothing is left") {
  const char* given = std::getenv("SHARDSWEEP_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::printf("SHARDSWEEP_SEED=%u\n", seed);
  std::mt19937 random(seed);
  std::vector<double> clean_s;
  const int count = test::repeats(30);
  for (int i = 0; i < count; ++i) {
    Allocation allocation;
    allocation.assign({"leak", "steps", "result"});
    allocation.assign(clinging);
    allocation.start();
    const auto moment_ms = static_cast<int>(random() % 400);
    (void)::poll(nullptr, 0, moment_ms);
    const auto victim = random() % 3;
    const pid_t pid = victim == 0 ? allocation.lead()
        : victim == 1             ? allocation.guard()
                                  : allocation.node_agent();
    CAPTURE(moment_ms);
    CAPTURE(victim);
    if (pid <= 0) continue;
    ::kill(pid, SIGKILL);
    const auto killed = Steady::now();
    CHECK(allocation.wait_exit().has_value());
    CHECK(
        wait_until([&] { return allocation.marked().empty() && allocation.agents().empty(); }, 30));
    clean_s.push_back(seconds_since(killed));
  }
  print("all gone after a kill at any moment", clean_s);
}

TEST_CASE("2,048 node agents hear their lead while it packs what their ranks wrote") {
  constexpr int nodes = 2048;
  constexpr double lease_s = 15;
  Allocation allocation;
  allocation.spec.launch = LaunchMode::agents;
  allocation.spec.nodes = nodes;
  allocation.spec.limits.agent_lease_s = allocation.spec.limits.node_lease_s = lease_s;
  allocation.every.ranks_per_node = 1;
  const auto report = allocation.paths().dir / "longest_silence";
  allocation.put_on_path("srun",
      "exec " SHARDSWEEP_BIN_DIR "/agent_test_many_agents " + std::to_string(nodes) + " " +
          std::to_string(lease_s) + " " + report.string() + "\n");
  AttemptId last = 0;
  for (int i = 0; i < 3; ++i)
    last = allocation.assign({"result"}, nodes).attempt;
  allocation.start();
  (void)allocation.wait_ended(last);
  allocation.tell(Drain{});
  CHECK(allocation.wait_exit() == 0);
  double longest_s = 0;
  std::ifstream(report) >> longest_s;
  print("longest silence of a lead of 2,048 node agents", {longest_s});
  CHECK(longest_s < lease_s / 2);
}

TEST_CASE("a slow rank is busier than the others") {
  std::vector<double> ratio;
  for (int i = 0; i < test::repeats(5); ++i) {
    Allocation allocation;
    const HangCase slow = test::hang_case(2);
    auto flags = test::healthy(slow);
    flags.insert(flags.end(), {"--fault", "slow@train:0"});
    const auto attempt = allocation.assign_training(flags, slow.world);
    allocation.start();
    CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
    const auto records = read_attempt_records(AttemptPaths{attempt.dir});
    REQUIRE(records);
    const std::string key = "\"busy_ms_by_rank\":[";
    const std::size_t at = records->text.find(key);
    REQUIRE(at != std::string::npos);
    char* end = nullptr;
    const double first = std::strtod(records->text.c_str() + at + key.size(), &end);
    ratio.push_back(std::strtod(end + 1, nullptr) / first);
  }
  print("busy time of another rank, as a part of a slow one's", ratio);
  CHECK(*std::max_element(ratio.begin(), ratio.end()) < 0.5);
}
