// SPDX-License-Identifier: Apache-2.0
// Lanes in jobs of a real Slurm: one srun of node agents, and training over 1 to 8 nodes.
#include "clusters/slurm/job.hpp"
#include "machine/processes.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace shardsweep;
using test::Job;
using test::output_of;

namespace {

const std::vector<std::string> tiny{"--layers", "4", "--hidden", "64", "--ffn", "128", "--heads",
    "4", "--vocab", "256", "--seq-len", "32", "--steps", "2", "--micro-batch", "1"};

std::vector<std::string> layout(int dp, int tp, int pp) {
  std::vector<std::string> flags = tiny;
  for (const auto& word :
      {std::string("--dp"), std::to_string(dp), std::string("--tp"), std::to_string(tp),
          std::string("--pp"), std::to_string(pp), std::string("--grad-accum"), std::to_string(pp)})
    flags.push_back(word);
  return flags;
}

}  // namespace

TEST_CASE("a lane trains over 1, 2, 4 and 8 nodes") {
  for (const int nodes : {1, 2, 4, 8}) {
    CAPTURE(nodes);
    Job job(nodes);
    const int world = 2 * nodes;
    job.assign_training(layout(world, 1, 1), world);
    job.assign_training(layout(nodes, 2, 1), world);
    job.assign_training(layout(nodes, 1, 2), world);
    job.submit();
    for (const AttemptId attempt : {1, 2, 3}) {
      const Ended ended = job.wait_ended(attempt);
      CHECK_MESSAGE(ended.ending.outcome == Outcome::completed, ended.ending.cause);
      CHECK(ended.ending.leaked == 0);
    }
    job.tell(Drain{});
    CHECK(job.wait_gone());
    job.check_account("drained");
    CHECK(job.wait_state("COMPLETED"));
  }
}

TEST_CASE("each rank has its node, its GPU and nothing of Slurm's") {
  Job job(4);
  // What a login environment may hold: unbuffered or labelled output would break the channel.
  job.prolog = "export SLURM_UNBUFFEREDIO=1 SLURM_LABELIO=1 SRUN_CPUS_PER_TASK=3 SLURM_NTASKS=9";
  const Assign attempt = job.assign({"place", "result"}, 8);
  job.submit();
  CHECK(job.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
  const auto places = job.places(attempt);
  const std::vector<std::string> nodes = job.wait_nodes();
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    CHECK(places[rank].local_rank == static_cast<int>(rank % 2));
    CHECK(places[rank].device == std::to_string(rank % 2));
    CHECK(places[rank].node == nodes[rank / 2]);
    CHECK(places[rank].inherited == 0);
    CHECK(places[rank].scheduler == "free");
  }
  CHECK(job.log().find("foreign output") == std::string::npos);
}

TEST_CASE("a second job with the same token leaves at once and runs nothing") {
  Job job(1);
  job.assign({"steps", "hang"});
  job.submit();
  job.wait_nodes();
  const std::string second = job.submit();
  CHECK(test::wait_until([&] { return job.state(second) == "FAILED"; }, test::patience_s, 100));
  CHECK(output_of("scontrol show job " + second).find("ExitCode=75:0") != std::string::npos);
  CHECK(job.log().find("another lead has claimed this allocation") != std::string::npos);
  job.tell(Cancel{1, "enough"});
  CHECK(job.wait_ended(1).ending.outcome == Outcome::cancelled);
  job.tell(Drain{});
  CHECK(job.wait_gone());
  job.check_account("drained");
}

TEST_CASE("a job that Slurm starts again measures nothing") {
  Job job(1);
  const Assign attempt = job.assign({"steps", "hang"});
  const Assign waiting = job.assign({"result"});
  job.submit();
  job.wait_nodes();
  job.wait_steps(attempt, 2);
  const pid_t first_start = process_stat(job.lead()).value_or(ProcessStat{}).parent;
  REQUIRE(process_cmdline(first_start).starts_with("slurmstepd"));
  // What an administrator can do in spite of --no-requeue.
  (void)output_of("scontrol update jobid=" + job.id() + " requeue=1");
  (void)output_of("scontrol requeue " + job.id());
  CHECK(job.wait_ended(attempt.attempt).ending.outcome == Outcome::preempted);
  CHECK(job.wait_gone());
  CHECK(job.revoked() == std::vector<AttemptId>{waiting.attempt});
  // It waits two minutes, or until it is told. Before that its first start has to have reported
  // its end: slurmctld takes a late report for the second's, which is then over unseen.
  CHECK(test::wait_until([&] { return !process_stat(first_start); }));
  CHECK(job.wait_state("PENDING"));
  // slurmd starts no job again whose credential it has just revoked ("already killed, do not
  // launch batch job"): it compares seconds.
  (void)output_of("scontrol update jobid=" + job.id() + " StartTime=now+3");
  CHECK(test::wait_until([&] { return job.state() == "FAILED"; }, test::patience_s, 100));
  const std::string shown = output_of("scontrol show job " + job.id());
  const std::string log = job.log();
  CAPTURE(shown);
  CAPTURE(log);
  CHECK(shown.find("ExitCode=75:0") != std::string::npos);
  CHECK(log.find("this job was started before") != std::string::npos);
  job.check_account("signal");
}
