// SPDX-License-Identifier: Apache-2.0
#include "daemon/sites.hpp"

#include "fleet/allocation.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace shardsweep {

std::string Sites::key_of(Backend backend, SweepId sweep) const {
  const std::string& url = sweeps_.site_of(sweep).rest.url;
  std::string key(word_of(backend));
  return backend == Backend::local || url.empty() ? key : key + " " + url;
}

Scheduler& Sites::of(Backend backend, SweepId sweep) {
  auto& scheduler = schedulers_[key_of(backend, sweep)];
  if (!scheduler) scheduler = parts_.make_scheduler(backend, sweeps_.site_of(sweep));
  return *scheduler;
}

void Sites::look(const Handles& handles, const Take& take) {
  ask();
  const auto now = parts_.clock.steady();
  for (auto& [key, scheduler] : schedulers_) {
    const auto last = last_look_.find(key);
    const bool due = last == last_look_.end() ||
        now - last->second >= std::chrono::duration<double>(look_interval_s(key, *scheduler));
    const auto own = handles.find(key);
    if (due && own != handles.end()) {
      scheduler->answer_within(answer_limit_s(key));
      scheduler->look(own->second);
      last_look_[key] = now;
    }
    poll(key, *scheduler, take);
  }
}

void Sites::poll(const Take& take) {
  for (auto& [key, scheduler] : schedulers_)
    poll(key, *scheduler, take);
}

void Sites::poll(const std::string& key, Scheduler& scheduler, const Take& take) {
  for (const SchedulerEvent& event : scheduler.poll()) {
    take(key, event);
    if (const auto* site = std::get_if<SiteSeen>(&event)) take_site(key, *site);
  }
}

void Sites::take_site(const std::string& key, const SiteSeen& site) {
  const auto known = facts_.find(key);
  if (known != facts_.end() && known->second == site.facts) return;
  facts_[key] = site.facts;
  ++version_;
}

/// Asks sites about what the limits of waiting sweeps depend on; other sweeps need no answer.
void Sites::ask() {
  const std::set<SweepId> open = open_sweeps(world_);
  std::map<Scheduler*, SiteQuestions> questions;
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.backend != Backend::slurm || sweep.state != SweepState::active) continue;
    if (!open.contains(id) || !sweeps_.context_of(sweep)) continue;
    const Policy& policy = sweeps_.policy_of(sweep.id);
    const bool yields = static_cast<Yield>(policy.yield) != Yield::never;
    auto [entry, fresh] = questions.try_emplace(&of(sweep.backend, sweep.id),
        SiteQuestions{.others_s = policy.look_others_s, .answer_limit_s = policy.query_limit_s});
    SiteQuestions& all = entry->second;
    all.partitions = all.partitions || policy.partition_share < 100;
    all.others = all.others || yields;
    all.others_s = std::min(all.others_s, policy.look_others_s);
    // Limit the wait, because the first submission waits for the answer.
    all.answer_limit_s = std::min({all.answer_limit_s, policy.query_limit_s, 10.0});
  }
  for (const auto& [key, scheduler] : schedulers_) {
    const auto asked = questions.find(scheduler.get());
    scheduler->ask(asked == questions.end() ? std::nullopt : std::optional(asked->second));
  }
}

/// Sweeps that share a scheduler share its answers: the shortest interval applies.
double Sites::answer_limit_s(const std::string& key) const {
  std::optional<double> limit_s;
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (key_of(sweep.backend, sweep.id) != key || sweep.state != SweepState::active) continue;
    const double own_s = sweeps_.policy_of(sweep.id).query_limit_s;
    limit_s = std::min(limit_s.value_or(own_s), own_s);
  }
  return limit_s.value_or(parts_.policy.query_limit_s);
}

/// Interval of looks. Costly looks are rare, but if a lead has left, the end of its allocation
/// matters: others wait for its place.
double Sites::look_interval_s(const std::string& key, const Scheduler& scheduler) const {
  constexpr double leaving_s = 2;
  constexpr double leaving_limit_s = 60;  // an epilog that takes longer may take for ever
  double interval_s = scheduler.look_interval_s();
  for (const auto& [id, sweep] : world_.sweeps()) {
    const bool asks = sweep.backend != Backend::local && key_of(sweep.backend, sweep.id) == key &&
        sweep.state == SweepState::active;
    if (asks) interval_s = std::min(interval_s, sweeps_.policy_of(sweep.id).look_s);
  }
  const bool leaving =
      std::any_of(world_.allocations().begin(), world_.allocations().end(), [&](const auto& entry) {
        const AllocationRow& row = entry.second;
        return key_of(row.backend, row.sweep) == key && row.state != State::ended && row.said_bye &&
            silence_s(row, parts_.clock.now()) < leaving_limit_s;
      });
  return leaving ? std::min(interval_s, leaving_s) : interval_s;
}

void Sites::add_facts(const SweepContext& context, const SweepRow& sweep, SweepFacts& facts) const {
  if (sweep.backend != Backend::slurm) return;
  add_options(context.spec, context.site, facts);
  const auto seen = facts_.find(key_of(sweep.backend, sweep.id));
  if (seen != facts_.end()) facts.site = seen->second;
  const auto scheduler = schedulers_.find(key_of(sweep.backend, sweep.id));
  facts.site_awaited =
      seen == facts_.end() && scheduler != schedulers_.end() && scheduler->second->knows_site();
}

bool Sites::settling() const {
  return std::any_of(schedulers_.begin(), schedulers_.end(),
      [](const auto& entry) { return entry.second->settling(); });
}

std::vector<pollfd> Sites::descriptors() const {
  std::vector<pollfd> all;
  for (const auto& [key, scheduler] : schedulers_) {
    const auto more = scheduler->descriptors();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace shardsweep
