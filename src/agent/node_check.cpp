// SPDX-License-Identifier: Apache-2.0
#include "agent/node_check.hpp"

#include "adapters/node/processes.hpp"
#include "domain/abandoned.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::agent {
namespace {

constexpr int grace_ms = 1000;  // to leave a communicator and release a GPU
constexpr int gone_wait_ms = 2000;

}  // namespace

NodeCheck check_node(const std::string& token, const std::string& node, const Log& log) {
  const auto marked = marked_processes();
  std::vector<MarkedSeen> seen;
  seen.reserve(marked.size());
  for (const MarkedProcess& one : marked)
    seen.push_back({one.marker, one.in_step});
  std::vector<ProcessSeen> left;
  for (const std::size_t at : abandoned(seen, token, node, 0)) {
    left.push_back(marked[at].process);
    log.line(fmt::format("process {} of attempt {} was left: {}", left.back().pid,
                         marked[at].marker, left.back().cmdline));
  }
  NodeCheck check;
  const auto stuck = end_processes(left, grace_ms, gone_wait_ms);
  for (const ProcessSeen& process : left) {
    const bool is_stuck = std::any_of(stuck.begin(), stuck.end(), [&](const auto& other) {
      return other.pid == process.pid;
    });
    (is_stuck ? check.stuck : check.ended).push_back(process.cmdline);
  }
  return check;
}

}  // namespace shardsweep::agent
