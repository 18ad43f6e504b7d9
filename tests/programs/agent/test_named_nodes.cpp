// SPDX-License-Identifier: Apache-2.0
// A failure names the node on which it happened, under every way of launching, or says that it
// can't. srun is a script here.
#include "programs/agent/allocation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

using namespace shardsweep;
using test::Allocation;
using test::two_node_srun;
using test::wait_until;

namespace {

// Of a step: four ranks on two nodes. What they exit with is said as srun says it.
const std::string step_srun = R"(
while [ "${1#-}" != "$1" ]; do shift; done
code=0
for rank in 0 1 2 3; do
  SLURMD_NODENAME=n$((rank / 2 + 7)) SLURM_PROCID=$rank SLURM_LOCALID=$((rank % 2)) "$@" &
  eval "pid_$rank=$!"
done
for rank in 0 1 2 3; do
  eval "wait \$pid_$rank"
  one=$?
  [ $one = 0 ] && continue
  code=$one
  [ -z "$QUIET_SRUN" ] &&
    echo "srun: error: n$((rank / 2 + 7)): task $rank: Exited with exit code $one" >&2
done
exit $code
)";

// One node. As srun does, it exits with 128 + the signal that ended its task.
const std::string telling_srun = R"(
while [ "${1#-}" != "$1" ]; do shift; done
SLURMD_NODENAME=n7 SLURM_NODEID=0 "$@"
exit $?
)";

struct TwoNodes : Allocation {
  explicit TwoNodes(LaunchMode launch, const std::string& srun) {
    spec.launch = launch;
    spec.nodes = 2;
    spec.slots_per_node = every.ranks_per_node = 2;
    put_on_path("srun", srun);
    environment["SLURM_JOB_NODELIST"] = "n[7-8]";
    environment["SLURMD_NODENAME"] = "n7";
  }
  std::vector<std::string> seen() {
    std::vector<std::string> names;
    for (const FromLead& line : lines()) {
      if (const auto* node = std::get_if<NodeSeen>(&line.body)) names.push_back(node->node);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

TEST_CASE("the guard of a killed node agent names its node") {
  TwoNodes job(LaunchMode::agents, two_node_srun);
  (void)job.assign({"steps", "kill-agent-of=n8", "hang"}, 4);
  job.start();
  // That its node is lost when its lease is over is test_leases.cpp's.
  REQUIRE(wait_until([&] { return !job.findings().empty(); }));
  const auto findings = job.findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].node == "n8");
  CHECK(findings[0].kind == EvidenceKind::leaving);
  CHECK(findings[0].detail == "the node agent of n8 was ended by SIGKILL");
}

TEST_CASE("a step that is killed as a whole is nobody's failure, whichever dies first") {
  struct Death {
    const char* points;
    Outcome outcome;
  };
  // `scancel -s KILL` ends the agent and its guard one after the other.
  for (const Death& death : {
           Death{"node.launched:kill,guard.agent_ended:kill", Outcome::reaped},
           Death{"node.launched:kill,guard.said:kill", Outcome::reaped},
           Death{"node.launched:kill", Outcome::node_failure},
       }) {
    CAPTURE(std::string(death.points));
    Allocation job;
    job.spec.launch = LaunchMode::agents;
    job.put_on_path("srun", telling_srun);
    job.environment["SLURM_JOB_NODELIST"] = "n7";
    job.fail_at(death.points);
    const Assign attempt = job.assign({"hang"});
    job.start();
    CHECK(job.wait_exit() == 0);
    const auto ended = job.ended(attempt.attempt);
    REQUIRE(ended);
    CHECK_MESSAGE(ended->ending.outcome == death.outcome, ended->ending.cause);
    CHECK(ended->ending.node.empty() == (death.outcome == Outcome::reaped));
  }
}

TEST_CASE("node agents that are not there are named where others are") {
  TwoNodes job(LaunchMode::agents, R"(
while [ "${1#-}" != "$1" ]; do shift; done
SLURMD_NODENAME=n7 SLURM_NODEID=0 exec "$@"
)");
  // The lead stands still until the one that comes has said so.
  job.fail_at("lead.claimed_written:stop,node.ready_said:wait-for-file");
  job.spec.limits.agents_limit_s = test::at_once_s;
  job.assign({"result"}, 4);
  job.start();
  const pid_t lead = job.wait_at("lead.claimed_written");
  job.wait_at("node.ready_said");
  Allocation::let_go_on(lead);
  CHECK(job.wait_exit() == 0);
  const auto findings = job.findings();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].node == "n8");
  CHECK(findings[0].kind == EvidenceKind::silent);
  CHECK(job.log().find("1 of 2 node agents did not start: n8") != std::string::npos);
}

TEST_CASE("of a step, srun names the node; all nodes of the job are seen") {
  TwoNodes job(LaunchMode::srun, step_srun);
  const Assign attempt = job.assign({"3:exit=9"}, 4);
  const Assign next = job.assign({"result"}, 4);
  job.start();
  const Ended ended = job.wait_ended(attempt.attempt);
  CHECK(ended.ending.outcome == Outcome::crashed);
  CHECK(ended.ending.node == "n8");
  CHECK(job.wait_ended(next.attempt).ending.outcome == Outcome::completed);
  CHECK(job.seen() == std::vector<std::string>{"n7", "n8"});
}

TEST_CASE("of a step whose srun says nothing, a rank's own record gives the node") {
  TwoNodes job(LaunchMode::srun, step_srun);
  job.environment["QUIET_SRUN"] = "1";
  const Assign attempt = job.assign({"2:error=internal", "2:exit=16"}, 4);
  const Assign unknown = job.assign({"3:exit=9"}, 4);
  job.start();
  CHECK(job.wait_ended(attempt.attempt).ending.node == "n8");
  const Ended ended = job.wait_ended(unknown.attempt);
  CHECK(ended.ending.node.empty());
  CHECK_MESSAGE(ended.ending.cause.find("which of 2 nodes (n7, …) it happened on is unknown") !=
          std::string::npos,
      ended.ending.cause);
}

TEST_CASE("a step that nobody starts charges nobody, and its allocation leaves after three") {
  TwoNodes job(
      LaunchMode::srun, "echo 'srun: error: Unable to create step for job 7' >&2; exit 1\n");
  const Assign attempt = job.assign({"result"}, 4);
  job.start();
  const Ended ended = job.wait_ended(attempt.attempt);
  CHECK(ended.ending.outcome == Outcome::lost);
  CHECK(ended.ending.start_error != 0);
  CHECK(ended.ending.node.empty());
  CHECK(ended.ending.cause.starts_with(
      "the step did not start: srun: error: Unable to create step for job 7"));
}

TEST_CASE("a step that a node refuses is that node's failure") {
  TwoNodes job(LaunchMode::srun,
      "echo 'srun: error: Task launch for StepId=7.0 failed on node n8: Invalid job "
      "credential' >&2; exit 1\n");
  const Assign attempt = job.assign({"result"}, 4);
  job.start();
  CHECK(job.wait_exit() == 0);
  const auto ended = job.ended(attempt.attempt);
  REQUIRE(ended);
  CHECK(ended->ending.outcome == Outcome::node_failure);
  CHECK(ended->ending.node == "n8");
  CHECK(job.bye() == "node lost");
}
