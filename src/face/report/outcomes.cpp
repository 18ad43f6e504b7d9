// SPDX-License-Identifier: Apache-2.0
#include "report/outcomes.hpp"

#include "report/charts.hpp"

#include <algorithm>
#include <map>

namespace shardsweep {

std::vector<std::pair<std::string, std::int64_t>> counts_by_outcome(
    const std::vector<ReportedTrial>& trials) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& trial : trials)
    ++counts[!trial.outcome.empty()   ? trial.outcome
            : trial.state == "queued" ? "planned"
                                      : trial.state];
  std::vector<std::pair<std::string, std::int64_t>> found(counts.begin(), counts.end());
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    const bool first = a.first == "completed";
    const bool second = b.first == "completed";
    return first != second ? first : a.second > b.second;
  });
  return found;
}

std::string outcome_words(std::string_view outcome) {
  if (outcome == "completed") return "measured";
  if (outcome == "oom") return "out of memory";
  if (outcome == "node_failure") return "node failures";
  if (outcome == "comm_error") return "communication errors";
  if (outcome == "skipped") return "skipped";
  if (outcome == "planned" || outcome == "queued" || outcome.empty()) return "not run yet";
  return std::string(outcome);
}

std::size_t outcome_colour(std::string_view outcome) {
  auto role = ColourRole::failed;
  if (outcome == "completed") role = ColourRole::measured;
  if (outcome == "oom") role = ColourRole::out_of_memory;
  if (outcome == "running") role = ColourRole::running;
  if (outcome == "skipped" || outcome == "planned" || outcome == "queued")
    role = ColourRole::derived;
  return number_of(role);
}

}  // namespace shardsweep
