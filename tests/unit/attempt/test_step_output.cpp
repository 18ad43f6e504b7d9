// SPDX-License-Identifier: Apache-2.0
#include "attempt/step_output.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace shardsweep;

TEST_CASE("of a step the task that srun names first has failed first") {
  const Evidence exited = evidence_of_step(
      "srun: warning: something\n"
      "srun: error: n3: task 5: Exited with exit code 11\n"
      "srun: launch/slurm: _step_signal: Terminating StepId=48.0\n"
      "srun: error: n1: tasks 0-1: Terminated\n",
      143, 9, false);
  CHECK(exited.ending.cause == "rank 5 exited with 11 (oom)");
  CHECK(exited.ending.outcome == Outcome::oom);
  CHECK(exited.rank == 5);
  CHECK(exited.ending.node == "n3");
  const Evidence killed = evidence_of_step("srun: error: n1: tasks 2-3: Killed\n", 137, 9, false);
  CHECK(killed.ending.cause == "rank 2 was ended by SIGKILL");
  CHECK(evidence_of_step("srun: error: n1: task 0: Segmentation fault (core dumped)", 139, 9, false)
            .ending.signal == SIGSEGV);
  CHECK(evidence_of_step("srun: error: n1: task 0: Terminated", 143, 9, true).ending.outcome ==
      Outcome::preempted);
  CHECK(evidence_of_step("srun: error: n1: task 7: Out Of Memory\n", 1, 9, false).ending.outcome ==
      Outcome::oom);
}

TEST_CASE("a step that somebody has cancelled says nothing about its trial") {
  const std::string cancelled =
      "slurmstepd-n1: error: *** STEP 79.3 ON n1 CANCELLED AT 2026-11-30T07:09:41 ***\n";
  const std::string killed = "srun: error: n1: tasks 0-1: Killed\n";
  const auto outcome = [](const std::string& output) {
    return evidence_of_step(output, 137, 9, false).ending.outcome;
  };
  CHECK(outcome("srun: Job step aborted: Waiting up to 5 seconds\n" + cancelled + killed) ==
      Outcome::reaped);
  // What is told to stop by its scheduler is preempted, also if that cancels its step.
  CHECK(evidence_of_step(cancelled + "srun: error: n1: task 0: Terminated\n", 143, 9, true)
            .ending.outcome == Outcome::preempted);
  // After a failed task srun cancels the others.
  CHECK(outcome(killed + cancelled) == Outcome::crashed);
  CHECK(outcome(cancelled + "srun: error: n1: task 0: Segmentation fault\n") == Outcome::crashed);
  CHECK(outcome("slurmstepd: error: *** STEP 79.3 ON n1 CANCELLED AT 2026-11-30T07:09:41 DUE TO "
                "TIME LIMIT ***\n" +
            killed) == Outcome::crashed);
}

TEST_CASE("a step that runs has failed when srun names a task or a node") {
  CHECK_FALSE(first_failure_in("", 9, false));
  CHECK_FALSE(first_failure_in("srun: error: cluster configuration lacks support\n", 9, false));
  const auto exited = first_failure_in(
      "srun: error: n2: task 3: Exited with exit code 9\n"
      "srun: launch/slurm: _step_signal: Terminating StepId=6.0\n",
      9, false);
  REQUIRE(exited);
  CHECK(exited->rank == 3);
  CHECK(exited->ending.node == "n2");
}

TEST_CASE("a step whose srun names no task is known by its exit code") {
  CHECK(evidence_of_step("srun: error: Unable to create step\n", 1, 9, false).ending.cause ==
      "the step exited with 1: srun: error: Unable to create step");
  CHECK(evidence_of_step("", 137, 9, false).ending.cause == "the step was ended by SIGKILL");
  for (const char* odd : {"srun: error: n1: task", "srun: error: n1: task x: y",
           "srun: error: n1: task 5", "n1: task 5: Killed"})
    CHECK(evidence_of_step(odd, 3, 9, false).rank == -1);
}

