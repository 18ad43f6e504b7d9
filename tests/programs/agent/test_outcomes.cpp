// SPDX-License-Identifier: Apache-2.0
// How attempts end, with a real lead, node agent and ranks.
#include "programs/agent/allocation.hpp"

#include <shardsweep/record.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <ctime>
#include <fstream>

using namespace shardsweep;
using test::Allocation;

namespace {

/// Runs one attempt and says how it ended.
Ended outcome_of(Allocation& allocation, const std::vector<std::string>& modes, int world = 2) {
  const Assign assign = allocation.assign(modes, world);
  allocation.start();
  Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(allocation.marked().empty());
  CHECK(ended.nonce == assign.nonce);
  CHECK(ended.pack == "attempt-1.tar");
  CHECK(std::filesystem::exists(assign.dir + ".tar"));
  CHECK(!std::filesystem::exists(assign.dir));
  allocation.tell(Drain{});
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.bye() == "drained");
  return ended;
}

/// Until this process has used so much of a CPU, however long that takes.
void burn_cpu_s(double seconds) {
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  while (std::clock() < end) {
  }
}

}  // namespace

TEST_CASE("an attempt with a result is completed and leaves one packed file") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"steps", "result", "say=done"}, 4);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause == "");
  CHECK(ended.ending.source == SaidBy::runner);
  CHECK(ended.ending.leaked == 0);
  const auto lines = allocation.lines();
  CHECK(std::holds_alternative<Claimed>(lines.front().body));
  CHECK(std::holds_alternative<Bye>(lines.back().body));
  for (std::size_t i = 0; i < lines.size(); ++i)
    CHECK(lines[i].n == static_cast<std::int64_t>(i) + 1);
}

TEST_CASE("attempts run in their order in one allocation") {
  Allocation allocation;
  for (int i = 0; i < 3; ++i)
    allocation.assign({"result"});
  allocation.start();
  for (int i = 1; i <= 3; ++i)
    CHECK(allocation.wait_ended(i).ending.outcome == Outcome::completed);
  std::vector<AttemptId> order;
  for (const auto& line : allocation.lines()) {
    if (const auto* started = std::get_if<Started>(&line.body)) order.push_back(started->attempt);
  }
  CHECK(order == std::vector<AttemptId>{1, 2, 3});
}

TEST_CASE("out of memory is told by the runner's record and its exit code") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"steps", "1:error=oom", "1:exit=11", "hang"});
  CHECK(ended.ending.outcome == Outcome::oom);
  CHECK(ended.ending.cause == "rank 1: oom: as told");
  CHECK(ended.ending.source == SaidBy::runner);
  CHECK(ended.ending.exit_code == 11);
}

TEST_CASE("after an oom the larger micro-batches of its lane are skipped") {
  Allocation allocation;
  const auto smaller = allocation.assign({"result"}, 2, "lane", 2);
  const auto oom = allocation.assign({"exit=11"}, 2, "lane", 4);
  const auto larger = allocation.assign({"result"}, 2, "lane", 8);
  const auto other = allocation.assign({"result"}, 2, "another", 8);
  const auto same = allocation.assign({"result"}, 2, "lane", 4);
  allocation.start();
  CHECK(allocation.wait_ended(smaller.attempt).ending.outcome == Outcome::completed);
  CHECK(allocation.wait_ended(oom.attempt).ending.outcome == Outcome::oom);
  const Ended skipped = allocation.wait_ended(larger.attempt);
  CHECK(skipped.ending.outcome == Outcome::skipped);
  CHECK(skipped.ending.cause == "micro_batch 4 ran out of memory (" + oom.trial + ")");
  CHECK(allocation.wait_ended(other.attempt).ending.outcome == Outcome::completed);
  CHECK(allocation.wait_ended(same.attempt).ending.outcome == Outcome::completed);
}

TEST_CASE("a rank that makes no progress is hung and the allocation goes on") {
  Allocation allocation;
  allocation.every.limits.step_limit_s = test::at_once_s;
  const auto hung = allocation.assign({"steps", "hang"});
  allocation.every.limits.step_limit_s = test::no_limit_s;
  const auto next = allocation.assign({"result"});
  allocation.start();
  const Ended ended = allocation.wait_ended(hung.attempt);
  CHECK(ended.ending.outcome == Outcome::hung);
  CHECK(ended.ending.source == SaidBy::policy);
  CHECK(ended.ending.cause.starts_with("no progress in phase 'train' for "));
  CHECK(ended.ending.cause.ends_with(" s (limit 0.2 s), last record: train_step 1"));
  CHECK(allocation.wait_ended(next.attempt).ending.outcome == Outcome::completed);
}

