// SPDX-License-Identifier: Apache-2.0
#include "daemon/order_writer.hpp"

#include "daemon/channels.hpp"
#include "fleet/decide.hpp"
#include "fleet/nodes.hpp"
#include "predict/memory.hpp"
#include "sweep/launch.hpp"
#include "sweep/passed_variables.hpp"
#include "sweep/trainer_command.hpp"

#include <shardsweep/secrets_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

constexpr int assignments_per_tick = 8;

/// Writes the files that a trainer reads; they exist before the attempt is assigned.
Result<void> write_files(const SweepSpec& sweep, const Point& point, const AttemptSpec& spec,
    const AttemptPaths& paths) {
  if (!spec.trainer) return {};
  for (const auto& [name, text] :
      trainer_files(sweep, point, paths.dir.string(), spec.ranks_per_node))
    SHARDSWEEP_TRY(write_own_file(paths.dir / name, text));
  return {};
}

/// Lifts the limits of a side run: its tool slows it down and writes files when the ranks are
/// through. Its duration is kept out of the estimates.
void make_side_run(AttemptSpec& spec, SideRun side) {
  constexpr double least_teardown_s = 900;
  spec.side = side;
  spec.slow_limit_s = 0;
  spec.give_up_above_ms = 0;
  spec.group.clear();
  spec.limits.learn_factor = 0;
  spec.limits.teardown_limit_s = std::max(spec.limits.teardown_limit_s, least_teardown_s);
}

}  // namespace

/// False if a part of them is left for the next tick.
Result<bool> OrderWriter::send_orders(const AllocationRow& allocation) {
  SHARDSWEEP_ASSIGN(Channel * channel, channels_.of(allocation));
  const bool controlled = sweeps_.spec_of(allocation.sweep)
                              .control.runs_on(allocation.nodes, allocation.slots_per_node);
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
    SHARDSWEEP_TRY(channels_.send(*channel, Revoke{attempt}));
    channel->revoked.insert(attempt);
  }
  for (const AttemptId attempt : orders.cancel) {
    if (channel->cancelled.count(attempt) != 0) continue;
    SHARDSWEEP_TRY(channels_.send(*channel, Cancel{attempt, "cancelled on request"}));
    channel->cancelled.insert(attempt);
  }
  if (orders.drain && !channel->drained) {
    SHARDSWEEP_TRY(channels_.send(*channel, Drain{}));
    channel->drained = true;
  }
  return sent <= assignments_per_tick;
}

Result<void> OrderWriter::assign(const AllocationRow& allocation, AttemptId id) {
  const AttemptRow& attempt = world_.attempts().at(id);
  const TrialRow& trial = world_.trials().at(attempt.trial);
  const SweepRow* sweep = world_.sweep(trial.sweep);
  if (sweep == nullptr) return fault(FaultKind::corrupt, "a trial without its sweep");
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(*sweep));
  SHARDSWEEP_ASSIGN(const Point point, parts_.store.point_of(trial.id, context->spec));
  SHARDSWEEP_ASSIGN(const auto secrets, secrets_of(*sweep, context->spec));
  const AttemptPaths paths{attempt.dir};
  SHARDSWEEP_TRY(make_own_folder(paths.dir));
  SweepSpec run = sweeps_.spec_from(*context, trial.software);
  if (trial.final_of == 0) run.measure = run.measure.without_finals();
  AttemptSpec spec = attempt_spec(run, point,
      {.attempt = id,
          .trial = trial.slug,
          .nonce = attempt.nonce,
          .token = allocation.token,
          .program = parts_.installation.runner.string(),
          .paths = paths,
          .slots_per_node = allocation.slots_per_node,
          .lane = trial.lane,
          .predicted_s = trial.predicted_s,
          .give_up_above_ms = attempt.give_up_above_ms,
          .expandable = attempt.expandable,
          .parameters = parameters(context->spec.models.at(static_cast<std::size_t>(point.model))),
          .secrets = secrets,
          .secrets_file = secrets_file_of(*sweep, secrets)});
  if (trial.side != SideRun::none) make_side_run(spec, trial.side);
  // NCCL's log explains communication errors better than the ranks' output.
  spec.nccl_debug = trial.last == Outcome::comm_error;
  SHARDSWEEP_TRY(write_files(run, point, spec, paths));
  SHARDSWEEP_TRY(write_own_file(paths.spec(), encode(spec), Readers::owner));
  Channel& channel = channels_.at(allocation.id);
  // The lead skips trials only within a lane.
  const bool skips_after_oom = context->spec.search.rules.micro_batch;
  SHARDSWEEP_TRY(channels_.send(channel,
      Assign{.attempt = id,
          .trial = trial.slug,
          .dir = attempt.dir,
          .nonce = attempt.nonce,
          .lane = skips_after_oom ? trial.lane : std::string(),
          .micro_batch = trial.micro_batch,
          .predicted_s = trial.predicted_s}));
  channel.assigned.insert(id);
  return {};
}

