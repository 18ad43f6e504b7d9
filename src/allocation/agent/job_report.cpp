// SPDX-License-Identifier: Apache-2.0
#include "agent/job_report.hpp"

#include "agent/spawn.hpp"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace shardsweep::agent {

JobReport::JobReport(Environment own)
    : environment_(std::move(own)), job_(value_in(environment_, "SLURM_JOB_ID").value_or("")) {}

void JobReport::ask(const AttemptPaths& attempt, const Log& log) {
  if (job_.empty() || scontrol_ != 0) return;
  std::error_code error;
  std::filesystem::create_directories(attempt.evidence(), error);
  const auto child =
      find_program("scontrol", environment_).and_then([&](const std::string& it) {
        return start_rank({{it, "show", "job", job_},
                           environment_,
                           attempt.evidence(),
                           attempt.evidence() / "job.txt",
                           0});
      });
  if (child) {
    scontrol_ = *child;
  } else {
    log.line("Slurm is not asked about the job: " + child.error().what);
  }
}

void JobReport::end() {
  if (scontrol_ == 0) return;
  ::kill(scontrol_, SIGKILL);
  while (::waitpid(scontrol_, nullptr, 0) < 0 && errno == EINTR) {
  }
  scontrol_ = 0;
}

}  // namespace shardsweep::agent
