// SPDX-License-Identifier: Apache-2.0
// What is held against results and nodes: numbers that can't be true, and the short run that
// lets a node back in.
#include "daemon/daemon.hpp"
#include "fleet/control.hpp"
#include "fleet/nodes.hpp"
#include "fleet/plausible.hpp"
#include "predict/memory.hpp"
#include "sweep/launch.hpp"

#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

double metric_of(const AddMeasurement& result, std::string_view name) {
  const auto found = result.metrics.find(name);
  return found == result.metrics.end() ? 0 : found->second;
}

/// shardbench counts embedding and head apart also where a model ties them.
std::optional<std::int64_t> parameters_for(const SweepSpec& sweep, const Point& point) {
  if (!sweep.runner.is_shardbench()) return std::nullopt;
  ModelSpec model = sweep.models.at(static_cast<std::size_t>(point.model));
  model.tied_embeddings = false;
  return parameters(model);
}

}  // namespace

/// Why a result can't be true; empty where nothing is known against it.
Result<std::string> Daemon::doubt_of(const AttemptRow& attempt, const AddMeasurement& result) {
  const TrialRow* trial = world_.trial(attempt.trial);
  const SweepRow* sweep = trial == nullptr ? nullptr : world_.sweep(trial->sweep);
  if (sweep == nullptr) return "";
  SHARDSWEEP_ASSIGN(const SweepContext* context, context_of(*sweep));
  SHARDSWEEP_ASSIGN(const Point point, parts_.store.point_of(attempt.trial, context->spec));
  const double steps = metric_of(result, "steps") + metric_of(result, "warmup");
  SHARDSWEEP_ASSIGN(auto losses, parts_.store.losses_of_others(attempt.trial, steps));
  return why_implausible(result.metrics,
                         {.n_params = parameters_for(context->spec, point),
                          .tokens_per_step = point.layout.global_batch() * point.seq_len,
                          .losses = std::move(losses)});
}

/// Marks a result that can't be true, or is of another version than its trial. One that can't
/// be judged is believed.
void Daemon::judge_result(const AttemptRow& attempt, RecordsSummary& records) {
  if (!records.result) return;
  auto doubt = doubt_of(attempt, *records.result);
  const auto runner = parts_.store.runner_of(attempt.trial);
  if (!runner) log_warning(runner.error().what);
  if (runner && doubt && doubt->empty())
    doubt = why_other_runner(*runner, {records.runner, records.runner_version});
  if (!doubt) return log_warning(doubt.error().what);
  if (doubt->empty()) return;
  records.result->mark = std::string(mark_implausible);
  records.doubt = *doubt;
}

/// Any trial that the sweep's file still has; none: there is none.
Result<std::optional<Point>> Daemon::example_of(SweepId id, const SweepSpec& sweep) {
  const auto trial = std::find_if(
      world_.trials().begin(), world_.trials().end(),
      [&](const auto& entry) { return entry.second.sweep == id && !entry.second.hidden; });
  if (trial == world_.trials().end()) return std::optional<Point>();
  SHARDSWEEP_ASSIGN(Point example, parts_.store.point_of(trial->first, sweep));
  return std::optional(std::move(example));
}

Result<void> Daemon::assign_probe(const AllocationRow& allocation) {
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (sweep == nullptr) return {};
  SHARDSWEEP_ASSIGN(const SweepContext* context, context_of(*sweep));
  SHARDSWEEP_ASSIGN(const auto example, example_of(sweep->id, context->spec));
  // Nothing is left that could run on the node: the allocation is drained in the same tick.
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

AttemptPaths Daemon::control_paths(const AllocationRow& allocation, ControlTime time) const {
  return {parts_.home.attempts() /
          fmt::format("control.{}.{}", allocation.token, word_of(time))};
}

std::string Daemon::control_nonce(const AllocationRow& allocation, ControlTime time) {
  return fmt::format("{}-control-{}", allocation.token, word_of(time));
}

Result<void> Daemon::assign_control(const AllocationRow& allocation, ControlTime time) {
  const AttemptId id = control_attempt(allocation, time);
  if (channels_.at(allocation.id).assigned.contains(id)) return {};
  const SweepSpec& sweep = contexts_.at(allocation.sweep).spec;
  SHARDSWEEP_ASSIGN(const auto example, example_of(allocation.sweep, sweep));
  const auto control = control_of(sweep, example, allocation.nodes);
  if (!control) {
    // Said once, and the allocation does its work without.
    take_control({world_, parts_.clock.now()}, sweep.policy, allocation, time, {},
                 control.error().what);
    return {};
  }
  return assign_extra(allocation, {.id = id,
                                   .name = "control",
                                   .sweep = control->sweep,
                                   .point = control->point,
                                   .dir = control_paths(allocation, time).dir,
                                   .nonce = control_nonce(allocation, time)});
}

/// An attempt at something that is no trial.
Result<void> Daemon::assign_extra(const AllocationRow& allocation, const Extra& extra) {
  const AttemptPaths paths{extra.dir};
  std::error_code error;
  std::filesystem::create_directories(paths.dir, error);
  if (error) {
    return fault(FaultKind::unavailable,
                 fmt::format("cannot make '{}': {}", paths.dir.string(), error.message()));
  }
  const AttemptSpec spec = attempt_spec(extra.sweep, extra.point,
                                        {.attempt = extra.id,
                                         .trial = extra.name,
                                         .nonce = extra.nonce,
                                         .token = allocation.token,
                                         .program = parts_.installation.runner.string(),
                                         .paths = paths,
                                         .slots_per_node = allocation.slots_per_node});
  SHARDSWEEP_TRY(write_file_durably(paths.spec(), encode(spec)));
  Channel& channel = channels_.at(allocation.id);
  SHARDSWEEP_TRY(send(channel, Assign{.attempt = extra.id,
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
