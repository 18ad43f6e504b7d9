// SPDX-License-Identifier: Apache-2.0
// Two node agents of one attempt: rank 0 says how large the world is, the last rank prints the
// train steps on another node.
#include "../folder.hpp"
#include "agent/trainer_logs.hpp"

#include <shardsweep/record.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace shardsweep;
using namespace shardsweep::agent;

namespace {

class HandClock final : public Clock {
 public:
  [[nodiscard]] Timestamp now() const override { return 1'000'000; }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(ms_));
  }
  void advance(std::int64_t ms) { ms_ += ms; }

 private:
  std::int64_t ms_ = 1000;
};

AttemptSpec two_nodes() {
  AttemptSpec spec;
  spec.nonce = "nonce";
  spec.world = 4;
  spec.ranks_per_node = 2;
  spec.trainer =
      TrainerRun{.log = "megatron", .warmup = 1, .steps = 2, .dp = 4, .tokens_per_step = 800};
  return spec;
}

struct LogNode {
  TrainerLogs logs;
  LogNode(const test::Folder& folder, int index)
      : logs(*TrainerLogs::make(two_nodes(), AttemptPaths{folder.path()}, 2, index)) {
    logs.follow(2 * index);
    logs.follow(2 * index + 1);
  }
};

void print_steps(const test::Folder& folder) {
  for (int i = 1; i < 4; ++i)
    folder.append("rank.3.out",
        fmt::format(" iteration {}/ 3 | elapsed time per iteration (ms): 100.0 |\n", i));
}

bool says(const test::Folder& folder, const std::string& text) {
  return folder.read("records.jsonl").find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("what rank 0 says on its node is checked where the train steps are printed") {
  const test::Folder folder;
  const HandClock clock;
  LogNode first(folder, 0);
  LogNode last(folder, 1);
  folder.append("rank.0.out", "using world size: 8, data-parallel size: 8\n");
  print_steps(folder);
  last.logs.look(clock, true);
  last.logs.look(clock, true);
  CHECK(last.logs.waits_for_facts(clock));
  CHECK_FALSE(says(folder, "\"error\""));
  first.logs.look(clock, true);
  first.logs.look(clock, true);
  CHECK_FALSE(last.logs.waits_for_facts(clock));
  last.logs.look(clock, true);
  CHECK(says(folder, "The log says gpus 8, but 4 was asked for."));
  CHECK_FALSE(says(folder, "\"result\""));
}

TEST_CASE("a trainer that is through before its version is known waits for that") {
  const test::Folder folder;
  HandClock clock;
  AttemptSpec spec = two_nodes();
  spec.ranks_per_node = 4;
  auto logs = *TrainerLogs::make(spec, AttemptPaths{folder.path()}, 1, 0);
  logs.follow(3);
  // It trains on, past all that was asked for.
  for (int i = 1; i < 9; ++i)
    folder.append("rank.3.out",
        fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 100.0 |\n", i));
  logs.look(clock, true, true);
  logs.look(clock, true, true);
  CHECK_FALSE(logs.has_result());
  SUBCASE("one outside the range is refused") {
    folder.append("records.probe", "shardsweep-probe: 0.3.0\n");
    logs.look(clock, true, false);
    CHECK(logs.refused().find("0.3.0") != std::string::npos);
    CHECK_FALSE(logs.has_result());
  }
  SUBCASE("a probe that does not end is not waited for") {
    clock.advance(11'000);
    logs.look(clock, true, true);
    CHECK(logs.has_result());
  }
}

TEST_CASE("what was cut short is held against its layout") {
  const HandClock clock;
  const auto cut = [&](const char* world) {
    const test::Folder own;
    LogNode node(own, 1);
    own.append("rank.2.out", world);
    own.append("rank.3.out", " iteration 1/ 3 | elapsed time per iteration (ms): 100.0 |\n");
    node.logs.finish_cut(clock, CutBy::this_node);
    return node.logs.error() ? node.logs.error()->message : own.read("records.jsonl");
  };
  CHECK(cut("using world size: 8, data-parallel size: 8\n").find("gpus 8, but 4 was asked") !=
      std::string::npos);
  // That it has fewer train steps is our doing.
  CHECK(cut("using world size: 4, data-parallel size: 4\n").find("error") == std::string::npos);
}

TEST_CASE("what was cut short on the node of rank 0 is refused by the node that prints") {
  const HandClock clock;
  const auto told = [&](int skipped) {
    const test::Folder own;
    LogNode node(own, 1);
    for (int i = 1; i < 4; ++i)
      own.append("rank.3.out",
          fmt::format(" iteration {}/ 9 | elapsed time per iteration (ms): 100.0 | number "
                      "of skipped iterations: {} |\n",
              i, skipped));
    node.logs.finish_cut(clock, CutBy::another);
    CHECK_FALSE(node.logs.has_result());
    auto records = own.read("records.jsonl");
    CHECK(has_result(records + R"({"type":"result","run_id":"nonce"})" + "\n", "nonce") ==
        (skipped == 0));
    return records;
  };
  CHECK(told(0).find("\"refusal\"") == std::string::npos);
  const auto refusal = told(1);
  CHECK(refusal.find("\"refusal\"") != std::string::npos);
  CHECK(refusal.find("2 timed train steps skipped") != std::string::npos);
}

TEST_CASE("memory is the largest of all nodes, also where a node's ranks end first") {
  const test::Folder folder;
  const HandClock clock;
  LogNode first(folder, 0);
  LogNode last(folder, 1);
  print_steps(folder);
  last.logs.look(clock, true);
  folder.append("rank.0.out",
      "using world size: 4, data-parallel size: 4\n"
      "memory (MB) | allocated: 1.0 | max allocated: 1024.0 |\n");
  first.logs.finish(clock, false);
  CHECK_FALSE(last.logs.waits_for_facts(clock));
  last.logs.finish(clock, false);
  CHECK(last.logs.has_result());
  CHECK(says(folder, "\"peak_allocated_bytes\":1073741824"));
}

TEST_CASE("a node that says nothing holds the result up for seconds alone") {
  const test::Folder folder;
  HandClock clock;
  LogNode last(folder, 1);
  print_steps(folder);
  last.logs.look(clock, true);
  CHECK(last.logs.waits_for_facts(clock));
  clock.advance(6000);
  CHECK_FALSE(last.logs.waits_for_facts(clock));
  last.logs.look(clock, true);
  CHECK(last.logs.has_result());
}

TEST_CASE("a probe's version counts on whatever node the train steps are printed") {
  const test::Folder folder;
  const HandClock clock;
  LogNode first(folder, 0);
  LogNode last(folder, 1);
  folder.append("records.probe", "shardsweep-probe: 0.2.0\n");
  print_steps(folder);
  last.logs.look(clock, true);
  first.logs.look(clock, true);
  CHECK(first.logs.refused().find("'0.2.0' of Megatron-LM") != std::string::npos);
  first.logs.finish(clock, false);
  last.logs.finish(clock, false);
  CHECK_FALSE(last.logs.has_result());
  CHECK(says(folder, "\"class\":\"usage\""));
}
