// SPDX-License-Identifier: Apache-2.0
#include "daemon/deciding.hpp"

#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"
#include "plan/proof.hpp"
#include "sweep/opening_hours.hpp"

#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {

void Deciding::decide() {
  take_time();
  if (!all_decided()) more_runs_.plan_behind_cells();
  more_runs_.plan_again();
  // If nothing is new, only the clock calls for a decision: a probe is due, or a budget is used up.
  const bool due = !all_decided() || probe_is_due(world_, parts_.clock.now());
  const bool stale = has_stale_budget();
  const bool more = due && shardsweep::decide(world_, input());
  decided_ = more || stale ? Over{} : over_now();
}

/// True if this pass has changes that gpu_seconds() does not see yet.
bool Deciding::has_stale_budget() const {
  return !world_.changes().empty() &&
      std::any_of(world_.sweeps().begin(), world_.sweeps().end(), [&](const auto& entry) {
        return entry.second.state == SweepState::active &&
            sweeps_.policy_of(entry.first).max_gpu_hours > 0;
      });
}

void Deciding::hand_out(SweepId sweep, const HandOut& wanted) {
  take_time();
  DecideInput over = input();
  std::erase_if(over.sweeps, [sweep](const auto& entry) { return entry.first != sweep; });
  over.wanted.emplace(sweep, wanted);
  shardsweep::decide(world_, over);
}

/// Hours that begin or end are news, though nothing has happened.
void Deciding::take_time() {
  const std::time_t seconds = static_cast<std::time_t>(parts_.clock.now() / 1'000'000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const std::int32_t weekday = (local.tm_wday + 6) % 7;
  week_minute_ = (weekday * 24 + local.tm_hour) * 60 + local.tm_min;
  week_second_ = std::min(local.tm_sec, 59);
  std::erase_if(open_, [&](const auto& entry) { return world_.sweep(entry.first) == nullptr; });
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.state != SweepState::active) continue;
    const OpeningHours& hours = sweeps_.policy_of(sweep.id).hours;
    const bool open = hours.windows.empty() || opens_in_min(hours, week_minute_) == 0;
    const auto [known, fresh] = open_.try_emplace(sweep.id, open);
    if (fresh || known->second == open) continue;
    known->second = open;
    ++hours_;
  }
}

DecideInput Deciding::input() {
  DecideInput input;
  input.stays = parts_.stays;
  input.now = parts_.clock.now();
  input.week_minute = week_minute_;
  input.week_second = week_second_;
  input.random_hex = parts_.random_hex;
  input.allocation_dir = [this](const std::string& token) {
    return (parts_.home.allocations() / token).string();
  };
  // A database that was removed may have left a lead behind, which still writes and packs what
  // it was told to: the nonce keeps the folders of its attempts apart from ours.
  input.attempt_dir = [this](const TrialRow& trial, const AttemptRow& attempt) {
    return (parts_.home.attempts() /
        fmt::format(
            "{}.{}.{}.{}", trial.sweep, trial.slug, attempt.number, attempt.nonce.substr(0, 8)))
        .string();
  };
  // Consider only open sweeps: a database keeps ended ones, and fifty of them would cost as much as
  // fifty that run.
  const std::set<SweepId> concerned = sweeps_to_decide(world_);
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.state != SweepState::active || !concerned.contains(id)) continue;
    const auto context = sweeps_.context_of(sweep);
    if (!context) {
      log_error(context.error().what);
      continue;
    }
    const SweepSpec& spec = (*context)->spec;
    SweepFacts facts;
    facts.policy = spec.policy;
    facts.slots_per_node = spec.cluster.gpus_per_node;
    facts.backend = sweep.backend;
    facts.skip_larger_after_oom = spec.search.rules.micro_batch;
    if (spec.prove) facts.proof = proof_name(sweep.name);
    if (const auto search = sweeps_.search_of(sweep.id, **context); !search) {
      log_error(search.error().what);
      continue;
    } else if (*search != nullptr) {
      input.searches.emplace(sweep.id, *search);
    }
    sites_.add_facts(**context, sweep, facts);
    if (spec.policy.max_gpu_hours > 0) {
      facts.gpu_hours_used = parts_.store.gpu_seconds(sweep.id).value_or(0) / hour_s;
    }
    input.sweeps.emplace(sweep.id, std::move(facts));
  }
  return input;
}

}  // namespace shardsweep
