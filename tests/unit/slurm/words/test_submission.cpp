// SPDX-License-Identifier: Apache-2.0
// What sbatch says, and what we make of it.
#include "slurm/words/submission.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <variant>

using namespace shardsweep;
using namespace shardsweep::slurm;

namespace {

template <class Event>
bool is(const SchedulerEvent& event) {
  return std::holds_alternative<Event>(event);
}

SchedulerEvent failed(std::string_view err, int exit_code = 1) {
  return read_submission("t", exit_code, "", err);
}

}  // namespace

TEST_CASE("an id is a success, whatever stands beside it") {
  CHECK(std::get<SubmitAccepted>(read_submission("t", 0, "123\n", "")).job_id == "123");
  CHECK(std::get<SubmitAccepted>(read_submission("t", 0, "123;alpha\n", "")).job_id == "123");
  // After retries of its own sbatch has printed both.
  CHECK(is<SubmitAccepted>(
      read_submission("t", 1, "123\n", "sbatch: error: Slurm temporarily unable to accept job")));
}

TEST_CASE("a refusal for want of nodes is told from others") {
  const auto lacks = [](std::string_view err) {
    return lacks_nodes(std::get<SubmitRefused>(failed(err)).why);
  };
  const std::string refused = "sbatch: error: Batch job submission failed: ";
  CHECK(lacks(refused + "Requested node configuration is not available"));
  CHECK(lacks(refused + "Invalid node name specified"));
  CHECK(lacks(refused + "Node count specification invalid"));
  CHECK_FALSE(lacks(refused + "Invalid account or account/partition combination specified"));
  CHECK_FALSE(lacks(refused + "Invalid partition name specified"));
}

// NOLINTBEGIN(bugprone-suspicious-missing-comma): one message, two lines.
TEST_CASE("a lost answer is no refusal") {
  for (const char* text :
      {"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
          "sbatch: error: Batch job submission failed: Unable to contact slurm controller "
          "(connect "
          "failure)",
          "sbatch: error: Batch job submission failed: Unexpected message received",
          // A controller that was killed while it answered.
          "sbatch: error: slurm_msg_sendto: address:port=127.0.0.1:16144 msg_type=4003: "
          "Unexpected missing socket error\nsbatch: error: Batch job submission failed: "
          "Unexpected missing socket error",
          "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received", "",
          "Killed"}) {
    CHECK_MESSAGE(is<SubmitUnknown>(failed(text)), text);
  }
  CHECK(is<SubmitUnknown>(failed("", -1)));
  CHECK(is<SubmitUnknown>(read_submission("t", 0, "Submitted batch job 7\n", "")));
  CHECK(is<SubmitUnknown>(read_submission("t", 0, "", "")));
}

TEST_CASE("a limit that other jobs fill is waited for") {
  for (const char* text :
      {"sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: "
       "Job "
       "violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
          "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission "
          "failed: "
          "Job violates accounting/QOS policy",
          "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
          "sbatch: error: Batch job submission failed: Resource temporarily unavailable"}) {
    CHECK_MESSAGE(is<SubmitDeferred>(failed(text)), text);
  }
}

// NOLINTEND(bugprone-suspicious-missing-comma)

TEST_CASE("a limit that the job itself breaks is a refusal, whatever the general text says") {
  constexpr const char* general =
      "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job "
      "submit limit, user's size and/or time limits)";
  for (const char* reason : {"QOSMaxWallDurationPerJobLimit", "QOSMaxNodePerJobLimit",
           "AssocMaxWallDurationPerJobLimit", "QOSMaxCpuPerJobLimit"}) {
    const std::string text = fmt::format("sbatch: error: {}\n{}", reason, general);
    CHECK_MESSAGE(is<SubmitRefused>(failed(text.c_str())), text);
  }
  // Without a name it is open: put off for a while, not for ever.
  const auto open = failed(general);
  REQUIRE(is<SubmitDeferred>(open));
  CHECK_FALSE(std::get<SubmitDeferred>(open).passes);
  CHECK(std::get<SubmitDeferred>(failed("sbatch: error: QOSMaxSubmitJobPerAccountLimit")).passes);
}

TEST_CASE("a refusal is one, with Slurm's words") {
  const auto refused = failed(
      "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission "
      "failed: Invalid partition name specified");
  REQUIRE(is<SubmitRefused>(refused));
  CHECK(std::get<SubmitRefused>(refused).why.find("Invalid partition name specified") !=
      std::string::npos);
}

TEST_CASE("no template can lose what the tool owns") {
  AllocationRequest request;
  request.token = "3f9a01ab";
  request.job_name = "s-n2_3f9a01ab";
  request.dir = "/home/a b";
  request.script = "/home/a b/job.sbatch";
  const auto has = [](const std::vector<std::string>& words, const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  auto command = submission_command(request);
  for (const char* word : {"--parsable", "--no-requeue", "--no-kill", "--propagate=NONE",
           "--job-name=s-n2_3f9a01ab", "--chdir=/home/a b"}) {
    CHECK_MESSAGE(has(command, word), word);
  }
  CHECK(command.back() == "/home/a b/job.sbatch");
  CHECK_FALSE(has(command, "--hold"));
  request.strict = true;
  CHECK(has(submission_command(request), "--hold"));
}

TEST_CASE("nothing of a login shell reaches Slurm's commands but what every process has") {
  const auto clean =
      command_environment({"PATH=/usr/bin", "HOME=/home/a", "SLURM_CONF=/etc/slurm.conf",
          "SBATCH_PARTITION=x", "SLURM_TIME_FORMAT=%s", "SQUEUE_FORMAT=%j", "SACCT_FORMAT=jobid",
          "LD_PRELOAD=/x.so", "SECRET=1", "SLURM_UNBUFFEREDIO=1", "SLURM_JOB_ID=3"});
  CHECK(clean ==
      std::vector<std::string>{"PATH=/usr/bin", "HOME=/home/a", "SLURM_CONF=/etc/slurm.conf"});
}
