// SPDX-License-Identifier: Apache-2.0
// Each write, sync, rename and unlink of the daemon in a short sweep fails in turn, those of
// SQLite among them: whatever it is, nothing is lost or counted twice, and it is said.
#include "tools/fakes/fail_calls.hpp"
#include "unit/daemon/played_site.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/requests.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct FailingSite : PlayedSite {
  const PlayedSweep sweep{.micro_batch = {1, 2}};
  std::string said;  ///< by faults of passes and answers

  /// A pass of the daemon alone.
  void pass_that_may_fail(double seconds) {
    let_calls_fail(true);
    const auto done = try_pass(seconds);
    let_calls_fail(false);
    if (!done) said += done.error().what + "\n";
  }
  /// Asks again if it is refused, as people do.
  void submit_until_taken() {
    for (int tries = 0; tries < 5; ++tries) {
      const std::string id = post(sweep);
      std::optional<Answer> answer;
      for (int passes = 0; passes < 30 && !answer; ++passes) {
        pass_that_may_fail(0.25);
        answer = must(take_answer(home, id));
      }
      REQUIRE(answer);
      if (!answer->fault) return;
      said += answer->fault->what + "\n";
    }
    FAIL("never taken: " << said);
  }
  void run_jobs() {
    for (PlayedJob& job : slurm.jobs) {
      if (job.pends()) start_job(job);
      if (!job.runs()) continue;
      job.lead->hear(random, slurm.lead_time(job));
      while (job.runs() && job.lead->start_next(slurm.lead_time(job))) {
        clock.advance(10'000'000);
        if (job.lead->runs()) job.lead->end(Outcome::completed, slurm.lead_time(job));
      }
      if (job.runs() && job.lead->draining()) {
        job.lead->leave("drained", slurm.lead_time(job));
        slurm.finish(job, "COMPLETED");
      }
    }
  }
  void run_sweep() {
    submit_until_taken();
    for (int turns = 0; turns < 400; ++turns) {
      run_jobs();
      beat();
      pass_that_may_fail(1);
      if (!alive() && trials() == "completed completed") return;
    }
    FAIL("the sweep does not end: " << trials() << " " << said);
  }
  /// The log, what keeps the daemon from its work, and events stand for users' eyes.
  [[nodiscard]] bool is_said() {
    const auto log_file = home.database.parent_path() / "log";
    std::string all = said + read_file(log_file).value_or("");
    all += sql("SELECT group_concat(detail, ' ') FROM events");
    for (const char* const words : {"No space left", "disk is full", "Input/output error",
             "disk I/O error", "Stale file handle"}) {
      if (all.find(words) != std::string::npos) return true;
    }
    return false;
  }
};

struct Kind {
  std::string name;
  int error;
};

/// What could not be removed is removed later, and what troubles there are is written anew at
/// the next pass: nobody needs to know.
bool may_be_silent(const std::string& kind) {
  return kind == "unlink" || failed_on().ends_with("/daemon.trouble");
}

std::string folder_of_database(const PlayedSite& site) {
  return site.home.database.string();
}

}  // namespace

TEST_CASE("whichever call of the daemon fails nothing is lost and it is said") {
  const char* const wanted = std::getenv("SHARDSWEEP_EVERY_CALL");
  // In CI every seventh of the writes, which are alike; by hand all.
  const long stride = wanted != nullptr ? 1 : 7;
  for (const Kind& kind : {Kind{"write", ENOSPC}, Kind{"write", EIO}, Kind{"sync", EIO},
           Kind{"rename", ESTALE}, Kind{"unlink", EIO}}) {
    long tried = 0;
    long silent = 0;
    for (long at = 1;; at += kind.name == "write" ? stride : 1) {
      FailingSite site;
      fail_call(kind.name, at, kind.error, folder_of_database(site));
      CAPTURE(kind.name);
      CAPTURE(kind.error);
      CAPTURE(at);
      site.run_sweep();
      if (failed_on().empty()) break;
      CAPTURE(failed_on());
      ++tried;
      CHECK(site.trials() == "completed completed");
      CHECK(site.sql("SELECT count(*) || ' ' || count(DISTINCT trial) FROM attempts WHERE "
                     "counted = 1") == "2 2");
      for (const std::string& violation : site.slurm.violations)
        FAIL_CHECK(violation);
      const bool said = site.is_said();
      if (!said) ++silent;
      CHECK((said || may_be_silent(kind.name)));
    }
    MESSAGE(kind.name << " with errno " << kind.error << ": " << tried
                      << " calls failed in turn, 0 lost, " << silent << " not said");
    CHECK(tried > 0);
  }
}
