// SPDX-License-Identifier: Apache-2.0
#include "show/standing.hpp"

#include "show/exit_code.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardsweep {
namespace {

std::string words_of(const SweepStatus& sweep, Standing standing) {
  switch (standing) {
    case Standing::runs:
      return "runs";
    case Standing::waits:
      return "waits";
    case Standing::paused:
      return "is " + sweep.state;
    case Standing::outside:
      return "is measured outside";
    case Standing::unattended:
      return "has no daemon, so nothing new starts";
    case Standing::imported:
      return "was imported";
    case Standing::cancelled:
      return "was cancelled";
    case Standing::ended:
      return "has ended";
  }
  return "";
}

bool is_open(Standing standing) {
  return standing != Standing::ended && standing != Standing::cancelled &&
      standing != Standing::imported;
}

std::string facts_of(const SweepStatus& sweep, Standing standing) {
  const auto of_all = [&](std::int64_t count) {
    return fmt::format("{} of {} {}", grouped(count), counted(sweep.trials, "trial"),
        sweep.trials == 1 ? "has" : "have");
  };
  if (standing == Standing::cancelled) return of_all(sweep.undecided) + " no result";
  if (is_open(standing)) return of_all(ended_trials(sweep)) + " ended";
  if (nothing_measured(sweep)) return "no trial was measured: " + outcomes_and_cause(sweep);
  return fmt::format("{}, {}", counted(sweep.trials, "trial"), outcomes_text(sweep));
}

/// A sentence ends with a full stop, whoever wrote it.
std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.' && text.back() != '!' && text.back() != '?') text += '.';
  return text;
}

}  // namespace

Standing standing_of(const SweepStatus& sweep, bool daemon_runs) {
  if (sweep.state == "imported") return Standing::imported;
  if (is_over(sweep))
    return sweep.state == "cancelled" && sweep.undecided > 0 ? Standing::cancelled
                                                             : Standing::ended;
  if (sweep.state != "active") return Standing::paused;
  if (sweep.outside) return Standing::outside;
  if (!daemon_runs) return Standing::unattended;
  return count_of(sweep.by_state, name(State::running)) > 0 ? Standing::runs : Standing::waits;
}

std::string why_it_waits(const SweepStatus& sweep) {
  if (!sweep.waiting.empty() || standing_of(sweep, true) != Standing::outside) return sweep.waiting;
  return fmt::format("measured outside; `shardsweep next {}` hands its points out", sweep.name);
}

std::string time_left(const SweepStatus& sweep) {
  if (ended_trials(sweep) >= sweep.trials) return "";
  if (!(sweep.remaining_s > 0)) return "unknown";
  const bool waits = sweep.running.empty() && !why_it_waits(sweep).empty();
  return duration_text(std::max(1.0, std::round(sweep.remaining_s))) + (waits ? " of runs" : "");
}

std::string standing_text(const SweepStatus& sweep, bool daemon_runs) {
  const Standing standing = standing_of(sweep, daemon_runs);
  auto text = sentence(
      fmt::format("'{}' {}: {}", sweep.name, words_of(sweep, standing), facts_of(sweep, standing)));
  if (is_open(standing) && !sweep.waiting.empty()) text += ' ' + sentence(sweep.waiting);
  return text;
}

}  // namespace shardsweep
