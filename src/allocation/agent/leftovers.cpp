// SPDX-License-Identifier: Apache-2.0
#include "agent/leftovers.hpp"

#include "agent/log.hpp"
#include "agent/reap.hpp"
#include "machine/processes.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace shardsweep::agent {
namespace {

constexpr double limit_s = 20;  // for processes that fork themselves faster than we look
constexpr int leftover_wait_ms = 2000;

}  // namespace

int sweep_leftovers(const std::string& token, const Clock& clock) {
  const std::string prefix = token + "/";
  const double deadline_s = seconds_of(clock) + limit_s;
  while (true) {
    const auto marked =
        find_marked([&](std::string_view value) { return value.starts_with(prefix); });
    if (marked.found.empty()) {
      if (marked.unreadable > 0)
        Log(clock, "sweep-leftovers")
            .line(fmt::format(
                "{} processes of other users could not be inspected", marked.unreadable));
      return 0;
    }
    for (const auto& process : marked.found) {
      const bool ended = end_process(process, leftover_wait_ms);
      std::puts(encode(process, ended).c_str());
    }
    std::fflush(stdout);
    if (seconds_of(clock) > deadline_s) return 1;
  }
}

}  // namespace shardsweep::agent
