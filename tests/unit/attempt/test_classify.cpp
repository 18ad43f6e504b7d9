// SPDX-License-Identifier: Apache-2.0
#include "attempt/classify.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace shardsweep;

namespace {

Evidence error(const std::string& kind, int rank, Timestamp at) {
  Record record;
  record.type = RecordType::error;
  record.error_class = kind;
  record.message = "text";
  return evidence_of_error(record, rank, at);
}

Evidence exited(int rank, int code, Timestamp at) {
  return evidence_of_exit(rank, code, at, "").value();
}

constexpr Timestamp second = 1'000'000;

}  // namespace

TEST_CASE("a program that did not start is lost, and says why") {
  const Evidence none = evidence_of_no_start(3, 2, "cannot start /x: No such file", 9);
  const Evidence verdict = classify({none}, false);
  CHECK(verdict.ending.outcome == Outcome::lost);
  CHECK(verdict.ending.cause == "rank 3 did not start: cannot start /x: No such file");
  CHECK(verdict.ending.start_error == 2);
}

TEST_CASE("what ranks do on a full disk is the disk's doing, and stays to be seen") {
  for (const Evidence& one :
      {exited(0, 16, 5), evidence_of_signal(0, SIGBUS, 5, false), evidence_of_early_exit(0, 5)}) {
    std::vector<Evidence> evidence{one};
    blame_storage(evidence, "the disk is full", 9);
    const Evidence verdict = classify(evidence, false);
    CHECK(verdict.ending.outcome == Outcome::lost);
    CHECK(verdict.ending.cause == "the disk is full");
    CHECK(verdict.ending.also.find(one.ending.cause) != std::string::npos);
  }
  std::vector<Evidence> nothing;
  blame_storage(nothing, "the disk is full", 9);
  CHECK(classify(nothing, false).ending.outcome == Outcome::lost);
}

TEST_CASE("an answer of the layout, or of the user, is one on a full disk too") {
  Evidence cancelled{5, {Outcome::cancelled, "cancelled on request", SaidBy::request}};
  for (const Evidence& one : {exited(0, 11, 5), error("nan", 0, 5), cancelled}) {
    std::vector<Evidence> evidence{one};
    blame_storage(evidence, "the disk is full", 9);
    CHECK(classify(evidence, false).ending.outcome == one.ending.outcome);
  }
}

TEST_CASE("a runner that says that it could not write is not its layout's crash") {
  CHECK(evidence_of_exit(0, 16, 5, "write: No space left on device")->ending.outcome ==
      Outcome::lost);
  CHECK(evidence_of_exit(0, 1, 5, "OSError: Disk quota exceeded")->ending.outcome == Outcome::lost);
  CHECK(evidence_of_exit(0, 11, 5, "No space left on device")->ending.outcome == Outcome::oom);
  Record record;
  record.error_class = "internal";
  record.message = "records.jsonl: No space left on device";
  CHECK(evidence_of_error(record, 0, 5).ending.outcome == Outcome::lost);
}

TEST_CASE("every exit code of the runner means the outcome of the table") {
  for (const auto& row : runner_exit_table) {
    const auto evidence = evidence_of_exit(3, static_cast<int>(row.code), 5, "");
    if (row.code == RunnerExit::ok) {
      CHECK(!evidence);
      continue;
    }
    REQUIRE(evidence);
    CHECK(evidence->ending.outcome == row.outcome.value_or(Outcome::comm_error));
    CHECK(evidence->only_a_witness == !row.outcome);
    CHECK(error(std::string(row.error_class), 3, 5).ending.outcome == evidence->ending.outcome);
  }
  CHECK(exited(0, 99, 5).ending.outcome == Outcome::crashed);
  CHECK(error("unheard of", 0, 5).ending.outcome == Outcome::crashed);
}

TEST_CASE("the first cause in time wins") {
  const auto verdict = classify({exited(1, 15, 7), exited(0, 11, 5), exited(2, 16, 9)}, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.cause == "rank 0 exited with 11 (oom)");
}

TEST_CASE("a lost peer never wins over another cause and is the cause where there is none") {
  const auto verdict = classify(
      {error("peer_lost", 0, 1), evidence_of_signal(1, SIGKILL, 90 * second, false)}, false);
  CHECK(verdict.ending.outcome == Outcome::crashed);
  CHECK(verdict.ending.cause == "rank 1 was ended by SIGKILL");
  const auto alone = classify({error("peer_lost", 0, 1)}, false);
  CHECK(alone.ending.outcome == Outcome::comm_error);
  CHECK(alone.ending.cause == "rank 0: peer_lost: text");
}

