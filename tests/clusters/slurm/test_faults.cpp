// SPDX-License-Identifier: Apache-2.0
// What dies in a job of a real Slurm, and what the lead makes of it: the outcome and cause of
// the running attempt, every process of ours gone from every node within its lease, and no
// attempt lost or run twice.
#include "clusters/slurm/job.hpp"
#include "machine/processes.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace shardsweep;
using test::Job;
using test::output_of;
using test::wait_until;

namespace {

// What is about a node's silence waits for this lease; a node that only has no core is heard by
// then. Nothing else is found by a lease, and no other one runs out.
constexpr double silence_s = 10;

/// Three nodes with two ranks each that ignore SIGTERM and have a detached child that does too;
/// a second attempt waits.
struct Scene {
  Job job{3};
  Assign running;
  Assign waiting;
  std::vector<std::string> nodes;
  explicit Scene(
      double node_lease_s = test::no_lease_s, const std::vector<std::string>& options = {}) {
    job.options = options;
    job.spec.limits.node_lease_s = node_lease_s;
    // No limit but those under test strikes, however long Slurm takes.
    job.every.limits.step_limit_s = job.every.limits.attempt_limit_s = 3600;
    job.spec.limits.stop_before_end_s = 1;
    running = job.assign({"stubborn", "leak", "steps", "hang"}, 6);
    waiting = job.assign({"result"}, 6);
    job.submit();
    nodes = job.wait_nodes();
    job.wait_steps(running, 6);
  }
  void check_ended(Outcome outcome, const std::string& cause_begins) {
    const Ended ended = job.wait_ended(running.attempt);
    CHECK(ended.ending.outcome == outcome);
    CHECK_MESSAGE(ended.ending.cause.starts_with(cause_begins),
        ended.ending.cause << "\n"
                           << job.log());
  }
};

bool is_stopped(pid_t pid) {
  return process_stat(pid).value_or(ProcessStat{}).state == 'T';
}

void lose_slurmd(std::size_t victim) {
  Scene scene(silence_s);
  const std::string& node = scene.nodes[victim];
  ::kill(test::slurmd(node), SIGKILL);
  CHECK(wait_until([&] { return scene.job.ended(1).has_value(); }));
  scene.check_ended(Outcome::node_failure, "node " + node + " sent nothing for ");
  CHECK(scene.job.wait_gone());
  test::slurm_cluster("start-node " + node.substr(1));
  scene.job.check_account("node lost");
}

}  // namespace

TEST_CASE("kill -9 of a node agent: its guard cleans up, the node is lost by its silence") {
  Scene scene(silence_s);
  ::kill(scene.job.node_agent(scene.nodes[1]), SIGKILL);
  CHECK(wait_until([&] { return scene.job.ranks(scene.nodes[1]).empty(); }));
  scene.check_ended(Outcome::node_failure,
      "the node agent of " + scene.nodes[1] + " was ended by SIGKILL; node " + scene.nodes[1] +
          " sent nothing for ");
  CHECK(scene.job.wait_ended(scene.running.attempt).ending.node == scene.nodes[1]);
  CHECK(scene.job.wait_gone());
  scene.job.check_account("node lost");
  CHECK(scene.job.wait_state("COMPLETED"));
}

TEST_CASE("kill -9 of a guard: its node agent ends its ranks and says so") {
  Scene scene;
  ::kill(scene.job.guard(scene.nodes[1]), SIGKILL);
  // In its own words, or where srun gave up the step for it, in those that it said at once.
  scene.check_ended(Outcome::node_failure, "the guard process has ended; ");
  CHECK(scene.job.wait_gone());
  scene.job.check_account("node lost");
}

TEST_CASE("kill -9 of a node's slurmstepd: its node agent is alone and leaves") {
  Scene scene(silence_s);
  const pid_t stepd = scene.job.stepd(scene.nodes[1]);
  REQUIRE(stepd > 0);
  ::kill(stepd, SIGKILL);
  CHECK(wait_until([&] { return scene.job.ranks(scene.nodes[1]).empty(); }));
  // If srun was just reading a message of that node, it gives up the whole step, and says of
  // all tasks alike that they were killed.
  const Ended ended = scene.job.wait_ended(scene.running.attempt);
  const std::string& cause = ended.ending.cause;
  CHECK(ended.ending.outcome == Outcome::node_failure);
  const bool silent = cause.starts_with("node " + scene.nodes[1] + " sent nothing for ");
  const bool all_at_once = cause.starts_with("all node agents have ended; which of");
  CHECK_MESSAGE((silent || all_at_once), cause << "\n" << scene.job.log());
  CHECK(scene.job.wait_gone());
  scene.job.check_account("node lost");
}

TEST_CASE("SIGSTOP of a node agent: the lead is not held up and ends everything") {
  Scene scene(silence_s);
  const pid_t agent = scene.job.node_agent(scene.nodes[1]);
  ::kill(agent, SIGSTOP);
  scene.check_ended(Outcome::node_failure, "node " + scene.nodes[1] + " sent nothing for ");
  CHECK(scene.job.wait_gone());
  scene.job.check_account("node lost");
}

