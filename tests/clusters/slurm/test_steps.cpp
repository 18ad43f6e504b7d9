// SPDX-License-Identifier: Apache-2.0
// `launch: srun`: each attempt is a Slurm step of its own, started by a lead without node
// agents.
#include "clusters/slurm/job.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace shardsweep;
using test::Job;
using test::output_of;

namespace {

struct StepJob : Job {
  explicit StepJob(int nodes) : Job(nodes) { spec.launch = LaunchMode::srun; }
  void finish() {
    tell(Drain{});
    CHECK(wait_gone());
    check_account("drained");
  }
};

const std::string one_host = "leftover processes were looked for on one host only";

}  // namespace

TEST_CASE("steps train, tell an oom, a hang and what was asked for, and go on") {
  StepJob job(4);
  const Assign trained =
      job.assign_training({"--layers", "4", "--hidden", "64", "--ffn", "128", "--heads", "4",
                              "--vocab", "256", "--seq-len", "32", "--steps", "2", "--dp", "2",
                              "--tp", "2", "--pp", "2", "--grad-accum", "2"},
          8);
  job.every.limits.grace_s = 5;  // srun ends the other tasks after a second or two
  const Assign oom = job.assign({"steps", "5:error=oom", "5:exit=11", "hang"}, 8);
  job.every.limits.grace_s = 0.3;
  job.every.limits.first_step_limit_s = job.every.limits.step_limit_s = 1;
  const Assign hung = job.assign({"steps", "stubborn", "hang"}, 8);
  job.every.limits.first_step_limit_s = job.every.limits.step_limit_s = 3600;
  const Assign running = job.assign({"steps", "hang"}, 8);
  const Assign last = job.assign({"steps", "result"}, 8);
  job.submit();
  Ended ended = job.wait_ended(trained.attempt);
  CHECK_MESSAGE(ended.ending.outcome == Outcome::completed, ended.ending.cause);
  CHECK(ended.ending.cause == one_host);
  ended = job.wait_ended(oom.attempt);
  CHECK(ended.ending.outcome == Outcome::oom);
  CHECK(ended.ending.cause == "rank 5: oom: as told; " + one_host);
  CHECK(ended.ending.exit_code == 11);
  ended = job.wait_ended(hung.attempt);
  CHECK(ended.ending.outcome == Outcome::hung);
  CHECK(ended.ending.cause.starts_with("no progress in phase 'train' for "));
  job.wait_steps(running, 8);
  job.tell(Cancel{running.attempt, "by hand"});
  CHECK(job.wait_ended(running.attempt).ending.outcome == Outcome::cancelled);
  CHECK(job.wait_ended(last.attempt).ending.outcome == Outcome::completed);
  job.finish();
}

TEST_CASE("neighbouring ranks of a step share a node and each has its GPU") {
  StepJob job(4);
  const Assign attempt = job.assign({"place", "result"}, 8);
  job.submit();
  CHECK(job.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
  const auto places = job.places(attempt);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    CHECK(places[rank].local_rank == static_cast<int>(rank % 2));
    CHECK(places[rank].device == std::to_string(rank % 2));
    CHECK(places[rank].scheduler == "slurm");
    CHECK(places[rank].node == places[rank / 2 * 2].node);
    CHECK((rank < 2 || places[rank].node != places[rank - 2].node));
  }
  job.finish();
}

TEST_CASE("a step that nobody answers is the infrastructure's fault") {
  StepJob job(2);
  const Assign first = job.assign({"steps", "hang"}, 4);
  job.every.limits.start_limit_s = 3;
  const Assign second = job.assign({"steps", "result"}, 4);
  job.submit();
  job.wait_steps(first, 4);
  // A slurmctld that dies sooner forgets the job and gives its number to another one.
  REQUIRE(
      test::wait_until([&] { return test::is_saved(job.spec.job_name); }, test::patience_s, 100));
  test::slurm_cluster("kill-ctld");
  job.tell(Cancel{first.attempt, "enough"});
  CHECK(job.wait_ended(first.attempt).ending.outcome == Outcome::cancelled);
  const Ended ended = job.wait_ended(second.attempt);
  test::slurm_cluster("start-ctld");
  CHECK(ended.ending.outcome == Outcome::lost);
  CHECK(ended.ending.start_error != 0);
  CHECK_MESSAGE(ended.ending.cause.starts_with("the step did not start: "), ended.ending.cause);
  job.finish();
}

TEST_CASE("a step that can't start is the infrastructure's fault") {
  StepJob job(2);
  // More tasks on a node than there are CPUs.
  job.every.ranks_per_node = 400;
  job.spec.slots_per_node = 400;
  const Assign attempt = job.assign({"result"}, 800);
  job.submit();
  const Ended ended = job.wait_ended(attempt.attempt);
  CHECK(ended.ending.outcome == Outcome::lost);
  CHECK(ended.ending.start_error != 0);
  CHECK_MESSAGE(
      ended.ending.cause.starts_with("the step did not start: srun: error: "), ended.ending.cause);
  job.finish();
}

TEST_CASE("what fails in a step names the node on which it ran") {
  StepJob job(3);
  const Assign exits = job.assign({"3:exit=9", "hang"}, 6);
  const Assign records = job.assign({"4:error=internal", "4:exit=16", "hang"}, 6);
  job.submit();
  const Ended first = job.wait_ended(exits.attempt);
  CHECK(first.ending.outcome == Outcome::crashed);
  const Ended second = job.wait_ended(records.attempt);
  job.finish();
  const auto nodes = job.wait_nodes();
  REQUIRE(nodes.size() == 3);
  CHECK_MESSAGE(first.ending.node == nodes[1], first.ending.cause);
  CHECK_MESSAGE(second.ending.node == nodes[2], second.ending.cause);
}

TEST_CASE("scancel ends a step as preempted; kill -9 of the lead leaves nothing") {
  for (const bool by_scancel : {true, false}) {
    CAPTURE(by_scancel);
    StepJob job(2);
    const Assign attempt = job.assign({"steps", "hang"}, 4);
    job.submit();
    job.wait_steps(attempt, 4);
    if (by_scancel) {
      (void)output_of("scancel " + job.id());
      CHECK(job.wait_ended(attempt.attempt).ending.outcome == Outcome::preempted);
    } else {
      ::kill(job.lead(), SIGKILL);
    }
    CHECK(job.wait_gone());
  }
}