TEST_CASE("a broken connection loses against the death that broke it and is seen a bit later") {
  const auto verdict = classify({error("comm_error", 0, second), exited(1, 11, 2 * second)}, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  const auto late = classify({error("comm_error", 0, second), exited(1, 11, 5 * second)}, false);
  CHECK(late.ending.outcome == Outcome::comm_error);
}

TEST_CASE("a record is the cause and brings the exit code of its rank along") {
  const auto verdict = classify({exited(0, 14, 5), exited(1, 11, 6), error("oom", 1, 4)}, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
  CHECK(verdict.ending.source == SaidBy::runner);
  CHECK(verdict.ending.exit_code == 11);
}

TEST_CASE("the runner's own time of an error counts unless it lies in the future") {
  Record record;
  record.error_class = "nan";
  record.t = 3;
  CHECK(evidence_of_error(record, 0, 5).at == 3);
  record.t = 9;
  CHECK(evidence_of_error(record, 0, 5).at == 5);
}

TEST_CASE("a result is completed and keeps what went wrong afterwards") {
  const auto verdict = classify({evidence_of_signal(1, SIGKILL, 5, false)}, true);
  CHECK(verdict.ending.outcome == Outcome::completed);
  CHECK(verdict.ending.cause == "after the result: rank 1 was ended by SIGKILL");
  CHECK(classify({}, true).ending.cause.empty());
}

TEST_CASE("silence is a crash where the result is due and nothing where it is not") {
  CHECK(classify({}, false).ending.outcome == Outcome::crashed);
  CHECK(classify({}, false).ending.cause == "exited 0 without a result");
  CHECK(classify({}, false, false).ending.outcome == Outcome::completed);
}

TEST_CASE("a SIGTERM shortly after our own has the scheduler's reason") {
  CHECK(evidence_of_signal(0, SIGTERM, 5, true).ending.outcome == Outcome::preempted);
  CHECK(evidence_of_signal(0, SIGTERM, 5, false).ending.outcome == Outcome::crashed);
  CHECK(evidence_of_signal(0, SIGSEGV, 5, true).ending.outcome == Outcome::crashed);
}

TEST_CASE("of several nodes the earliest failure wins and a clean exit says nothing") {
  NodeEnded first;
  first.ending.outcome = Outcome::oom;
  first.at = 5;
  first.ending.cause = "rank 3: oom";
  NodeEnded second_node = first;
  second_node.ending.outcome = Outcome::comm_error;
  second_node.at = 4;
  const auto verdict = classify({evidence_of_node(second_node), evidence_of_node(first)}, false);
  CHECK(verdict.ending.outcome == Outcome::oom);
}

TEST_CASE("an exit with 0 before a result explains lost peers and nothing else") {
  const Evidence early = evidence_of_early_exit(1, 100);
  Record lost;
  lost.type = RecordType::error;
  lost.error_class = "peer_lost";
  lost.message = "rank 1: closed its connection";
  const Evidence witness = evidence_of_error(lost, 0, 90);
  const Evidence left = classify({witness, early}, false);
  CHECK(left.ending.outcome == Outcome::crashed);
  CHECK(left.ending.cause == "rank 1 exited 0 without a result");
  // Rank 0 failed while it wrote the result: that others had left by then is as it should be.
  const Evidence own = classify({early, evidence_of_signal(0, 6, 200, false)}, false);
  CHECK(own.ending.cause == "rank 0 was ended by SIGABRT");
}

TEST_CASE("a result and a failure of another program are none of the attempt") {
  Evidence changed;
  changed.at = 200;
  changed.ending.outcome = Outcome::lost;
  changed.ending.cause = "the program x has changed";
  changed.ending.found_code = "0123";
  Evidence crash;
  crash.at = 100;
  crash.ending.outcome = Outcome::crashed;
  crash.ending.cause = "rank 0 exited with 1";
  for (const bool measured : {true, false}) {
    const Evidence verdict = classify({crash, changed}, measured);
    CHECK(verdict.ending.outcome == Outcome::lost);
    CHECK(verdict.ending.cause == changed.ending.cause);
    CHECK(verdict.ending.found_code == "0123");
  }
}

TEST_CASE("a container's runtime that refuses has started nothing") {
  const std::string said =
      "Error: runc: runc create failed: operation not permitted: OCI permission denied";
  const auto refused = evidence_of_no_container(3, 126, said, 9, false);
  REQUIRE(refused);
  CHECK(refused->ending.outcome == Outcome::lost);
  CHECK(refused->ending.start_error != 0);
  CHECK(refused->ending.cause == "rank 3 did not start: " + said);
  CHECK(evidence_of_no_container(0, 125, "Error: short-name did not resolve", 9, false));
  // Of what is in the container.
  CHECK_FALSE(
      evidence_of_no_container(0, 127, "train.sh: line 3: nsys: command not found", 9, false));
  CHECK_FALSE(evidence_of_no_container(0, 1, said, 9, false));
  CHECK_FALSE(evidence_of_no_container(3, 126, said, 9, true));
}
