// SPDX-License-Identifier: Apache-2.0
// What of an attempt outlives its ranks, and who else used the node meanwhile.
#include "agent/reap.hpp"
#include "agent/running_attempt.hpp"
#include "machine/processes.hpp"

#include <fmt/format.h>

#include <unistd.h>

namespace shardsweep::agent {
namespace {

constexpr int gone_wait_ms = 2000;
constexpr std::size_t shown_leftovers = 3;

}  // namespace

void RunningAttempt::name_leftovers() {
  for (const pid_t pid : descendants_of(::getpid())) {
    const auto stat = process_stat(pid);
    if (!stat || stat->state == 'Z') continue;
    const std::string cmdline = process_cmdline(pid);
    log_.line(fmt::format("attempt {}: process {} outlived its rank: {}", spec_.attempt, pid,
                          cmdline));
    if (static_cast<std::size_t>(leaked_++) < shown_leftovers)
      leftovers_ += fmt::format("{}'{}'", leftovers_.empty() ? "" : ", ", cmdline);
  }
}

/// Now that all of ours was waited for, what is left over was somebody else's.
void RunningAttempt::look_for_others() {
  if (!cpu_before_) return;
  const auto after = cpu_use(seconds_of(clock_));
  if (!after) return;
  const double share = others_share(*cpu_before_, *after);
  if (share <= spec_.limits.others_cpu_limit) return;
  disturbed_ = fmt::format("others used {:.0f} % of the CPUs of {} (limit {:.0f} %)",
                           share * 100, node_.name, spec_.limits.others_cpu_limit * 100);
}

/// What left the tree by another way than a parent's death (it had a subreaper of its own).
void RunningAttempt::scan_for_marker() {
  const std::string attempt = fmt::format("{}/{}/", spec_.token, spec_.attempt);
  const std::string marker = attempt + node_.name;
  // A step's ranks are slurmstepd's children: of those on other hosts nothing is known here.
  const auto marked = find_marked([&](std::string_view value) {
    return node_.ranks_are_step ? value.starts_with(attempt) : value == marker;
  });
  for (const auto& process : marked.found) {
    log_.line(fmt::format("attempt {}: process {} carries its marker: {}", spec_.attempt,
                          process.pid, process.cmdline));
    if (static_cast<std::size_t>(leaked_++) < shown_leftovers)
      leftovers_ += fmt::format("{}'{}'", leftovers_.empty() ? "" : ", ", process.cmdline);
    if (!end_process(process, gone_wait_ms)) stuck_ = true;
  }
}

}  // namespace shardsweep::agent
