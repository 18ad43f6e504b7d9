// SPDX-License-Identifier: Apache-2.0
// A sweep on a played site, from its first job in the queue to the daemon's end.
#pragma once

#include "unit/daemon/played_site.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <string>

namespace shardsweep::testing {

inline const PlayedSweep one{.micro_batch = {1}};
inline const PlayedSweep two{.micro_batch = {1, 2}};

/// A sweep, submitted, with its first job in the queue.
struct Case : PlayedSite {
  explicit Case(const PlayedSweep& sweep = two) {
    submit(sweep);
    tick();
  }
  explicit Case(Sbatch answer, std::size_t times = 1, const PlayedSweep& sweep = two) {
    slurm.answers.assign(times, answer);
    submit(sweep);
    tick();
  }
  ~Case() {
    for (const std::string& violation : slurm.violations)
      FAIL_CHECK(violation);
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  /// The job runs, everything that is assigned completes, and the daemon leaves.
  void complete() {
    for (int turns = 0; turns < 50 && (alive() || turns == 0); ++turns) {
      for (PlayedJob& job : slurm.jobs) {
        if (job.pends()) start_job(job);
        if (job.runs()) job.lead->hear(random, slurm.lead_time(job));
        while (job.runs() && job.lead->start_next(slurm.lead_time(job))) {
          clock.advance(10'000'000);
          if (job.lead->runs()) job.lead->end(Outcome::completed, slurm.lead_time(job));
        }
        if (job.runs() && job.lead->draining()) {
          job.lead->leave("drained", slurm.lead_time(job));
          slurm.finish(job, "COMPLETED");
        }
      }
      start();
      pass(12);
    }
    CHECK_FALSE(alive());
  }
  std::string event(const std::string& kind) {
    return sql(
        fmt::format("SELECT detail FROM events WHERE kind = '{}' ORDER BY id DESC LIMIT 1", kind));
  }
  /// What the daemon tells commands of what keeps it from its work.
  std::string troubles() { return must(read_file(home.trouble())); }
  std::int64_t count(const std::string& what) {
    return std::stoll(sql("SELECT count(*) FROM " + what));
  }
};

}  // namespace shardsweep::testing
