// SPDX-License-Identifier: Apache-2.0
// The tick's frame. What it observes, serves and does stands in observe.cpp, serve.cpp,
// act.cpp.
#include "daemon/daemon.hpp"

#include "fleet/alive.hpp"
#include "fleet/fold.hpp"
#include "fleet/nodes.hpp"
#include "sweep/opening_hours.hpp"

#include <shardsweep/daemon_lock.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <utility>

namespace shardsweep {
namespace {

using Steady = std::chrono::steady_clock;

bool due(std::optional<Steady::time_point> last, double interval_s, Steady::time_point now) {
  return !last || now - *last >= std::chrono::duration<double>(interval_s);
}

}  // namespace

Result<void> Daemon::load() {
  SHARDSWEEP_ASSIGN(const auto holder, parts_.store.lease_holder());
  epoch_ = holder ? holder->epoch : 0;
  boot_id_ = this_process().boot_id;
  return reload();
}

Result<void> Daemon::reload() {
  SHARDSWEEP_ASSIGN(auto rows, parts_.store.load_world());
  world_.read(std::move(rows));
  forget_searches();
  // Policies are needed before anything is folded.
  for (const auto& [id, sweep] : world_.sweeps()) {
    const bool alive =
        std::any_of(world_.allocations().begin(), world_.allocations().end(),
                    [&](const auto& entry) { return entry.second.sweep == sweep.id; });
    if (!alive && sweep.state != SweepState::active) continue;
    if (const auto context = context_of(sweep); !context) log_error(context.error().what);
  }
  return {};
}

Result<void> Daemon::tick() {
  return note_troubles(pass());
}

Result<void> Daemon::pass() {
  SHARDSWEEP_TRY(renew_lease());
  follow_clock();
  SHARDSWEEP_TRY(serve_requests());
  observe();
  take_time();
  bool more = false;
  // The same world gives the same decision: nothing new, nothing to decide.
  // But for what only time brings.
  if (decided_ != Decided{world_.version(), outside_} ||
      probe_is_due(world_, parts_.clock.now()))
    more = decide(world_, decide_input());
  decided_ = more ? Decided{} : Decided{world_.version(), outside_};
  SHARDSWEEP_TRY(commit());
  act();
  // What acting has learnt (a submission's answer) is worth keeping before the next pause.
  for (auto& [key, scheduler] : schedulers_) {
    take_events(key, *scheduler);
  }
  SHARDSWEEP_TRY(commit());
  notify();
  forget_ended();
  return {};
}

bool Daemon::busy() const {
  return serving_ || anything_alive(world_) || is_telling();
}

Result<bool> Daemon::nothing_left() {
  if (busy()) return false;
  SHARDSWEEP_ASSIGN(const bool left, parts_.store.work_left());
  if (!left) return true;
  log_warning("the database has work unknown to this daemon; reading the database again");
  SHARDSWEEP_TRY(reload());
  return false;
}

bool Daemon::settling() const {
  return std::any_of(schedulers_.begin(), schedulers_.end(),
                     [](const auto& entry) { return entry.second->settling(); });
}

std::vector<pollfd> Daemon::descriptors() const {
  std::vector<pollfd> all{{watch_.descriptor(), POLLIN, 0}};
  for (const auto& [key, scheduler] : schedulers_) {
    const auto more = scheduler->descriptors();
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const auto& [settings, notifier] : notifiers_) {
    const auto more = notifier->descriptors();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string Daemon::scheduler_key(const std::string& backend, SweepId sweep) const {
  const auto context = contexts_.find(sweep);
  if (backend == "local" || context == contexts_.end()) return backend;
  const std::string& url = context->second.site.rest.url;
  return url.empty() ? backend : backend + " " + url;
}

Scheduler& Daemon::scheduler_of(const std::string& backend, SweepId sweep) {
  auto& scheduler = schedulers_[scheduler_key(backend, sweep)];
  if (!scheduler) scheduler = parts_.make_scheduler(backend, contexts_[sweep].site);
  return *scheduler;
}

void Daemon::add_site(const SweepContext& context, const SweepRow& sweep, SweepFacts& facts) {
  if (sweep.backend == "local") return;
  const auto values = [&](const char* option) {
    const auto found = context.site.slurm.find(option);
    return found == context.site.slurm.end() ? std::vector<SlurmValue>{} : found->second;
  };
  facts.partition = values("partition");
  facts.account = values("account");
  facts.qos = values("qos");
  const auto seen = sites_.find(scheduler_key(sweep.backend, sweep.id));
  if (seen != sites_.end()) facts.site = seen->second;
  const auto scheduler = schedulers_.find(scheduler_key(sweep.backend, sweep.id));
  facts.site_awaited =
      seen == sites_.end() && scheduler != schedulers_.end() && scheduler->second->knows_site();
}

/// Jobs wait for hours, looks at them are far apart, and lanes have work ahead: the more of
/// what is alive is in other hands, the less a tick finds; and the more lanes, the more it
/// costs.
std::chrono::milliseconds Daemon::pause() const {
  // Fewer idle ticks than what renew_lease() takes for a gap; and a lead that has come up, or
  // has nothing more to do, finds work before it gives its nodes back.
  double longest = 2.5 * parts_.policy.idle_tick_s;
  double shortest = parts_.policy.tick_s;
  for (const auto& [id, context] : contexts_) {
    longest = std::min(longest, 0.5 * context.spec.policy.lane_idle_s);
    shortest = std::min(shortest, context.spec.policy.tick_s);
  }
  constexpr double quick_lanes = 8;  // that many are looked at in every tick
  const bool all_decided = decided_ == Decided{world_.version(), outside_};
  const bool settled = !serving_ && all_decided && said_ == world_.version() && !settling();
  const bool waits = settled && only_waits(world_);
  double seconds = parts_.policy.idle_tick_s;
  if (busy() && !waits) {
    seconds = shortest;
    const auto lanes = static_cast<double>(live_in_jobs(world_));
    if (settled)
      seconds = std::clamp(seconds * lanes / quick_lanes, seconds, std::max(seconds, longest));
  } else if (waits) {
    seconds = longest;
  }
  return std::chrono::milliseconds(std::max<std::int64_t>(1, std::int64_t(seconds * 1000)));
}

Result<void> Daemon::renew_lease() {
  const auto now = parts_.clock.steady();
  // A gap in our own loop (stopped, suspended): somebody may have taken over meanwhile.
  const bool gap = due(std::exchange(last_tick_, now), 4 * parts_.policy.idle_tick_s, now);
  if (!gap && !due(last_renewal_, parts_.policy.lease_renew_s, now)) return {};
  last_renewal_ = now;
  return parts_.store.renew_lease(parts_.clock.now());
}

Result<void> Daemon::commit() {
  if (world_.changes().empty()) return {};
  auto done = parts_.store.commit(world_.changes());
  if (!done && worth_retrying(done.error().kind)) {
    // They stay in memory and are committed with the next tick's; nothing acts on them before.
    return tl::unexpected<Fault>(done.error().in("commit"));
  }
  SHARDSWEEP_TRY(done);
  tell_searches();
  watcher_.see(world_, world_.take_changes(), parts_.clock.now());
  return {};
}

Result<Daemon::SweepContext*> Daemon::context_of(const SweepRow& sweep) {
  SweepContext& context = contexts_[sweep.id];
  if (context.site_text != sweep.site) {
    SHARDSWEEP_ASSIGN(context.site, load_site_text(sweep.site, "site of " + sweep.name));
    context.site_text = sweep.site;
  }
  if (context.resolved != sweep.resolved || context.resolved.empty()) {
    auto spec = load_sweep_text(sweep.resolved, sweep.name, {parts_.installation.presets, {}});
    if (!spec) {
      return fault(FaultKind::corrupt,
                   fmt::format("the stored file of sweep '{}' does not load: {}", sweep.name,
                               spec.error().what));
    }
    context.spec = std::move(*spec);
    context.resolved = sweep.resolved;
  }
  return &context;
}

/// What is waited for is stored by the wall clock, and somebody may set that.
void Daemon::follow_clock() {
  const auto steady = std::chrono::duration_cast<std::chrono::microseconds>(
      parts_.clock.steady().time_since_epoch());
  world_.follow_clock({boot_id_, parts_.clock.now() - steady.count()});
}

/// Hours that begin or end are news, though nothing has happened.
void Daemon::take_time() {
  const std::time_t seconds = static_cast<std::time_t>(parts_.clock.now() / 1'000'000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  const std::int32_t weekday = (local.tm_wday + 6) % 7;
  week_minute_ = (weekday * 24 + local.tm_hour) * 60 + local.tm_min;
  week_second_ = std::min(local.tm_sec, 59);
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.state != SweepState::active) continue;
    const OpeningHours& hours = policy_of(sweep.id).hours;
    const bool open = hours.windows.empty() || opens_in_min(hours, week_minute_) == 0;
    const auto [known, fresh] = open_.try_emplace(sweep.id, open);
    if (fresh || known->second == open) continue;
    known->second = open;
    ++outside_;
  }
}

DecideInput Daemon::decide_input() {
  DecideInput input;
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
    return (parts_.home.attempts() / fmt::format("{}.{}.{}.{}", trial.sweep, trial.slug,
                                                 attempt.number, attempt.nonce.substr(0, 8)))
        .string();
  };
  for (const auto& [id, sweep] : world_.sweeps()) {
    if (sweep.state != SweepState::active) continue;
    const auto context = context_of(sweep);
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
    if (const auto search = search_of(sweep.id, **context); !search) {
      log_error(search.error().what);
      continue;
    } else if (*search != nullptr) {
      input.searches.emplace(sweep.id, *search);
    }
    add_site(**context, sweep, facts);
    if (spec.policy.max_gpu_hours > 0) {
      facts.gpu_hours_used = parts_.store.gpu_seconds(sweep.id).value_or(0) / 3600;
    }
    input.sweeps.emplace(sweep.id, std::move(facts));
  }
  return input;
}

}  // namespace shardsweep
