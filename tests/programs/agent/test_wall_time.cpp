// SPDX-License-Identifier: Apache-2.0
// A lead inside a job that ends: what it starts, what it gives back, and whom it asks. srun and
// squeue are scripts here.
#include "programs/agent/allocation.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;
using test::Allocation;

namespace {

// One node: the options are srun's, the rest is the node agent.
const std::string one_node_srun = R"(
while [ "${1#-}" != "$1" ]; do shift; done
SLURMD_NODENAME=n1 SLURM_NODEID=0 exec "$@"
)";

std::string seconds_from_now(double seconds) {
  return std::to_string(SystemClock().now() / 1'000'000 + static_cast<std::int64_t>(seconds));
}

/// Two attempts that fit into an hour, two that don't; the lead is not told to drain.
struct Job {
  Allocation allocation;
  Job() {
    allocation.spec.launch = LaunchMode::agents;
    allocation.spec.limits.stop_before_end_s = 1200;
    allocation.spec.grace_s = 1;
    allocation.put_on_path("srun", one_node_srun);
    allocation.environment["SLURM_JOB_ID"] = "7";
    for (const double predicted_s : {6000.0, 1.0, 0.0, 1800.0})
      allocation.assign({"result"}, 1, "", 1, predicted_s);
  }
  void check_kept_to_an_hour() {
    CHECK(allocation.wait_exit() == 0);
    CHECK(allocation.revoked() == std::vector<AttemptId>{1, 4});
    for (const AttemptId attempt : {2, 3})
      CHECK(allocation.ended(attempt)->ending.outcome == Outcome::completed);
    CHECK(!allocation.ended(1));
    CHECK(!allocation.ended(4));
    CHECK(allocation.bye() == "wall time");
  }
};

}  // namespace

TEST_CASE("what can't end before the job is given back and the lead leaves") {
  Job job;
  job.allocation.environment["SLURM_JOB_END_TIME"] = seconds_from_now(3600);
  job.allocation.start();
  job.check_kept_to_an_hour();
}

TEST_CASE("an older Slurm is asked for the job's end, without the user's settings") {
  Job job;
  job.allocation.environment["SQUEUE_FORMAT"] = "%j";
  job.allocation.environment["SLURM_TIME_FORMAT"] = "relative";
  job.allocation.put_on_path("squeue",
      R"(
[ "$*" = "-h -j 7 -o %e" ] && [ -z "${SQUEUE_FORMAT+set}" ] || exit 1
[ "$SLURM_TIME_FORMAT" = %s ] && echo )" +
          seconds_from_now(3600));
  job.allocation.start();
  job.check_kept_to_an_hour();
}

TEST_CASE("nothing is known of the end where squeue fails or hangs and everything runs") {
  for (const char* squeue : {"echo 1; exit 1", "echo N/A", "yes", "exec tail -f /dev/null"}) {
    Job job;
    job.allocation.put_on_path("squeue", squeue);
    job.allocation.start();
    for (const AttemptId attempt : {1, 2, 3, 4})
      CHECK(job.allocation.wait_ended(attempt).ending.outcome == Outcome::completed);
    job.allocation.tell(Drain{});
    CHECK(job.allocation.wait_exit() == 0);
    CHECK(job.allocation.bye() == "drained");
  }
}

TEST_CASE("a lead on this machine does not mind the job that its daemon was started in") {
  Allocation allocation;
  allocation.environment["SLURM_JOB_ID"] = "7";
  allocation.environment["SLURM_JOB_END_TIME"] = seconds_from_now(-60);
  const auto attempt = allocation.assign({"result"});
  allocation.start();
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::completed);
}