TEST_CASE("kill -9 of srun: the channel ends and with it every node") {
  Scene scene;
  ::kill(scene.job.srun(), SIGKILL);
  scene.check_ended(Outcome::node_failure, "all node agents have ended");
  CHECK(scene.job.wait_gone());
  scene.job.check_account("node lost");
}

TEST_CASE("kill -9 of the lead: nothing of it is left and nothing has ended by its word") {
  Scene scene;
  ::kill(scene.job.lead(), SIGKILL);
  CHECK(scene.job.wait_gone());
  CHECK(!scene.job.ended(scene.running.attempt));
  CHECK(scene.job.bye().empty());
  CHECK(std::filesystem::exists(scene.running.dir));
  CHECK(wait_until([&] { return scene.job.state() != "RUNNING"; }, test::patience_s, 100));
}

TEST_CASE("scancel: the running attempt was preempted and the rest is given back") {
  Scene scene;
  (void)output_of("scancel " + scene.job.id());
  scene.check_ended(Outcome::preempted, "the allocation was told to stop (SIGTERM)");
  CHECK(scene.job.wait_gone());
  scene.job.check_account("signal");
}

TEST_CASE("scontrol suspend: a pause is held against nobody") {
  Scene scene(4);
  (void)output_of("scontrol suspend " + scene.job.id());
  CHECK(wait_until([&] { return is_stopped(scene.job.lead()); }));
  for (const auto& node : scene.nodes)
    CHECK(wait_until([&] { return is_stopped(scene.job.node_agent(node)); }));
  const auto at = scene.job.lines().size();
  // Longer than any lease.
  CHECK(!wait_until([&] { return scene.job.lines().size() > at; }, 6, 100));
  (void)output_of("scontrol resume " + scene.job.id());
  scene.job.tell(Cancel{scene.running.attempt, "enough"});
  scene.check_ended(Outcome::cancelled, "enough");
  CHECK(scene.job.wait_ended(scene.waiting.attempt).ending.outcome == Outcome::completed);
  scene.job.tell(Drain{});
  CHECK(scene.job.wait_gone());
  scene.job.check_account("drained");
}

TEST_CASE("the time limit: the running attempt ran out of the allocation's time") {
  Scene scene(test::no_lease_s, {"--time=1"});
  // Slurm looks at time limits every half a minute.
  CHECK(wait_until([&] { return scene.job.ended(1).has_value(); }));
  scene.check_ended(Outcome::timeout, "the allocation reached its time limit");
  CHECK(scene.job.wait_gone());
  scene.job.check_account("signal");
}

TEST_CASE("kill -9 of a node's slurmd: all goes on until Slurm gives the node up") {
  lose_slurmd(1);
}

TEST_CASE("kill -9 of the batch host's slurmd: all goes on until Slurm gives the node up") {
  lose_slurmd(0);
}

TEST_CASE("kill -9 of the only slurmd: the job has failed and its lead leaves by itself") {
  Job job(1);
  job.every.limits.step_limit_s = 3600;
  job.spec.limits.node_lease_s = silence_s;
  const Assign attempt = job.assign({"stubborn", "leak", "steps", "hang"}, 2);
  job.submit();
  const std::string node = job.wait_nodes()[0];
  job.wait_steps(attempt, 2);
  ::kill(test::slurmd(node), SIGKILL);
  CHECK(wait_until([&] { return job.ended(1).has_value(); }));
  CHECK(job.wait_ended(1).ending.outcome == Outcome::node_failure);
  CHECK(job.wait_gone());
  CHECK(job.wait_state("NODE_FAIL"));
  test::slurm_cluster("start-node " + node.substr(1));
  job.check_account("node lost");
}

TEST_CASE("a job is given up: its lead ends what runs, gives the rest back and leaves") {
  Scene scene;
  ::kill(test::slurmd(scene.nodes[0]), SIGKILL);
  for (const Assign& open : {scene.running, scene.waiting})
    scene.job.tell(Revoke{open.attempt});
  scene.job.tell(Cancel{scene.running.attempt, "the job has failed"});
  scene.job.tell(Drain{});
  CHECK(scene.job.wait_gone());
  test::slurm_cluster("start-node " + scene.nodes[0].substr(1));
  scene.check_ended(Outcome::cancelled, "the job has failed");
  CHECK(scene.job.revoked() == std::vector<AttemptId>{scene.waiting.attempt});
  scene.job.check_account("drained");
}

TEST_CASE("a measurement that ends while a node's slurmd is dead counts") {
  Job job(2);
  const Assign first = job.assign({"steps", "hang"}, 4);
  const Assign second = job.assign({"steps", "result"}, 4);
  job.submit();
  const auto nodes = job.wait_nodes();
  job.wait_steps(first, 4);
  ::kill(test::slurmd(nodes[1]), SIGKILL);
  job.tell(Cancel{first.attempt, "enough"});
  CHECK(job.wait_ended(first.attempt).ending.outcome == Outcome::cancelled);
  CHECK(job.wait_ended(second.attempt).ending.outcome == Outcome::completed);
  job.tell(Drain{});
  CHECK(job.wait_gone());
  test::slurm_cluster("start-node " + nodes[1].substr(1));
  job.check_account("drained");
}
