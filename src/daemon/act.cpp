// SPDX-License-Identifier: Apache-2.0
// Acting: makes true what the committed rows say. Each act is found out anew from rows and
// files, so that a crash between commit and act, or between two acts, costs nothing.
#include "daemon/daemon.hpp"
#include "fleet/allocation.hpp"
#include "fleet/nodes.hpp"
#include "slurm/words/array.hpp"
#include "slurm/words/script.hpp"
#include "sweep/launch.hpp"

#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

constexpr int assignments_per_tick = 8;
constexpr std::chrono::milliseconds longest_saying{50};

/// Elements of one array are submitted in one pass, or they become several arrays.
bool is_of_array(const AllocationRow& row, const AllocationRow* before) {
  if (before == nullptr) return false;
  const auto element = slurm::element_in(row.token);
  const auto other = slurm::element_in(before->token);
  return element && other && element->array == other->array;
}

}  // namespace

AllocationHandle Daemon::handle_of(const AllocationRow& row) const {
  return {.token = row.token,
          .job_name = row.job_name,
          .job_id = row.job_id,
          .dir = row.dir,
          .created_at = row.created_at,
          .claimed = row.claimed_at != 0,
          .waits = row.job_state == JobState::pending,
          .missing = row.missing,
          // Not negative: the login node's clock may have been set back.
          .missing_for_s =
              std::max(0.0, static_cast<double>(parts_.clock.now() - row.missing_since) / 1e6)};
}

void Daemon::act() {
  // What has been said of the world as it is need not be found out with every tick.
  const bool to_say = std::exchange(said_, world_.version()) != world_.version();
  // With hundreds of allocations their files take seconds: the rest is the next pass's.
  const auto until = parts_.clock.steady() + longest_saying;
  const auto& all = world_.allocations();
  auto next = all.upper_bound(acted_on_);
  const AllocationRow* begun = nullptr;
  for (auto left = all.size(); left > 0; --left) {
    if (next == all.end()) next = all.begin();
    const AllocationRow& allocation = (next++)->second;
    if (allocation.state == State::ended || allocation.job_state == JobState::ended) continue;
    if (to_say && !is_said(allocation)) {
      if (parts_.clock.steady() > until && !is_of_array(allocation, begun)) {
        said_ = 0;
        return;
      }
      acted_on_ = allocation.id;
      begun = &allocation;
      if (!say_orders(allocation)) continue;
    }
    act_on(allocation);
  }
}

/// Nothing that its orders depend on has changed since they were said.
bool Daemon::is_said(const AllocationRow& allocation) const {
  const auto channel = channels_.find(allocation.id);
  return channel != channels_.end() && channel->second.said == world_.version_of(allocation.id);
}

/// False where nothing else may be done about it in this tick.
bool Daemon::say_orders(const AllocationRow& allocation) {
  const std::uint64_t version = world_.version_of(allocation.id);
  const Result<void> prepared = prepare(allocation);
  const Result<bool> said = prepared ? send_orders(allocation)
                                     : Result<bool>(tl::unexpected<Fault>(prepared.error()));
  if (!said || !*said) said_ = 0;
  if (said) {
    channels_.at(allocation.id).said = *said ? version : 0;
    return true;
  }
  storage_doubted_ = true;
  log_error(fmt::format("{}: {}", allocation.job_name, said.error().what));
  return false;
}

void Daemon::act_on(const AllocationRow& allocation) {
  Scheduler& scheduler = scheduler_of(allocation.backend, allocation.sweep);
  if (is_to_be_cancelled(allocation, policy_of(allocation.sweep), parts_.clock.now()))
    scheduler.cancel(handle_of(allocation));
  submit(allocation, scheduler);
}

/// Its id is committed: it may start. Asked again where the first time was in vain.
void Daemon::release(const AllocationRow& allocation, Channel& channel, Scheduler& scheduler) {
  constexpr std::chrono::seconds again{60};
  const auto now = parts_.clock.steady();
  if (channel.released_at && now - *channel.released_at < again) return;
  channel.released_at = now;
  scheduler.release(handle_of(allocation));
}

void Daemon::submit(const AllocationRow& allocation, Scheduler& scheduler) {
  Channel& channel = channels_.at(allocation.id);
  const SiteSpec& site = contexts_[allocation.sweep].site;
  if (site.strict && is_held(allocation)) release(allocation, channel, scheduler);
  if (allocation.submission != Submission::committed || channel.submitted) return;
  if (allocation.submit_after != 0) return;
  const auto deadline_in_s = [this](const AllocationRow& row) {
    if (row.deadline == 0) return 0.0;
    return std::max(1.0, static_cast<double>(row.deadline - parts_.clock.now()) / 1e6);
  };
  channel.submitted = true;
  scheduler.submit({.token = allocation.token,
                    .job_name = allocation.job_name,
                    .dir = allocation.dir,
                    .agent = parts_.installation.agent,
                    .script = allocation.backend == "local"
                                  ? std::filesystem::path()
                                  : AllocationPaths{allocation.dir}.script(),
                    .limit_s = policy_of(allocation.sweep).submit_limit_s,
                    .deadline_in_s = deadline_in_s(allocation),
                    .strict = site.strict});
}

