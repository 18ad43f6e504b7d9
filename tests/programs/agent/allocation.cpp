// SPDX-License-Identifier: Apache-2.0
#include "programs/agent/allocation.hpp"

#include "machine/processes.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace shardsweep::test {

Allocation::Allocation()
    : DaemonSide(SHARDSWEEP_BIN_DIR), points_("/tmp/" + spec.token + ".points") {
  spec.limits.agent_lease_s = spec.limits.node_lease_s = spec.limits.agents_limit_s = no_limit_s;
  spec.limits.idle_limit_s = no_limit_s;
  every.limits.start_limit_s = every.limits.rendezvous_limit_s = every.limits.init_limit_s =
      no_limit_s;
  every.limits.first_step_limit_s = every.limits.step_limit_s = every.limits.teardown_limit_s =
      no_limit_s;
  every.limits.attempt_limit_s = every.limits.hang_floor_s = every.limits.evidence_s = no_limit_s;
  every.limits.grace_s = at_once_s;
}

Allocation::~Allocation() {
  if (lead_ > 0 && !exit_) {
    for (const pid_t pid : {guard(), node_agent(), lead_}) {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
    ::waitpid(lead_, nullptr, 0);
  }
  std::error_code error;
  std::filesystem::remove_all(points_.folder(), error);
}

void Allocation::start() {
  REQUIRE(write_file_durably(paths().spec(), encode(spec)));
  const std::string agent = (programs() / "shardsweep-agent").string();
  const std::string dir = paths().dir.string();
  const std::string log = paths().log().string();
  lead_ = ::fork();
  if (lead_ != 0) return;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::setsid();
  for (const auto& [name, value] : environment)
    ::setenv(name.c_str(), value.c_str(), 1);
  if (!armed_.empty()) points_.arm(armed_);
  ::execl(agent.c_str(), agent.c_str(), "lead", "--dir", dir.c_str(), nullptr);
  ::_exit(126);
}

void Allocation::put_on_path(const std::string& name, const std::string& script) {
  const auto bin_dir = folder().path() / "bin";
  std::filesystem::create_directories(bin_dir);
  REQUIRE(write_file_durably(bin_dir / name, "#!/bin/sh\n" + script));
  std::filesystem::permissions(bin_dir / name, std::filesystem::perms::owner_all);
  environment["PATH"] = bin_dir.string() + ":/usr/bin:/bin";
}

pid_t Allocation::wait_at(const std::string& point) {
  pid_t pid = 0;
  const bool reached = wait_until([&] { return (pid = points_.at(point)) != 0; });
  REQUIRE_MESSAGE(reached, "nobody came to " << point << ": " << log());
  return pid;
}

void Allocation::let_go_on(pid_t stopped) {
  const bool stands = wait_until([&] {
    std::ifstream file(fmt::format("/proc/{}/stat", stopped));
    const std::string stat((std::istreambuf_iterator<char>(file)), {});
    return stat.find(") T ") != std::string::npos;
  });
  REQUIRE(stands);
  ::kill(stopped, SIGCONT);
}

std::optional<int> Allocation::wait_exit() {
  wait_until([&] {
    int status = 0;
    if (exit_ || ::waitpid(lead_, &status, WNOHANG) != lead_) return exit_.has_value();
    exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return true;
  });
  return exit_;
}

pid_t Allocation::guard() const {
  const auto children = children_of(lead_);
  return children.empty() ? 0 : children.front();
}

pid_t Allocation::node_agent() const {
  const pid_t parent = guard();
  const auto children = parent > 0 ? children_of(parent) : std::vector<pid_t>{};
  return children.empty() ? 0 : children.front();
}

const std::string two_node_srun = R"(
while [ "${1#-}" != "$1" ]; do shift; done
place=$(mktemp -d)
mkfifo "$place/0" "$place/1"
SLURMD_NODENAME=n7 SLURM_NODEID=0 "$@" <"$place/0" &
SLURMD_NODENAME=n8 SLURM_NODEID=1 "$@" <"$place/1" &
exec 8>"$place/0" 9>"$place/1"
rm -r "$place"
tee -p /dev/fd/8 /dev/fd/9 8>&8 9>&9 >/dev/null
exec 8>&- 9>&-
wait
)";

}  // namespace shardsweep::test