/// Any trial that the sweep's file still has; none: there is none.
Result<std::optional<Point>> OrderWriter::example_of(SweepId id, const SweepSpec& sweep) {
  const auto trial = std::find_if(world_.trials().begin(), world_.trials().end(),
      [&](const auto& entry) { return entry.second.sweep == id && !entry.second.hidden; });
  if (trial == world_.trials().end()) return std::optional<Point>();
  SHARDSWEEP_ASSIGN(Point example, parts_.store.point_of(trial->first, sweep));
  return std::optional(std::move(example));
}

Result<void> OrderWriter::assign_probe(const AllocationRow& allocation) {
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (sweep == nullptr) return {};
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(*sweep));
  SHARDSWEEP_ASSIGN(const auto example, example_of(sweep->id, context->spec));
  // No trial is left that could run on the node: the allocation is drained in the same tick.
  if (!example) return {};
  const Probe probe = probe_of(context->spec, *example);
  return assign_extra(allocation,
      {.id = probe_attempt(allocation),
          .name = "probe",
          .sweep = probe.sweep,
          .point = probe.point,
          .dir = parts_.home.attempts() / ("probe." + allocation.token),
          .nonce = allocation.token + "-probe"});
}

Result<void> OrderWriter::assign_control(const AllocationRow& allocation, ControlTime time) {
  const AttemptId id = control_attempt(allocation, time);
  if (channels_.at(allocation.id).assigned.contains(id)) return {};
  const SweepSpec& sweep = sweeps_.spec_of(allocation.sweep);
  SHARDSWEEP_ASSIGN(const auto example, example_of(allocation.sweep, sweep));
  const auto control = control_of(sweep, example, allocation.nodes);
  if (!control) {
    // Said once, and the allocation does its work without.
    take_control(
        {world_, parts_.clock.now()}, sweep.policy, allocation, time, {}, control.error().what);
    return {};
  }
  return assign_extra(allocation,
      {.id = id,
          .name = "control",
          .sweep = control->sweep,
          .point = control->point,
          .dir = control_paths(parts_.home, allocation, time).dir,
          .nonce = control_nonce(allocation, time)});
}

/// Names: those that the sweep's file wants, and whatever else was passed on. A value that is
/// missing is the lead's fault to find, with the attempt that lacks it.
Result<std::vector<std::string>> OrderWriter::secrets_of(
    const SweepRow& sweep, const SweepSpec& spec) const {
  SHARDSWEEP_ASSIGN(const Secrets held, read_secrets(parts_.home.secrets_of(sweep.name)));
  const auto wanted = secret_names(spec);
  std::set<std::string> names(wanted.begin(), wanted.end());
  for (const auto& [name, value] : held)
    names.insert(name);
  return std::vector<std::string>(names.begin(), names.end());
}

std::string OrderWriter::secrets_file_of(
    const SweepRow& sweep, const std::vector<std::string>& secrets) const {
  return secrets.empty() ? std::string() : parts_.home.secrets_of(sweep.name).string();
}

/// An attempt at something that is no trial.
Result<void> OrderWriter::assign_extra(const AllocationRow& allocation, const Extra& extra) {
  const AttemptPaths paths{extra.dir};
  SHARDSWEEP_TRY(make_own_folder(paths.dir));
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (sweep == nullptr) return fault(FaultKind::corrupt, "an allocation without its sweep");
  SHARDSWEEP_ASSIGN(const auto secrets, secrets_of(*sweep, extra.sweep));
  AttemptSpec spec = attempt_spec(extra.sweep, extra.point,
      {.attempt = extra.id,
          .trial = extra.name,
          .nonce = extra.nonce,
          .token = allocation.token,
          .program = parts_.installation.runner.string(),
          .paths = paths,
          .slots_per_node = allocation.slots_per_node,
          .secrets = secrets,
          .secrets_file = secrets_file_of(*sweep, secrets)});
  // Figures of such runs are compared with no other program's, so programs are not checked.
  spec.programs.clear();
  SHARDSWEEP_TRY(write_files(extra.sweep, extra.point, spec, paths));
  SHARDSWEEP_TRY(write_own_file(paths.spec(), encode(spec), Readers::owner));
  Channel& channel = channels_.at(allocation.id);
  SHARDSWEEP_TRY(channels_.send(channel,
      Assign{.attempt = extra.id,
          .trial = extra.name,
          .dir = paths.dir.string(),
          .nonce = extra.nonce,
          .lane = extra.name,
          .micro_batch = 1,
          .predicted_s = 0}));
  channel.assigned.insert(extra.id);
  return {};
}

}  // namespace shardsweep