/// The allocation's folder and its first file, before anything can look for them.
Result<void> Daemon::prepare(const AllocationRow& allocation) {
  const AllocationPaths paths{allocation.dir};
  std::error_code error;
  if (std::filesystem::exists(paths.spec(), error)) return {};
  std::filesystem::create_directories(paths.dir, error);
  if (error) {
    return fault(FaultKind::unavailable,
                 fmt::format("cannot make '{}': {}", paths.dir.string(), error.message()));
  }
  if (allocation.backend != "local") SHARDSWEEP_TRY(write_script(allocation));
  // Both files exist before anyone looks for them: NFS hides a new file for up to a minute
  // from a host that has missed it once.
  SHARDSWEEP_TRY(LineWriter::open(paths.from_lead()));
  SHARDSWEEP_TRY(LineWriter::open(paths.to_lead()));
  const Policy& policy = policy_of(allocation.sweep);
  AllocationSpec spec;
  spec.token = allocation.token;
  spec.job_name = allocation.job_name;
  spec.nodes = allocation.nodes;
  spec.slots_per_node = allocation.slots_per_node;
  spec.launch =
      allocation.backend == "local"
          ? "local"
          : launch_words.at(static_cast<std::size_t>(contexts_[allocation.sweep].site.launch));
  spec.beat_s = policy.beat_s;
  spec.agent_lease_s = policy.agent_lease_s;
  spec.node_lease_s = policy.node_lease_s;
  spec.file_beat_s = policy.file_beat_s;
  spec.watch_interval_s = policy.watch_interval_s;
  spec.idle_limit_s = policy.lane_idle_s;
  spec.agents_limit_s = policy.agents_limit_s;
  spec.time_margin = policy.lane_time_margin;
  spec.grace_s = policy.grace_s;
  spec.stop_before_end_s = policy.lane_stop_before_end_s;
  spec.gpu = contexts_[allocation.sweep].spec.cluster.gpu;
  return write_file_durably(paths.spec(), encode(spec));
}

/// Exactly what is submitted; `render` prints the same.
Result<void> Daemon::write_script(const AllocationRow& allocation) {
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (sweep == nullptr) return fault(FaultKind::corrupt, "an allocation without its sweep");
  SHARDSWEEP_ASSIGN(const SweepContext* context, context_of(*sweep));
  const AllocationPaths paths{allocation.dir};
  SHARDSWEEP_ASSIGN(const TemplateValues values,
                    script_values(context->spec, context->site,
                                  {.job_name = allocation.job_name,
                                   .agent = parts_.installation.agent.string(),
                                   .paths = paths,
                                   .nodes = allocation.nodes,
                                   .time_limit_s = allocation.time_limit_s,
                                   .exclude = nodes_out(world_),
                                   .only_node = allocation.probe_of}));
  SHARDSWEEP_ASSIGN(const std::string script,
                    render_template(sweep->job_template, "the job template", values));
  return write_file_durably(paths.script(), script);
}

Result<Daemon::Channel*> Daemon::channel_of(const AllocationRow& allocation) {
  const auto found = channels_.find(allocation.id);
  if (found != channels_.end()) return &found->second;
  const AllocationPaths paths{allocation.dir};
  Channel channel(paths);
  // What a daemon before us has said already.
  LineReader said(paths.to_lead());
  SHARDSWEEP_ASSIGN(const auto lines, said.look());
  for (const std::string& text : lines) {
    const auto line = decode_to_lead(text);
    if (!line) continue;
    channel.n = std::max(channel.n, line->n);
    if (const auto* assigned = std::get_if<Assign>(&line->body)) {
      channel.assigned.insert(assigned->attempt);
    } else if (const auto* revoked = std::get_if<Revoke>(&line->body)) {
      channel.revoked.insert(revoked->attempt);
    } else if (const auto* cancelled = std::get_if<Cancel>(&line->body)) {
      channel.cancelled.insert(cancelled->attempt);
    } else {
      channel.drained = true;
    }
  }
  // Submitted or not: after a restart the scheduler's look tells, never a second submission.
  // But what was told to come back later is known to be nowhere.
  channel.submitted = allocation.submission != Submission::committed ||
                      (!lines.empty() && allocation.submit_after == 0);
  return &channels_.emplace(allocation.id, std::move(channel)).first->second;
}

