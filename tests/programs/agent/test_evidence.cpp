// SPDX-License-Identifier: Apache-2.0
// What is asked of others about ranks in trouble: gdb about those that hang, NCCL about those
// that lost each other.
#include "programs/agent/allocation.hpp"
#include "programs/agent/hang_case.hpp"

#include <doctest/doctest.h>

#include <fstream>

using namespace shardsweep;
using test::Allocation;

namespace {

/// Ranks that advance no more after their first train step.
Assign hanging(Allocation& allocation) {
  allocation.every.limits.step_limit_s = test::at_once_s;
  return allocation.assign({"steps", "hang"});
}

}  // namespace

TEST_CASE("gdb's word on each hung rank is kept") {
  Allocation allocation;
  allocation.every.limits.gdb_s = test::no_limit_s;
  allocation.put_on_path("gdb", "echo \"looks: $*\"\n");
  const auto attempt = hanging(allocation);
  allocation.start();
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::hung);
  const auto files = test::unpacked(attempt);
  for (const char* rank : {"0", "1"}) {
    const std::string said = files.at(std::string("evidence/gdb.rank.") + rank + ".txt");
    CHECK(said.starts_with("looks: -nx -batch"));
    CHECK(said.find("thread apply all backtrace") != std::string::npos);
  }
  CHECK(files.contains("evidence/local.json"));
}

TEST_CASE("a gdb that does not come back costs its limit and nothing else") {
  Allocation allocation;
  allocation.every.limits.gdb_s = test::at_once_s;
  const auto pids = allocation.paths().dir / "gdb";
  allocation.put_on_path("gdb", "echo $$ >>'" + pids.string() + "'; exec tail -f /dev/null\n");
  const auto attempt = hanging(allocation);
  allocation.every.limits.step_limit_s = test::no_limit_s;
  const auto next = allocation.assign({"result"});
  allocation.start();
  CHECK(allocation.wait_ended(attempt.attempt).ending.outcome == Outcome::hung);
  CHECK(allocation.wait_ended(attempt.attempt).ending.leaked == 0);
  CHECK(allocation.wait_ended(next.attempt).ending.outcome == Outcome::completed);
  CHECK(allocation.marked().empty());
  // Who has come so far within its limit is gone; test_gdb_look.cpp waits until it has.
  std::ifstream looked(pids);
  for (pid_t gdb = 0; looked >> gdb;)
    CHECK(!std::filesystem::exists("/proc/" + std::to_string(gdb)));
  CHECK(test::unpacked(attempt).contains("evidence/local.json"));
}

TEST_CASE("a lost connection that is tried again has NCCL's own words") {
  Allocation allocation;
  allocation.every.nccl_debug = true;
  const auto attempt = allocation.assign({"1:nccl=net_ib.cc:9 NCCL WARN NET/IB : it broke",
      "0:nccl=NCCL INFO ok", "0:error=comm_error", "exit=12"});
  allocation.start();
  const Ended ended = allocation.wait_ended(attempt.attempt);
  CHECK(ended.ending.outcome == Outcome::comm_error);
  CHECK(ended.ending.cause.find("NCCL on rank 1: net_ib.cc:9 NCCL WARN NET/IB : it broke") !=
      std::string::npos);
  const auto files = test::unpacked(attempt);
  CHECK(files.at("evidence/local.nccl.txt") == "rank 1: net_ib.cc:9 NCCL WARN NET/IB : it broke\n");
  CHECK(files.at("nccl.rank.0.log").find("NCCL_DEBUG set to INFO") != std::string::npos);
}

TEST_CASE("what a sweep says of NCCL's log holds, and nobody else is asked for one") {
  Allocation allocation;
  const auto silent = allocation.assign({"nccl=NCCL INFO ok", "0:result"});
  allocation.every.nccl_debug = true;
  allocation.every.env["NCCL_DEBUG"] = "TRACE";
  const auto own = allocation.assign({"nccl=NCCL INFO ok", "0:result"});
  allocation.start();
  CHECK(allocation.wait_ended(silent.attempt).ending.outcome == Outcome::completed);
  CHECK(allocation.wait_ended(own.attempt).ending.outcome == Outcome::completed);
  CHECK(!test::unpacked(silent).contains("nccl.rank.0.log"));
  CHECK(test::unpacked(own).at("nccl.rank.1.log").find("set to TRACE") != std::string::npos);
}