TEST_CASE("a rank that ignores SIGTERM is ended by SIGKILL after the grace") {
  Allocation allocation;
  const Assign assign = allocation.assign({"stubborn", "steps", "hang"});
  allocation.start();
  allocation.wait_steps(assign, 2);
  allocation.tell(Cancel{assign.attempt, "enough"});
  CHECK(allocation.wait_ended(assign.attempt).ending.outcome == Outcome::cancelled);
  CHECK(allocation.marked().empty());
}

TEST_CASE("an attempt that is not over in its time is a timeout") {
  Allocation allocation;
  allocation.every.limits.attempt_limit_s = test::at_once_s;
  const Ended ended = outcome_of(allocation, {"hang"});
  CHECK(ended.ending.outcome == Outcome::timeout);
  CHECK(ended.ending.cause.starts_with("still running after "));
  CHECK(ended.ending.cause.find(" s (limit 0.2 s), in phase 'start'") != std::string::npos);
}

TEST_CASE("a rank that dies of a signal names it") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"1:signal=6", "hang"});
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.signal == SIGABRT);
  CHECK(ended.ending.cause == "rank 1 was ended by SIGABRT");
}

TEST_CASE("an unknown exit code quotes what the rank printed last") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"0:say=no such option", "0:exit=3", "hang"});
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.exit_code == 3);
  CHECK(ended.ending.cause == "rank 0 exited with 3: no such option");
}

TEST_CASE("the last error of the rank that failed explains an exit code that says nothing") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation,
      {"1:say=NCCL WARN Call to ibv_modify_qp failed with 110",
          "1:say=torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
          "0:say=RuntimeError: Connection reset by peer", "exit=1"});
  CHECK(ended.ending.outcome == Outcome::oom);
  CHECK(ended.ending.source == SaidBy::log);
  CHECK(ended.ending.exit_code == 1);
  CHECK(ended.ending.cause ==
      "rank 1: torch-oom: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate");
  CHECK(ended.ending.node == "local");
}

TEST_CASE("a rule of the user's own says what a rank's last words mean") {
  Allocation allocation;
  allocation.every.rules = {{"quota", "quota of * used up", Outcome::node_failure}};
  const auto quota = allocation.assign({"0:say=the quota of /shared used up", "0:exit=1", "hang"});
  allocation.start();
  const Ended own = allocation.wait_ended(quota.attempt);
  CHECK(own.ending.outcome == Outcome::node_failure);
  CHECK(own.ending.cause == "rank 0: quota: the quota of /shared used up");
}

TEST_CASE("an oom that nobody has noticed before the watch lost its patience") {
  Allocation allocation;
  allocation.every.limits.step_limit_s = test::at_once_s;
  // Its words come before the record from which the limit counts.
  const Ended ended = outcome_of(allocation,
      {"0:say=torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "steps", "hang"});
  CHECK(ended.ending.outcome == Outcome::oom);
  CHECK(ended.ending.also.starts_with("hung: "));
}

TEST_CASE("a lost peer is no cause beside the death that it noticed") {
  Allocation allocation;
  const Ended ended =
      outcome_of(allocation, {"0:error=peer_lost", "0:exit=14", "1:signal=9", "hang"});
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.cause == "rank 1 was ended by SIGKILL");
}

TEST_CASE("exit 0 without a result is a crash") {
  for (const auto& modes : {std::vector<std::string>{"steps"}, {"steps", "foreign-result"}}) {
    Allocation allocation;
    const Ended ended = outcome_of(allocation, modes);
    CHECK(ended.ending.outcome == Outcome::crashed);
    CHECK(ended.ending.cause.ends_with("exited 0 without a result"));
  }
}

TEST_CASE("a result counts whoever dies afterwards") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"steps", "result", "1:signal=9"});
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause == "after the result: rank 1 was ended by SIGKILL");
}

TEST_CASE("ranks that do not leave after the result are ended and it counts") {
  Allocation allocation;
  allocation.every.limits.teardown_limit_s = test::at_once_s;
  const Ended ended = outcome_of(allocation, {"steps", "result", "hang"});
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause.starts_with("after the result: no progress in phase 'teardown'"));
}

TEST_CASE("garbage in the records is passed over and counted") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"garbage", "steps", "result"}, 1);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause == "3 lines in the records are not JSON records");
}

TEST_CASE("a result counts behind however many records and keys") {
  Allocation allocation;
  const Ended ended = outcome_of(allocation, {"steps", "wild", "result"}, 1);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause == "");
}