TEST_CASE("a step names the one node of its first failure, and none of several") {
  CHECK(evidence_of_step("srun: error: gpu-[07-08]: tasks 0-3: Killed\n", 137, 9, false)
            .ending.node.empty());
  const Evidence lost = evidence_of_step(
      "srun: error: Node failure on n2\nsrun: error: n1: tasks 0-1: Killed\n", 137, 9, false);
  CHECK(lost.ending.outcome == Outcome::node_failure);
  CHECK(lost.ending.node == "n2");
  CHECK(lost.ending.cause == "srun lost node n2: Node failure on n2");
}

TEST_CASE("srun's word accuses a node only if it is that node's failure, and its alone") {
  const std::string launch = "srun: error: Task launch for StepId=7.0 failed on node ";
  const std::string refused = launch + "n1: Unable to satisfy cpu bind request\n";
  const std::string revoked = launch + "n1: Job credential revoked\n";
  const std::string lost = launch + "n2: Communication connection failure\n";
  const std::string timed_out = launch + "n3: Socket timed out on send/recv operation\n";
  CHECK_FALSE(first_failure_in(refused, 9, false));
  CHECK_FALSE(lost_node_in(revoked, 9));
  CHECK(first_failure_in(revoked + lost, 9, false)->ending.node == "n2");
  CHECK(lost_node_in(lost + revoked + lost, 9)->ending.node == "n2");
  for (const std::string& several : {lost + timed_out, timed_out + revoked + lost}) {
    const auto network = first_failure_in(several, 9, false);
    REQUIRE(network);
    CHECK(network->ending.node.empty());
    CHECK(network->ending.outcome == Outcome::comm_error);
  }
}

TEST_CASE("a step that did not start is the named node's failure, else nobody's") {
  const Evidence named = evidence_of_no_step(
      "srun: error: Task launch for StepId=7.0 failed on node n3: Invalid job credential\n"
      "srun: error: Application launch failed: Invalid job credential\n"
      "srun: Job step aborted: Waiting up to 5 seconds for job step to finish.\n",
      "", 9);
  CHECK(named.ending.outcome == Outcome::node_failure);
  CHECK(named.ending.node == "n3");
  CHECK(named.ending.cause ==
      "the step did not start: srun lost node n3: Task launch for StepId=7.0 failed on node n3: "
      "Invalid job credential");
  CHECK(named.ending.start_error == 0);
  const Evidence nobodys = evidence_of_no_step(
      "srun: error: Unable to create step for job 7: More processors requested than "
      "permitted\n\n",
      "", 9);
  CHECK(nobodys.ending.outcome == Outcome::lost);
  CHECK(nobodys.ending.node.empty());
  CHECK(nobodys.ending.start_error != 0);
  CHECK(nobodys.ending.cause.ends_with("More processors requested than permitted"));
  CHECK(evidence_of_no_step("", "no progress for 3 s", 9).ending.cause ==
      "the step did not start: no progress for 3 s");
}

TEST_CASE("what srun and a log say is quoted without what a terminal obeys") {
  CHECK(evidence_of_no_step("srun: error: Node failure on n2\x1b[2J", "why", 9).ending.cause ==
      "the step did not start: srun: error: Node failure on n2\\x1b[2J");
  const Evidence no_name =
      evidence_of_step("srun: error: Node failure on n\x1b[2J: gone\n", 7, 9, false);
  CHECK(no_name.ending.node.empty());
  CHECK(no_name.ending.cause.find('\x1b') == std::string::npos);
  CHECK(evidence_of_step("gone\x1b[2J\n", 7, 9, false).ending.cause.find('\x1b') ==
      std::string::npos);
  const auto finding = find_cause("\x1b[31mRuntimeError: CUDA out of memory.\x1b[0m", {});
  REQUIRE(finding);
  CHECK(finding->line == "RuntimeError: CUDA out of memory.");
}
