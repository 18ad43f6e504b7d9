// SPDX-License-Identifier: Apache-2.0
#include "daemon/acts.hpp"

#include "daemon/jobs.hpp"
#include "fleet/allocation.hpp"
#include "fleet/control.hpp"
#include "fleet/nodes.hpp"
#include "slurm/words/array.hpp"
#include "slurm/words/script.hpp"
#include "sweep/launch.hpp"
#include "text/pieces.hpp"

#include <shardsweep/duration.hpp>
#include <shardsweep/fail_point.hpp>
#include <shardsweep/invariant.hpp>
#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::chrono::milliseconds longest_saying{25};

/// Nodes that are out, and those on which the same finals have run.
std::vector<std::string> excluded_by(const World& world, const AllocationRow& allocation) {
  std::vector<std::string> nodes = nodes_out(world);
  for (const std::string_view one : split(allocation.avoid, ',')) {
    if (!one.empty() && std::find(nodes.begin(), nodes.end(), one) == nodes.end())
      nodes.emplace_back(one);
  }
  return nodes;
}

/// Elements of one array are submitted in one pass, or they become several arrays.
bool is_of_array(const AllocationRow& row, const AllocationRow* before) {
  if (before == nullptr) return false;
  const auto element = slurm::element_in(row.token);
  const auto other = slurm::element_in(before->token);
  return element && other && element->array == other->array;
}

}  // namespace

void Acts::act() {
  // Skip while the world is unchanged: all its orders are written.
  const bool to_say = std::exchange(said_, world_.version()) != world_.version();
  // Leave the rest to the next pass if time is up: files of hundreds of allocations take seconds.
  // Each pass writes at least one, however slow the disk.
  const auto until = parts_.clock.steady() + longest_saying;
  const auto& all = world_.allocations();
  auto next = all.upper_bound(acted_on_);
  const AllocationRow* begun = nullptr;
  for (auto left = all.size(); left > 0; --left) {
    if (next == all.end()) next = all.begin();
    const AllocationRow& allocation = (next++)->second;
    if (allocation.state == State::ended || allocation.job_state == JobState::ended) continue;
    if (is_outside(allocation)) continue;
    if (sweeps_.is_apart(allocation.sweep)) {
      leads_.send_away(allocation);
      continue;
    }
    if (to_say && !is_said(allocation)) {
      const bool late = begun != nullptr && parts_.clock.steady() > until;
      if (late && !is_of_array(allocation, begun)) {
        said_ = 0;
        return;
      }
      acted_on_ = allocation.id;
      begun = &allocation;
      if (!in_work_of(allocation.sweep, [&] { return say_orders(allocation); })) continue;
    }
    in_work_of(allocation.sweep, [&] { act_on(allocation); });
  }
}

/// True if nothing that its orders depend on has changed since they were written.
bool Acts::is_said(const AllocationRow& allocation) const {
  const Channel* channel = channels_.find(allocation.id);
  return channel != nullptr && channel->said == world_.version_of(allocation.id);
}

/// False if nothing else may be done about the allocation in this tick.
bool Acts::say_orders(const AllocationRow& allocation) {
  const std::uint64_t version = world_.version_of(allocation.id);
  // An earlier daemon may have submitted the job; its files show that.
  const Result<Channel*> channel = channels_.of(allocation);
  const Result<void> prepared =
      channel ? prepare(allocation) : tl::unexpected<Fault>(channel.error());
  const Result<bool> said = prepared ? orders_.send_orders(allocation)
                                     : Result<bool>(tl::unexpected<Fault>(prepared.error()));
  if (!said || !*said) said_ = 0;
  if (said) {
    fail_point("daemon.ordered");
    channels_.at(allocation.id).said = *said ? version : 0;
    return true;
  }
  health_.doubt_storage();
  log_error(fmt::format("{}: {}", allocation.job_name, said.error().what));
  return false;
}

void Acts::act_on(const AllocationRow& allocation) {
  Scheduler& scheduler = sites_.of(allocation.backend, allocation.sweep);
  if (is_to_be_cancelled(allocation, sweeps_.policy_of(allocation.sweep), parts_.clock.now()))
    scheduler.cancel(handle_of(allocation, parts_.clock.now()));
  submit(allocation, scheduler);
}

/// Releases a held job once its id is committed. Repeats the request if the first one failed.
void Acts::release(const AllocationRow& allocation, Channel& channel, Scheduler& scheduler) {
  constexpr std::chrono::seconds again{60};
  const auto now = parts_.clock.steady();
  if (channel.released_at && now - *channel.released_at < again) return;
  channel.released_at = now;
  scheduler.release(handle_of(allocation, parts_.clock.now()));
}