TEST_CASE("an attempt is cancelled while it runs and before it starts") {
  Allocation allocation;
  const auto running = allocation.assign({"hang"});
  const auto waiting = allocation.assign({"hang"});
  const auto revoked = allocation.assign({"hang"});
  allocation.start();
  REQUIRE(allocation.wait_marked(2));
  allocation.tell(Revoke{revoked.attempt});
  allocation.tell(Cancel{waiting.attempt, "not wanted"});
  const Ended second = allocation.wait_ended(waiting.attempt);
  CHECK(second.ending.outcome == Outcome::cancelled);
  CHECK(second.ending.cause == "not wanted");
  allocation.tell(Cancel{running.attempt, "by hand"});
  const Ended first = allocation.wait_ended(running.attempt);
  CHECK(first.ending.outcome == Outcome::cancelled);
  CHECK(first.ending.cause == "by hand");
  CHECK(first.ending.source == SaidBy::request);
  allocation.tell(Drain{});
  CHECK(allocation.wait_exit() == 0);
  bool answered = false;
  for (const auto& line : allocation.lines()) {
    const auto* one = std::get_if<Revoked>(&line.body);
    answered = answered || (one != nullptr && one->attempt == revoked.attempt);
    const auto* started = std::get_if<Started>(&line.body);
    CHECK((started == nullptr || started->attempt == running.attempt));
  }
  CHECK(answered);
}

TEST_CASE("a drained allocation finishes what runs and gives the rest back") {
  Allocation allocation;
  const std::string flag = (allocation.paths().dir / "go_on").string();
  const auto running = allocation.assign({"until=" + flag, "result"});
  const auto waiting = allocation.assign({"result"});
  allocation.start();
  REQUIRE(allocation.wait_marked(2));
  allocation.tell(Drain{});
  REQUIRE(test::wait_until([&] { return allocation.said<Revoked>(); }));
  CHECK(!allocation.ended(running.attempt));
  std::ofstream(flag).put('\n');
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.ended(running.attempt)->ending.outcome == Outcome::completed);
  CHECK(!allocation.ended(waiting.attempt));
  CHECK(allocation.bye() == "drained");
}

TEST_CASE("a lead with nothing assigned leaves after its idle limit") {
  Allocation allocation;
  allocation.spec.limits.idle_limit_s = test::at_once_s;
  allocation.start();
  CHECK(allocation.wait_exit() == 0);
  CHECK(allocation.bye() == "idle");
}

TEST_CASE("SIGTERM ends the running attempt as preempted and the lead says good-bye") {
  Allocation allocation;
  const auto running = allocation.assign({"hang"});
  allocation.assign({"result"});
  allocation.start();
  REQUIRE(allocation.wait_marked(2));
  ::kill(allocation.lead(), SIGTERM);
  CHECK(allocation.wait_exit() == 0);
  const auto ended = allocation.ended(running.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::preempted);
  CHECK(ended->ending.cause == "the allocation was told to stop (SIGTERM)");
  CHECK(allocation.bye() == "signal");
  CHECK(allocation.marked().empty());
}

TEST_CASE("a rank may get Slurm's SIGTERM a while before its agent and the lead do") {
  Allocation allocation;
  // Held there, the node agent has seen its rank's end and has no SIGTERM yet.
  allocation.fail_at("node.rank_ended:wait-for-file");
  const auto running = allocation.assign({"hang"}, 1);
  allocation.start();
  REQUIRE(allocation.wait_marked(1));
  const pid_t rank = allocation.marked().at(0);
  ::kill(rank, SIGTERM);
  const pid_t agent = allocation.wait_at("node.rank_ended");
  CHECK(agent == allocation.node_agent());
  ::kill(agent, SIGTERM);
  allocation.go_on("node.rank_ended");
  ::kill(allocation.lead(), SIGTERM);
  CHECK(allocation.wait_exit() == 0);
  const auto ended = allocation.ended(running.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::preempted);
  CHECK(ended->ending.cause == "the allocation was told to stop (SIGTERM)");
}

TEST_CASE("a rank that alone gets SIGTERM has crashed") {
  Allocation allocation;
  const auto running = allocation.assign({"signal=15"}, 1);
  allocation.start();
  const Ended ended = allocation.wait_ended(running.attempt);
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.cause == "rank 0 was ended by SIGTERM");
}

TEST_CASE("lines of an older epoch and an attempt assigned twice change nothing") {
  Allocation allocation;
  const auto first = allocation.assign({"result"});
  allocation.tell(first, 2);
  allocation.tell(Drain{}, 1);
  const auto late = allocation.assign({"result"});  // epoch 1: of a daemon that was replaced
  allocation.start();
  CHECK(allocation.wait_ended(first.attempt).ending.outcome == Outcome::completed);
  allocation.tell(Drain{}, 2);
  CHECK(allocation.wait_exit() == 0);
  CHECK(!allocation.ended(late.attempt));
}

