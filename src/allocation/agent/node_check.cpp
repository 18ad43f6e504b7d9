// SPDX-License-Identifier: Apache-2.0
#include "agent/node_check.hpp"

#include "attempt/abandoned.hpp"
#include "machine/processes.hpp"
#include "node/shared_memory.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsweep::agent {
namespace {

constexpr int grace_ms = 1000;  // time to leave a communicator and release a GPU
constexpr int stuck_wait_ms = 2000;
constexpr std::size_t longest_list = 16 << 20;  // limit of a list of jobs: a million and more

std::vector<MarkerSighting> markers_of(const std::vector<MarkedProcess>& marked) {
  std::vector<MarkerSighting> seen;
  seen.reserve(marked.size());
  for (const MarkedProcess& one : marked)
    seen.push_back({one.marker, one.in_step});
  return seen;
}

void find_marked_left(const CheckedNode& node, const Log& log, std::vector<ProcessEntry>& left) {
  const auto marked = marked_processes();
  const auto seen = markers_of(marked);
  if (abandoned(seen, {}, node.token, node.name, 0).empty()) return;
  const auto later = markers_of(marked_processes());
  for (const std::size_t at : abandoned(seen, later, node.token, node.name, 0)) {
    left.push_back(marked[at].process);
    log.line(fmt::format("process {} is left over from attempt {}: {}", left.back().pid,
        marked[at].marker, left.back().cmdline));
  }
}

/// Jobs that have ended can't start again: what carries their number has been left.
void find_left_of_jobs(const CheckedNode& node, const Log& log, std::vector<ProcessEntry>& left) {
  std::vector<JobProcess> others = job_processes();
  std::erase_if(others, [&](const JobProcess& one) {
    return one.job == node.job || one.in_step || one.cluster != node.cluster;
  });
  if (others.empty()) return;
  const auto list = read_own_file(node.ended_jobs, longest_list);
  if (!list) return;  // no job of ours has ended yet
  for (const JobProcess& one : others) {
    if (!lists_job(*list, one.job)) continue;
    left.push_back(one.process);
    log.line(fmt::format("process {} is left over from job {}, which has ended: {}",
        one.process.pid, one.job, one.process.cmdline));
  }
}

}  // namespace

NodeCheck check_node(const CheckedNode& node, const Log& log) {
  std::vector<ProcessEntry> left;
  find_marked_left(node, log, left);
  find_left_of_jobs(node, log, left);
  NodeCheck check;
  const auto stuck = end_processes(left, grace_ms, stuck_wait_ms);
  for (const ProcessEntry& process : left) {
    const bool is_stuck = std::any_of(
        stuck.begin(), stuck.end(), [&](const auto& other) { return other.pid == process.pid; });
    (is_stuck ? check.stuck : check.ended).push_back(process.cmdline);
  }
  for (const SharedFile& file : remove_abandoned_segments()) {
    check.removed.push_back(fmt::format("{} ({} bytes)", file.name, file.bytes));
    log.line(fmt::format("removed the leftover /dev/shm/{}", check.removed.back()));
  }
  return check;
}

}  // namespace shardsweep::agent
