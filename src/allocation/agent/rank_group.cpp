// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_group.hpp"

#include "machine/processes.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace shardsweep::agent {
namespace {

// A container's runtime that lives on says by its exit code which signal has ended the rank.
constexpr int signal_codes = 128;

}  // namespace

void RankGroup::add(int rank, pid_t pid, Descriptor report) {
  ranks_.push_back({rank, pid, false, std::move(report)});
}

std::vector<RankExit> RankGroup::take_exits(bool has_runtime) {
  std::vector<RankExit> exits;
  for (auto& rank : ranks_) {
    if (rank.gone) continue;
    siginfo_t info{};
    const int answer =
        ::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (answer != 0 || info.si_pid != rank.pid) continue;
    rank.gone = true;
    const bool by_signal = info.si_code != CLD_EXITED;
    const int told = has_runtime && !by_signal ? info.si_status - signal_codes : 0;
    const bool by_told_signal = told > 0 && told < SIGRTMIN;
    exits.push_back({rank.number, by_signal || by_told_signal,
        by_told_signal ? told : info.si_status, start_failure(rank.report)});
  }
  return exits;
}

void RankGroup::reap_orphans() const {
  for (const pid_t pid : children_of(::getpid())) {
    const bool is_rank = std::any_of(
        ranks_.begin(), ranks_.end(), [&](const Rank& rank) { return rank.pid == pid; });
    if (!is_rank) ::waitpid(pid, nullptr, WNOHANG);
  }
}

void RankGroup::signal_all(int signal) const {
  if (group() != 0) ::kill(-group(), signal);
  for (const pid_t pid : children_of(::getpid())) {
    if (::getpgid(pid) != group()) ::kill(pid, signal);
  }
}

void RankGroup::kill() const {
  if (group() != 0) ::kill(-group(), SIGKILL);
  for (const Living& rank : living())
    ::kill(rank.pid, SIGKILL);  // a rank may have left the group
}

bool RankGroup::all_gone() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.gone; });
}

std::vector<RankGroup::Living> RankGroup::living() const {
  std::vector<Living> living;
  for (const Rank& rank : ranks_) {
    if (!rank.gone) living.push_back({rank.number, rank.pid});
  }
  return living;
}

std::vector<int> RankGroup::numbers() const {
  std::vector<int> numbers;
  for (const Rank& rank : ranks_)
    numbers.push_back(rank.number);
  return numbers;
}

}  // namespace shardsweep::agent
