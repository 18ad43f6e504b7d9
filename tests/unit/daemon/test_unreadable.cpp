// SPDX-License-Identifier: Apache-2.0
// What a daemon concludes while the file system answers with an error: nothing. A name that
// leads to itself stands in for EIO and ESTALE.
#include "unit/daemon/daemon_case.hpp"

#include <shardsweep/allocation_files.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <ostream>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// While it lives, what stands there can't be seen.
class Unseen {
 public:
  explicit Unseen(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::rename(path_, aside());
    std::filesystem::create_symlink(path_.filename(), path_);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen() {
    std::filesystem::remove(path_);
    std::filesystem::rename(aside(), path_);
  }

 private:
  [[nodiscard]] std::filesystem::path aside() const { return path_.string() + ".aside"; }
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a job whose first file can't be seen is not submitted again") {
  Case c(Sbatch::late, 1, one);
  REQUIRE(c.slurm.calls.submissions == 1);
  c.die();
  {
    const Unseen spec(AllocationPaths{c.job().dir}.spec());
    c.start();
    c.pass(5);
    CHECK(c.slurm.calls.submissions == 1);
  }
  c.complete();
  CHECK(c.slurm.calls.submissions == 1);
  CHECK(c.trials() == "completed");
}

TEST_CASE("a result in a folder that can't be seen counts when it is seen") {
  Case c(one);
  c.start_job(c.job());
  c.job().lead->hear(c.random, c.slurm.lead_time(c.job()));
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(5);
  c.job().lead->leave_result();
  c.slurm.finish(c.job(), "NODE_FAIL");
  {
    const Unseen folder(c.sql("SELECT dir FROM attempts"));
    c.pass(60);
    CHECK(c.trials() == "running");
    CHECK(c.troubles().find("unreadable") != std::string::npos);
  }
  c.pass(20);
  CHECK(c.trials() == "completed");
}

TEST_CASE("an allocation is not closed before its lead's lines have been read") {
  Case c(one);
  c.start_job(c.job());
  c.job().lead->hear(c.random, c.slurm.lead_time(c.job()));
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(5);
  {
    c.job().lead->end(Outcome::oom, c.slurm.lead_time(c.job()));
    const Unseen lines(AllocationPaths{c.job().dir}.from_lead());
    c.slurm.finish(c.job(), "NODE_FAIL");
    c.pass(60);
    CHECK(c.trials() == "running");
  }
  c.pass(5);
  CHECK(c.trials() == "oom");
}

TEST_CASE("a job that may have a lead is not submitted again") {
  Case c(Sbatch::unsent, 1, one);
  const std::string dir = c.sql("SELECT dir FROM allocations");
  const auto claim = AllocationPaths{dir}.claim();
  std::filesystem::create_symlink(claim.filename(), claim);
  c.pass(60);
  CHECK(c.slurm.calls.submissions == 1);
  std::filesystem::remove(claim);
  c.pass(60);
  CHECK(c.slurm.calls.submissions == 2);
  c.complete();
  CHECK(c.trials() == "completed");
}
