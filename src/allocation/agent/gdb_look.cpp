// SPDX-License-Identifier: Apache-2.0
#include "agent/gdb_look.hpp"

#include "agent/spawn.hpp"

#include <fmt/format.h>

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace shardsweep::agent {
namespace {

// Each reads the symbols of everything its rank has loaded: gigabytes for a trainer.
constexpr std::size_t most_at_once = 8;

std::vector<std::string> command(const std::string& gdb, pid_t pid) {
  // Without anybody's .gdbinit; a stack that runs in circles has an end.
  return {gdb, "-nx", "-batch", "-ex", "set pagination off", "-p", std::to_string(pid), "-ex",
      "thread apply all backtrace 64"};
}

/// Symbols are not fetched from servers: a node may not reach any, and waits for them.
Environment offline(Environment own) {
  std::erase_if(
      own, [](const std::string& entry) { return entry.starts_with("DEBUGINFOD_URLS="); });
  return own;
}

}  // namespace

void GdbLook::start(
    const AttemptPaths& attempt, const std::vector<Rank>& ranks, const Environment& own) {
  const auto gdb = find_program("gdb", own);
  if (!gdb) return;
  std::error_code error;
  std::filesystem::create_directories(attempt.evidence(), error);
  for (const Rank& rank : ranks) {
    if (looking_.size() == most_at_once) return;
    const auto output = attempt.evidence() / fmt::format("gdb.rank.{}.txt", rank.number);
    const auto child =
        start_rank({command(*gdb, rank.pid), offline(own), attempt.evidence(), output, 0});
    if (child) looking_.push_back(*child);
  }
}

bool GdbLook::is_over() {
  // Who reaps for all of this process may have been first: ECHILD.
  std::erase_if(looking_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  return looking_.empty();
}

void GdbLook::end() {
  if (is_over()) return;
  for (const pid_t pid : looking_) {
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  looking_.clear();
}

}  // namespace shardsweep::agent
