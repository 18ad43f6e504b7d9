// SPDX-License-Identifier: Apache-2.0
#include "agent/trainer_probe.hpp"

#include "trainer/version.hpp"

#include <sys/wait.h>

#include <csignal>

namespace shardsweep::agent {

std::vector<std::string> trainer_probe_command(const AttemptSpec& spec) {
  if (!spec.trainer || spec.argv.empty()) return {};
  const Trainer* trainer = find_trainer(spec.trainer->log);
  if (trainer == nullptr) return {};
  const std::string& program = spec.argv.front();
  const bool is_python = program.substr(program.rfind('/') + 1).starts_with("python");
  return probe_command(*trainer, is_python ? program : "python3");
}

void TrainerProbe::start(const AttemptSpec& spec, RankProcess like,
                         const std::filesystem::path& output) {
  like.argv = trainer_probe_command(spec);
  if (like.argv.empty()) return;
  like.output = output;
  pid_ = start_rank(like).value_or(0);
}

bool TrainerProbe::runs() const {
  if (pid_ == 0) return false;
  siginfo_t info{};
  // Who was waited for is no child any more.
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

void TrainerProbe::end() {
  if (runs()) ::kill(pid_, SIGKILL);
}

}  // namespace shardsweep::agent