Result<void> Daemon::send(Channel& channel, ToLeadBody body) {
  // Opened for each line: a descriptor per live allocation would run out at about a thousand.
  SHARDSWEEP_ASSIGN(LineWriter writer, LineWriter::open(channel.to_lead));
  SHARDSWEEP_TRY(writer.append(encode(ToLead{channel.n + 1, epoch_, std::move(body)}), true));
  ++channel.n;
  return {};
}

/// False where a part of them is left for the next tick.
Result<bool> Daemon::send_orders(const AllocationRow& allocation) {
  SHARDSWEEP_ASSIGN(Channel * channel, channel_of(allocation));
  const auto context = contexts_.find(allocation.sweep);
  const bool controlled =
      context != contexts_.end() &&
      context->second.spec.control.runs_on(allocation.nodes, allocation.slots_per_node);
  const Orders orders = orders_for(world_, allocation, controlled);
  if (orders.control) SHARDSWEEP_TRY(assign_control(allocation, *orders.control));
  int sent = 0;
  for (const AttemptId attempt : orders.assign) {
    if (channel->assigned.count(attempt) != 0) continue;
    // The rest follows in the next tick: each costs a folder and two syncs.
    if (++sent > assignments_per_tick) break;
    SHARDSWEEP_TRY(assign(allocation, attempt));
  }
  if (orders.probe && channel->assigned.count(probe_attempt(allocation)) == 0)
    SHARDSWEEP_TRY(assign_probe(allocation));
  for (const AttemptId attempt : orders.revoke) {
    if (channel->revoked.count(attempt) != 0) continue;
    SHARDSWEEP_TRY(send(*channel, Revoke{attempt}));
    channel->revoked.insert(attempt);
  }
  for (const AttemptId attempt : orders.cancel) {
    if (channel->cancelled.count(attempt) != 0) continue;
    SHARDSWEEP_TRY(send(*channel, Cancel{attempt, "cancelled on request"}));
    channel->cancelled.insert(attempt);
  }
  if (orders.drain && !channel->drained) {
    SHARDSWEEP_TRY(send(*channel, Drain{}));
    channel->drained = true;
  }
  return sent <= assignments_per_tick;
}

Result<void> Daemon::assign(const AllocationRow& allocation, AttemptId id) {
  const AttemptRow& attempt = world_.attempts().at(id);
  const TrialRow& trial = world_.trials().at(attempt.trial);
  const SweepRow* sweep = world_.sweep(trial.sweep);
  if (sweep == nullptr) return fault(FaultKind::corrupt, "a trial without its sweep");
  SHARDSWEEP_ASSIGN(const SweepContext* context, context_of(*sweep));
  SHARDSWEEP_ASSIGN(const Point point, parts_.store.point_of(trial.id, context->spec));
  const AttemptPaths paths{attempt.dir};
  std::error_code error;
  std::filesystem::create_directories(paths.dir, error);
  if (error) {
    return fault(FaultKind::unavailable,
                 fmt::format("cannot make '{}': {}", paths.dir.string(), error.message()));
  }
  AttemptSpec spec = attempt_spec(context->spec, point,
                                  {.attempt = id,
                                   .trial = trial.slug,
                                   .nonce = attempt.nonce,
                                   .token = allocation.token,
                                   .program = parts_.installation.runner.string(),
                                   .paths = paths,
                                   .slots_per_node = allocation.slots_per_node,
                                   .lane = trial.lane,
                                   .predicted_s = trial.predicted_s});
  // What went wrong between the ranks only NCCL can tell.
  spec.nccl_debug = trial.last == Outcome::comm_error;
  SHARDSWEEP_TRY(write_file_durably(paths.spec(), encode(spec)));
  Channel& channel = channels_.at(allocation.id);
  // Without a lane the lead skips nothing by itself.
  const bool skips_after_oom = context->spec.search.rules.micro_batch;
  SHARDSWEEP_TRY(send(channel, Assign{.attempt = id,
                                      .trial = trial.slug,
                                      .dir = attempt.dir,
                                      .nonce = attempt.nonce,
                                      .lane = skips_after_oom ? trial.lane : std::string(),
                                      .micro_batch = trial.micro_batch,
                                      .predicted_s = trial.predicted_s}));
  channel.assigned.insert(id);
  return {};
}

void Daemon::forget_ended() {
  if (std::exchange(forgotten_, world_.version()) == world_.version()) return;
  for (const AllocationId id : world_.forget_ended())
    channels_.erase(id);
}

}  // namespace shardsweep
