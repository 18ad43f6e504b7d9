// SPDX-License-Identifier: Apache-2.0
// What Slurm says of the job while an attempt of it stands still: `scontrol show job`, for the
// evidence. Nothing here waits.
#pragma once

#include "agent/environment.hpp"
#include "agent/log.hpp"

#include <shardsweep/allocation_files.hpp>

#include <sys/types.h>

#include <string>

namespace shardsweep::agent {

class JobReport {
 public:
  /// Outside a job (no SLURM_JOB_ID in `own`) nobody is asked.
  explicit JobReport(Environment own);
  JobReport(const JobReport&) = delete;
  JobReport& operator=(const JobReport&) = delete;
  JobReport(JobReport&&) = default;

  /// Starts asking; the answer goes to evidence/job.txt.
  void ask(const AttemptPaths& attempt, const Log& log);
  /// What has not been said by now is not waited for: the attempt's files are packed next.
  void end();

 private:
  Environment environment_;
  std::string job_;
  pid_t scontrol_ = 0;  ///< a child that has not been waited for; 0: none
};

}  // namespace shardsweep::agent