TEST_CASE("a second lead of the same allocation exits and runs nothing") {
  Allocation allocation;
  allocation.assign({"result"});
  allocation.start();
  CHECK(allocation.wait_ended(1).ending.outcome == Outcome::completed);
  const std::string command = std::string(SHARDSWEEP_BIN_DIR) + "/shardsweep-agent lead --dir '" +
      allocation.paths().dir.string() + "' 2>/dev/null";
  CHECK(std::system(command.c_str()) == 75 << 8);
  CHECK(std::system(("SLURM_RESTART_COUNT=1 " + command).c_str()) == 75 << 8);
}

TEST_CASE("a measurement that others have disturbed is marked") {
  Allocation quiet;
  quiet.every.limits.others_cpu_limit = 1;  // more than all there is
  const Ended clean = outcome_of(quiet, {"steps", "result"});
  CHECK(clean.ending.mark == Mark::none);
  // Somebody else on this node, for as long as the attempt runs: this test, and whoever takes
  // its CPU away.
  Allocation disturbed;
  disturbed.every.limits.others_cpu_limit = 1e-3;
  const std::string flag = (disturbed.paths().dir / "go_on").string();
  const Assign beside = disturbed.assign({"steps", "until=" + flag, "result"});
  disturbed.start();
  disturbed.wait_steps(beside, 2);
  burn_cpu_s(0.2);
  std::ofstream(flag).put('\n');
  const Ended ended = disturbed.wait_ended(beside.attempt);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.mark == Mark::contaminated);
  CHECK(ended.ending.also.find("other processes used ") != std::string::npos);
}

TEST_CASE("a rank that leaves with 0 in the middle is why the others lost it") {
  Allocation allocation;
  allocation.fail_at("node.rank_ended:wait-for-file");
  const std::string flag = (allocation.paths().dir / "go_on").string();
  const Assign assign =
      allocation.assign({"steps", "1:exit=0", "0:until=" + flag, "0:error=peer_lost", "0:exit=14"});
  allocation.start();
  allocation.wait_at("node.rank_ended");
  std::ofstream(flag).put('\n');
  allocation.go_on("node.rank_ended");
  const Ended ended = allocation.wait_ended(assign.attempt);
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.cause == "rank 1 exited 0 without a result");
}

// ---- cut short

namespace {

/// The records of an attempt that is over.
std::string records_of(const Assign& assign) {
  const auto records = read_attempt_records(AttemptPaths{assign.dir});
  REQUIRE(records);
  return records->text;
}

}  // namespace

TEST_CASE("an attempt whose train steps are hopeless is ended and measured, and the next starts") {
  Allocation allocation;
  allocation.every.give_up_above_ms = 100;
  allocation.every.warmup = 1;
  allocation.every.tokens_per_step = 1000;
  const auto slow = allocation.assign({"step=900", "step=200", "step=210", "hang"});
  const auto fast = allocation.assign({"step=900", "step=90", "step=90", "result"});
  allocation.start();
  const Ended ended = allocation.wait_ended(slow.attempt);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause == "");
  CHECK(ended.ending.leaked == 0);
  const std::string records = records_of(slow);
  CHECK(has_result(records, slow.nonce));
  CHECK(records.find(R"("gave_up_above_ms":100})") != std::string::npos);
  CHECK(records.find(R"("steps":2,"warmup":1)") != std::string::npos);
  CHECK(allocation.wait_ended(fast.attempt).ending.outcome == Outcome::completed);
  CHECK(records_of(fast).find("gave_up") == std::string::npos);
}

TEST_CASE("a rank that ignores its end and another's complaint leave it cut short") {
  Allocation allocation;
  allocation.every.give_up_above_ms = 100;
  allocation.every.tokens_per_step = 1000;
  const auto slow =
      allocation.assign({"stubborn", "step=200", "step=200", "1:until=/nowhere", "hang"});
  allocation.start();
  const Ended ended = allocation.wait_ended(slow.attempt);
  CHECK(ended.ending.outcome == Outcome::completed);
  CHECK(ended.ending.cause == "");
  CHECK(ended.ending.also.empty());
}

TEST_CASE("a torn last record does not spoil the result of an attempt that was cut short") {
  Allocation allocation;
  allocation.every.give_up_above_ms = 100;
  allocation.every.tokens_per_step = 1000;
  const auto slow = allocation.assign({"0:step=200", "0:step=200", "0:tear", "hang"});
  allocation.start();
  CHECK(allocation.wait_ended(slow.attempt).ending.outcome == Outcome::completed);
  CHECK(has_result(records_of(slow), slow.nonce));
}