void Acts::submit(const AllocationRow& allocation, Scheduler& scheduler) {
  Channel& channel = channels_.at(allocation.id);
  const SiteSpec& site = sweeps_.site_of(allocation.sweep);
  if (site.strict && is_held(allocation)) release(allocation, channel, scheduler);
  if (allocation.submission != Submission::committed || channel.submitted) return;
  if (allocation.submit_after != 0) return;
  INVARIANT(world_.is_stored(allocation.id), "the row of a job is committed before its job",
      allocation.id, allocation.token);
  const auto deadline_in_s = [this](const AllocationRow& row) {
    if (row.deadline == 0) return 0.0;
    return std::max(1.0, to_seconds(row.deadline - parts_.clock.now()));
  };
  channel.submitted = true;
  scheduler.submit({.token = allocation.token,
      .job_name = allocation.job_name,
      .dir = allocation.dir,
      .agent = parts_.installation.agent,
      .script = allocation.backend == Backend::local ? std::filesystem::path()
                                                     : AllocationPaths{allocation.dir}.script(),
      .limit_s = sweeps_.policy_of(allocation.sweep).submit_limit_s,
      .deadline_in_s = deadline_in_s(allocation),
      .strict = site.strict});
  fail_point("daemon.submitted");
}

/// Writes the allocation's folder and first file, before anything can look for them.
Result<void> Acts::prepare(const AllocationRow& allocation) {
  const AllocationPaths paths{allocation.dir};
  std::error_code error;
  if (std::filesystem::exists(paths.spec(), error)) return {};
  SHARDSWEEP_TRY(make_own_folder(paths.dir));
  if (allocation.backend != Backend::local) SHARDSWEEP_TRY(write_script(allocation));
  fail_point("daemon.script_written");
  // Both files exist before anyone looks for them: NFS hides a new file for up to a minute
  // from a host that has missed it once.
  SHARDSWEEP_TRY(LineWriter::open(paths.from_lead()));
  SHARDSWEEP_TRY(LineWriter::open(paths.to_lead()));
  const Policy& policy = sweeps_.policy_of(allocation.sweep);
  AllocationSpec spec;
  spec.token = allocation.token;
  spec.job_name = allocation.job_name;
  spec.nodes = allocation.nodes;
  spec.slots_per_node = allocation.slots_per_node;
  spec.launch = allocation.backend == Backend::local ? LaunchMode::local
                                                     : sweeps_.site_of(allocation.sweep).launch;
  spec.limits = policy.lane;
  spec.grace_s = policy.attempt.grace_s;
  spec.gpu = sweeps_.spec_of(allocation.sweep).cluster.gpu;
  spec.check = check_order(allocation);
  SHARDSWEEP_TRY(write_own_file(paths.spec(), encode(spec), Readers::owner));
  fail_point("daemon.prepared");
  return {};
}

/// Empty: neither the sweep nor the site asks for a check.
std::optional<CheckOrder> Acts::check_order(const AllocationRow& allocation) {
  const SweepSpec& sweep = sweeps_.spec_of(allocation.sweep);
  const SiteSpec& site = sweeps_.site_of(allocation.sweep);
  const LaneLimits& limits = sweep.policy.lane;
  if (!limits.checks_nodes() && site.before.empty() && site.after.empty()) return std::nullopt;
  CheckOrder order{.before = site.before, .after = site.after};
  if (!limits.checks_nodes()) return order;
  order.programs = programs_of(sweep, parts_.installation.runner.string());
  order.gemm = gemm_command(sweep, parts_.installation.runner.string());
  order.allreduce = allreduce_command(sweep, parts_.installation.runner.string());
  order.gpu_slack_bytes = static_cast<double>(sweep.policy.attempt.gpu_slack_bytes);
  order.usual_gemm = usual_speeds(world_, &ControlRow::gemm_flops);
  order.usual_clock = usual_speeds(world_, &ControlRow::sm_clock_mhz);
  order.usual_busbw = usual_speeds(world_, &ControlRow::busbw_bytes_per_s);
  order.usual_free = usual_speeds(world_, &ControlRow::host_free);
  // Slots without GPUs have made-up figures in the cluster file.
  const ClusterSpec& cluster = sweep.cluster;
  if (cluster.gpu.empty()) return order;
  order.stated_gemm = cluster.peak(Dtype::bf16).value_or(0) * cluster.gemm_efficiency;
  order.stated_busbw = cluster.inter_node_bandwidth * cluster.inter_node_efficiency;
  return order;
}

/// Exactly what is submitted; `render` prints the same.
Result<void> Acts::write_script(const AllocationRow& allocation) {
  const SweepRow* sweep = world_.sweep(allocation.sweep);
  if (sweep == nullptr)
    return fault(FaultKind::corrupt, "the database has allocation {}, but not its sweep {}",
        allocation.id, allocation.sweep);
  SHARDSWEEP_ASSIGN(const SweepContext* context, sweeps_.context_of(*sweep));
  const AllocationPaths paths{allocation.dir};
  SHARDSWEEP_ASSIGN(const TemplateValues values,
      script_values(context->spec, context->site,
          {.job_name = allocation.job_name,
              .agent = parts_.installation.agent.string(),
              .paths = paths,
              .nodes = allocation.nodes,
              .time_limit_s = allocation.time_limit_s,
              .exclude = excluded_by(world_, allocation),
              .only_node = allocation.probe_of}));
  SHARDSWEEP_ASSIGN(
      const std::string script, render_template(sweep->job_template, "the job template", values));
  return write_own_file(paths.script(), script, Readers::owner);
}

}  // namespace shardsweep
