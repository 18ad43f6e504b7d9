// SPDX-License-Identifier: Apache-2.0
#include "agent/topology_report.hpp"

#include "agent/reap.hpp"
#include "attempt/topology.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <utility>

namespace shardsweep::agent {
namespace {

// slurmctld under load answers within 10 s. Without an answer ranks keep Slurm's order.
constexpr double topology_limit_s = 10;
constexpr std::size_t longest_topology = std::size_t{8} << 20;

/// True at the end of what it says, or where that is too long.
bool read_topology(int descriptor, std::string& text) {
  std::array<char, 4096> buffer{};
  while (text.size() < longest_topology) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return true;
    if (got < 0) return false;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

TopologyReport::TopologyReport(Environment own, bool wanted)
    : environment_(std::move(own)), wanted_(wanted) {}

std::optional<std::map<std::string, std::string>> TopologyReport::step(const Clock& clock,
                                                                       const Log& log) {
  if (!wanted_) return std::nullopt;
  const double now_s = seconds_of(clock);
  if (!scontrol_) ask(now_s, log);
  if (!scontrol_) return std::nullopt;
  const bool ended = read_topology(scontrol_->from.get(), said_);
  const bool late = now_s - asked_s_ > topology_limit_s;
  if (!ended && !late) return std::nullopt;
  if (late) log.line("scontrol did not tell the topology in time");
  ::kill(scontrol_->pid, SIGKILL);
  while (::waitpid(scontrol_->pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  scontrol_.reset();
  wanted_ = false;
  return ended ? switches_by_node(said_) : std::map<std::string, std::string>{};
}

void TopologyReport::ask(double now_s, const Log& log) {
  auto child = find_program("scontrol", environment_).and_then([&](const std::string& program) {
    return start_piped({program, "show", "topology"}, environment_);
  });
  if (!child) {
    wanted_ = false;
    return log.line("the topology is not known: " + child.error().what);
  }
  child->to.reset();
  ::fcntl(child->from.get(), F_SETFL, O_NONBLOCK);
  asked_s_ = now_s;
  scontrol_ = std::move(*child);
}

}  // namespace shardsweep::agent
