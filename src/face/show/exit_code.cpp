// SPDX-License-Identifier: Apache-2.0
#include "show/exit_code.hpp"

#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

std::int64_t open_trials(const SweepStatus& status) {
  return status.trials - ended_trials(status);
}

bool nothing_to_rank(const SweepStatus& status) {
  return status.marked > 0 &&
      status.marked == count_of(status.by_outcome, name(Outcome::completed));
}

/// "quickstart", or "3 sweeps".
std::string names_text(const std::vector<const SweepStatus*>& sweeps) {
  return sweeps.size() == 1 ? sweeps.front()->name
                            : counted(static_cast<std::int64_t>(sweeps.size()), "sweep");
}

struct UndecidedTrials {
  std::map<std::string, std::int64_t> outcomes;
  std::int64_t open = 0;
  std::vector<const SweepStatus*> sweeps;
};

UndecidedTrials undecided_of(const std::vector<SweepStatus>& sweeps) {
  UndecidedTrials found;
  for (const SweepStatus& sweep : sweeps) {
    if (sweep.undecided == 0 && is_over(sweep)) continue;
    found.sweeps.push_back(&sweep);
    found.open += open_trials(sweep);
    for (const auto& [outcome, count] : sweep.by_outcome) {
      const auto known = outcome_from(outcome);
      if (known && !info(*known).final_verdict) found.outcomes[outcome] += count;
    }
  }
  return found;
}

/// How they are measured again. Cancelled ones ended as somebody wished.
std::string advice(const UndecidedTrials& found) {
  std::vector<std::string> words;
  for (const auto& [outcome, count] : found.outcomes) {
    if (outcome != name(Outcome::cancelled)) words.push_back(fmt::format("'{}'", outcome));
  }
  if (words.empty() || found.open > 0 || found.sweeps.size() != 1) return "";
  if (found.sweeps.front()->state == "imported") return "";
  const std::string condition = words.size() == 1
      ? "outcome = " + words.front()
      : fmt::format("outcome in ({})", fmt::join(words, ", "));
  return fmt::format(" `shardsweep rerun {} --where \"{}\"` measures them again.",
      found.sweeps.front()->name, condition);
}

std::string undecided_sentence(const UndecidedTrials& found) {
  std::int64_t trials = found.open;
  std::string list;
  for (const OutcomeInfo& row : outcome_table) {
    const std::int64_t count = count_of(found.outcomes, row.name);
    if (count == 0) continue;
    trials += count;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", grouped(count), row.name);
  }
  if (found.open > 0)
    list += fmt::format("{}{} not ended", list.empty() ? "" : ", ", grouped(found.open));
  if (trials == 0)
    return fmt::format(
        "exit 3: the last control run of {} has not ended.", names_text(found.sweeps));
  return fmt::format("exit 3: {} of {} {} no final verdict: {}.{}", counted(trials, "trial"),
      names_text(found.sweeps), trials == 1 ? "has" : "have", list, advice(found));
}

std::string failed_sentence(const std::vector<const SweepStatus*>& failed) {
  if (failed.size() > 1) {
    return fmt::format(
        "exit 1: in {} no trial has a measurement that can be ranked.", names_text(failed));
  }
  const SweepStatus& sweep = *failed.front();
  if (nothing_to_rank(sweep)) {
    return fmt::format(
        "exit 1: no measurement of {} can be ranked{}{}. `shardsweep results {}` lists them.",
        sweep.name, sweep.doubt.empty() ? "" : ": ", sweep.doubt, sweep.name);
  }
  return fmt::format(
      "exit 1: no trial of {} was measured: {}. `shardsweep results {}` lists the causes.",
      sweep.name, outcomes_and_cause(sweep), sweep.name);
}

}  // namespace

std::int64_t count_of(const std::map<std::string, std::int64_t>& counts, std::string_view key) {
  const auto found = counts.find(std::string(key));
  return found == counts.end() ? 0 : found->second;
}

std::int64_t ended_trials(const SweepStatus& status) {
  return count_of(status.by_state, name(State::ended));
}

bool is_over(const SweepStatus& status) {
  return open_trials(status) == 0 && status.last_controls == 0;
}

bool nothing_measured(const SweepStatus& status) {
  return status.trials > 0 && open_trials(status) == 0 &&
      count_of(status.by_outcome, name(Outcome::completed)) == 0 && status.state != "imported";
}

namespace {
/// True if a trial ended otherwise than a sweep may mean it to end.
bool any_broken(const SweepStatus& status) {
  return std::any_of(status.by_outcome.begin(), status.by_outcome.end(), [](const auto& one) {
    return one.second > 0 && one.first != name(Outcome::oom) && one.first != name(Outcome::skipped);
  });
}
}  // namespace

std::string outcomes_and_cause(const SweepStatus& status) {
  std::string cause = status.cause;
  while (cause.ends_with('.'))
    cause.pop_back();
  return fmt::format("{}{}{}", outcomes_text(status), cause.empty() ? "" : ". Most often: ", cause);
}

std::vector<SweepStatus> current_of(const std::vector<SweepStatus>& sweeps) {
  const auto last = std::max_element(
      sweeps.begin(), sweeps.end(), [](const SweepStatus& a, const SweepStatus& b) {
        return std::pair(a.submitted_at, a.id) < std::pair(b.submitted_at, b.id);
      });
  std::vector<SweepStatus> current;
  for (auto one = sweeps.begin(); one != sweeps.end(); ++one) {
    if (one == last || !is_over(*one)) current.push_back(*one);
  }
  return current;
}

std::string outcomes_text(const SweepStatus& status) {
  std::string text;
  for (const OutcomeInfo& row : outcome_table) {
    const std::int64_t count = count_of(status.by_outcome, row.name);
    if (count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", grouped(count), row.name);
  }
  return text;
}

SweepVerdict verdict_of(const std::vector<SweepStatus>& sweeps) {
  const UndecidedTrials undecided = undecided_of(sweeps);
  if (!undecided.sweeps.empty()) return {ExitCode::undecided, undecided_sentence(undecided)};
  std::vector<const SweepStatus*> failed;
  for (const SweepStatus& sweep : sweeps) {
    if ((nothing_measured(sweep) && any_broken(sweep)) || nothing_to_rank(sweep))
      failed.push_back(&sweep);
  }
  if (!failed.empty()) return {ExitCode::failed, failed_sentence(failed)};
  return {};
}

}  // namespace shardsweep
