// SPDX-License-Identifier: Apache-2.0
// Slurm's texts and words.
#include "slurm/words/job.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;
using namespace shardsweep::slurm;

namespace {

constexpr std::int64_t own_uid = 1000;

JobReading read(const std::string& state, const std::string& reason = "None") {
  return read_state({.id = "1", .state = state, .reason = reason}, own_uid);
}

}  // namespace

TEST_CASE("every base state and every flag that squeue puts in its place has a meaning") {
  for (const char* word : {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
           "SPECIAL_EXIT", "RESV_DEL_HOLD"}) {
    CHECK_MESSAGE(read(word).state == JobState::pending, word);
  }
  // A job that is being taken down still has its nodes.
  for (const char* word :
      {"RUNNING", "SUSPENDED", "COMPLETING", "RESIZING", "STOPPED", "SIGNALING", "STAGE_OUT"}) {
    CHECK_MESSAGE(read(word).state == JobState::running, word);
  }
  for (const char* word : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
           "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}) {
    CHECK_MESSAGE(read(word).state == JobState::ended, word);
  }
  for (const char* word : {"REVOKED", "TELEPORTED", "", "CANCELLE"}) {
    CHECK_MESSAGE(read(word).state == JobState::unknown, word);
  }
}

TEST_CASE("what an end means for what ran in the job") {
  CHECK(read("NODE_FAIL").outcome == Outcome::node_failure);
  CHECK(read("BOOT_FAIL").outcome == Outcome::node_failure);
  CHECK(read("PREEMPTED").outcome == Outcome::preempted);
  CHECK(read("TIMEOUT").outcome == Outcome::timeout);
  CHECK(read("DEADLINE").outcome == Outcome::timeout);
  CHECK(read("OUT_OF_MEMORY").outcome == Outcome::oom);
  CHECK_FALSE(read("COMPLETED").outcome);
  CHECK_FALSE(read("FAILED").outcome);
}

TEST_CASE("who cancelled it decides between cancelled and reaped") {
  CHECK(read("CANCELLED by 1000").outcome == Outcome::cancelled);
  CHECK(read("CANCELLED by 0").outcome == Outcome::reaped);
  CHECK(read("CANCELLED by 0").cancelled_by == 0);
  CHECK(read("CANCELLED").outcome == Outcome::reaped);
  CHECK_FALSE(read("CANCELLED").cancelled_by);
  CHECK(read("CANCELLED+").state == JobState::ended);
}

TEST_CASE("a job that can never start is told from one that waits") {
  CHECK(read("PENDING", "launch failed requeued held").stuck);
  CHECK(read("PENDING", "launch_failed_requeued_held").stuck);
  CHECK(read("PENDING", "JobHoldMaxRequeue").stuck);
  CHECK(read("REQUEUE_HOLD").stuck);
  CHECK_FALSE(read("PENDING", "Resources").stuck);
  CHECK_FALSE(read("PENDING", "JobHeldUser").stuck);
  CHECK(read("PENDING", "JobHeldUser").hold == Hold::user);
  CHECK(read("PENDING", "Resources").hold == Hold::nobody);
  CHECK(read("SUSPENDED", "None").hold == Hold::suspended);
  CHECK_FALSE(read("PENDING", "SomethingNew").stuck);
  CHECK_FALSE(read("RUNNING", "launch failed requeued held").stuck);
}

TEST_CASE("squeue's lines are read to the byte, garbage is refused as a whole") {
  const std::string good =
      "12\x1fRUNNING\x1fNone\x1fn[1-2]\x1fsweep-n2_3f9a01ab\x1f\n"
      "13\x1fPENDING\x1flaunch failed requeued held\x1f\x1f"
      "a|b c\x1f\n";
  const auto jobs = parse_queue(good);
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 2);
  CHECK((*jobs)[0].id == "12");
  CHECK((*jobs)[0].nodes == "n[1-2]");
  CHECK((*jobs)[0].name == "sweep-n2_3f9a01ab");
  CHECK((*jobs)[1].reason == "launch failed requeued held");
  CHECK((*jobs)[1].name == "a|b c");
  CHECK(parse_queue("")->empty());
  for (const char* bad : {"slurm_load_jobs error: Socket timed out\n", "12\x1fRUNNING\n",
           "x\x1fRUNNING\x1fNone\x1f\x1fname\x1f\n", "12\x1f\x1fNone\x1f\x1fname\x1f\n", "<html>\n",
           "12\x1frunning\x1fNone\x1f\x1fname\x1f\n", "12\x1fRUNNING\x1fNone\x1f\x1fname\n",
           "12\x1fRUNNING\x1fNone\x1f\x1fname\x1fmore\n"}) {
    const auto refused = parse_queue(good + bad);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == FaultKind::unavailable);
  }
}

TEST_CASE("a line break in a job's name hides no other job") {
  const auto jobs = parse_queue(
      "11\x1fRUNNING\x1fNone\x1fn1\x1fmine\nand more\n\n12\x1f\n"
      "13\x1fPENDING\x1fPriority\x1f\x1fs-n2_3f9a01ab\x1f\r\n");
  REQUIRE(jobs);
  REQUIRE(jobs->size() == 2);
  CHECK((*jobs)[0].name == "mine\nand more\n\n12");
  CHECK((*jobs)[1].id == "13");
  CHECK((*jobs)[1].name == "s-n2_3f9a01ab");
}

TEST_CASE("sacct's lines") {
  const auto jobs = parse_accounting(
      "7\x1f"
      "CANCELLED by 0\x1fNone\x1fn1\x1f"
      "0:53\x1fname\n");
  REQUIRE(jobs);
  CHECK((*jobs)[0].state == "CANCELLED by 0");
  CHECK((*jobs)[0].exit_code == 0);
  CHECK((*jobs)[0].signal == 53);
  CHECK((*jobs)[0].source == Source::accounting);
  CHECK_FALSE(
      parse_accounting("7\x1f"
                       "FAILED\x1fNone\x1fn1\x1fx:1\x1fname\n"));
  CHECK_FALSE(
      parse_accounting("7\x1f"
                       "FAILED\x1fNone\x1fn1\x1f"
                       "1\x1fname\n"));
}

TEST_CASE("people read what the words mean") {
  Job job{.id = "7", .state = "FAILED", .reason = "None", .signal = 53};
  job.source = Source::accounting;
  CHECK(describe(job, 1000).find("could not write the job's output file") != std::string::npos);
  CHECK(describe({.id = "7", .state = "FAILED", .reason = "JobLaunchFailure"}, 1000)
            .find("could not write the job's output file") != std::string::npos);
  // Accounting still has why it waited.
  job = {.id = "7", .state = "CANCELLED by 0", .reason = "BeginTime"};
  job.source = Source::accounting;
  CHECK(describe(job, 1000) == "CANCELLED by 0");
  CHECK(describe(job, 0) == "cancelled by you (scancel)");
  CHECK(describe({.id = "7", .state = "PENDING", .reason = "Priority"}, 1000) ==
      "PENDING (Priority)");
  CHECK(
      explain_reason("ReqNodeNotAvail, UnavailableNodes:n3").find("sinfo -R") != std::string::npos);
  CHECK(explain_reason("NoSuchReason").empty());
}

TEST_CASE("a line that describes no job is quoted without what a terminal obeys") {
  CHECK(parse_queue("12\x1f\x1b[2J\n").error().what ==
      "squeue printed a line that does not describe a job: '12\\x1f\\x1b[2J'");
}
