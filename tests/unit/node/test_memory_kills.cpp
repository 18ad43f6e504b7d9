// SPDX-License-Identifier: Apache-2.0
#include "node/memory_kills.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

TEST_CASE("the count of a control group of version 1 and of version 2") {
  CHECK(memory_kills_file("9:name=systemd:/\n4:memory:/slurm_n1/uid_1/job_7\n0::/\n", "/cg") ==
      "/cg/memory/slurm_n1/uid_1/job_7/memory.oom_control");
  CHECK(memory_kills_file("0::/system.slice/slurmstepd.scope/job_7\n", "/cg") ==
      "/cg/system.slice/slurmstepd.scope/job_7/memory.events");
  CHECK(memory_kills_file("3:cpuset:/\n", "/cg").empty());
  CHECK(memory_kills_file("", "/cg").empty());
  CHECK(memory_kills_file("memory", "/cg").empty());
}

TEST_CASE("kills are not the times that memory ran out") {
  CHECK(memory_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n") == 3);
  CHECK(memory_kills_in("low 0\nhigh 0\nmax 12\noom 5\noom_kill 1\noom_group_kill 0\n") == 1);
  CHECK_FALSE(memory_kills_in("oom 5\n"));
  CHECK_FALSE(memory_kills_in("oom_kill x\n"));
}
