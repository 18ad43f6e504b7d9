// SPDX-License-Identifier: Apache-2.0
// Decision: A process without a marker is ours if its SLURM_JOB_ID is an ended allocation's. A
// process below a slurmstepd is never ours.
#include "attempt/abandoned.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

namespace shardsweep {

std::optional<Marker> parse_marker(std::string_view value) {
  const std::size_t first = value.find('/');
  if (first == 0 || first == std::string_view::npos) return std::nullopt;
  Marker marker;
  marker.token = value.substr(0, first);
  std::string_view rest = value.substr(first + 1);
  const std::size_t second = std::min(rest.find('/'), rest.size());
  const std::string_view who = rest.substr(0, second);
  marker.node = second < rest.size() ? rest.substr(second + 1) : "";
  if (who == "agent") return marker;
  const auto [end, error] = std::from_chars(who.data(), who.data() + who.size(), marker.attempt);
  if (error != std::errc() || end != who.data() + who.size() || marker.attempt <= 0)
    return std::nullopt;
  return marker;
}

std::vector<std::size_t> abandoned(const std::vector<MarkerSighting>& seen,
    const std::vector<MarkerSighting>& later, std::string_view token, std::string_view node,
    AttemptId running) {
  std::vector<std::optional<Marker>> markers;
  std::set<std::string, std::less<>> with_agents;
  for (const MarkerSighting& one : seen) {
    markers.push_back(parse_marker(one.marker));
    if (markers.back() && markers.back()->attempt == 0) with_agents.insert(markers.back()->token);
  }
  for (const MarkerSighting& one : later) {
    const auto marker = parse_marker(one.marker);
    if (marker && marker->attempt == 0) with_agents.insert(marker->token);
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!markers[i] || markers[i]->attempt == 0) continue;
    const Marker& marker = *markers[i];
    const bool ours = marker.token == token;
    const bool left = ours ? marker.node == node && marker.attempt != running
                           : !with_agents.contains(marker.token) && !seen[i].in_step;
    if (left) found.push_back(i);
  }
  return found;
}

bool lists_job(std::string_view list, std::string_view job) {
  if (job.empty()) return false;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('\n'), list.size());
    // A line without its end is a number that may go on.
    if (end < list.size() && list.substr(0, end) == job) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace shardsweep
