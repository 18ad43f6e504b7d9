// SPDX-License-Identifier: Apache-2.0
// Names, bounds and reasons of every policy value.
#include <shardsweep/policy.hpp>

#include <array>

namespace shardsweep {
namespace {

constexpr double day_s = 86400;
constexpr double most_count = 1e9;

// clang-format off
const auto policy_table = std::to_array<PolicyField>({
    {"watch", "start_limit", PolicyUnit::seconds, &Policy::start_limit_s, 0.1, day_s, "a rank that has written no record by then was not started properly"},
    {"watch", "rendezvous_limit", PolicyUnit::seconds, &Policy::rendezvous_limit_s, 0.1, day_s, "ranks find each other in seconds, or one of them is missing"},
    {"watch", "init_limit", PolicyUnit::seconds, &Policy::init_limit_s, 0.1, day_s, "weights and communicators of the largest worlds take minutes"},
    {"watch", "first_step_limit", PolicyUnit::seconds, &Policy::first_step_limit_s, 0.1, day_s, "the first train step also compiles, tunes and connects"},
    {"watch", "step_limit", PolicyUnit::seconds, &Policy::step_limit_s, 0.1, day_s, "a later train step without an end is a hang"},
    {"watch", "hang_floor", PolicyUnit::seconds, &Policy::hang_floor_s, 0.1, day_s, "where flight recorders are kept: with no operation of any rank for so long a train step may be hung"},
    {"watch", "hang_factor", PolicyUnit::factor, &Policy::hang_factor, 0, 1000, "times the longest train step so far: then it is hung; 0: only step_limit counts"},
    {"watch", "evidence", PolicyUnit::seconds, &Policy::evidence_s, 0, 60, "for backtraces of hung ranks before they are ended"},
    {"watch", "gdb", PolicyUnit::seconds, &Policy::gdb_s, 0, 600, "for gdb to tell where hung ranks stand, where it is installed and may attach; 0: it is not asked"},
    {"watch", "others_cpu_limit", PolicyUnit::factor, &Policy::others_cpu_limit, 0, 1, "share of a node's CPUs that others may use during a measurement; 0: hosts are shared, nobody looks"},
    {"watch", "gpu_release", PolicyUnit::seconds, &Policy::gpu_release_s, 0, 3600, "for GPU memory to come back before an attempt starts: a driver takes seconds to take leave of a process. 0: nobody looks"},
    {"watch", "gpu_slack", PolicyUnit::bytes, &Policy::gpu_slack_bytes, 0, 1e12, "GPU memory that may be in use before an attempt: drivers keep some hundred MB for themselves"},
    {"watch", "learn_factor", PolicyUnit::factor, &Policy::learn_factor, 0, 1000, "times the longest stillness of three finished attempts of the lane: shortens start, rendezvous, init and first_step limit, never lengthens them; 0: they stay"},
    {"watch", "learn_floor", PolicyUnit::seconds, &Policy::learn_floor_s, 1, day_s, "no limit is shortened below it: a file system or a compiler may be slow once"},
    {"watch", "teardown_limit", PolicyUnit::seconds, &Policy::teardown_limit_s, 0.1, day_s, "after the result only processes have to end"},
    {"watch", "grace", PolicyUnit::seconds, &Policy::grace_s, 0, 3600, "between SIGTERM and SIGKILL: time to leave the communicators and release the GPU"},
    {"watch", "beat", PolicyUnit::seconds, &Policy::beat_s, 0.01, 60, "a line both ways between lead and node agent: silence is the only death notice"},
    {"watch", "agent_lease", PolicyUnit::seconds, &Policy::agent_lease_s, 0.1, 3600, "an agent that hears nothing for so long ends its ranks and itself"},
    {"watch", "node_lease", PolicyUnit::seconds, &Policy::node_lease_s, 0.1, 3600, "a node that says nothing for so long is a node failure"},
    {"watch", "file_beat", PolicyUnit::seconds, &Policy::file_beat_s, 0.05, 3600, "the lead's sign of life for the daemon; each is a line in a shared file"},
    {"watch", "interval", PolicyUnit::seconds, &Policy::watch_interval_s, 0.01, 60, "how often an agent looks at records and limits"},
    {"watch", "keep_log", PolicyUnit::bytes, &Policy::keep_log_bytes, 0, 1e9, "kept of each rank's output: half from its beginning, half from its end"},
    {"retry", "on_trial", PolicyUnit::count, &Policy::retry_on_trial, 0, 100, "a crash or hang that comes back is the layout's"},
    {"retry", "elsewhere", PolicyUnit::count, &Policy::retry_elsewhere, 0, 100, "infrastructure failures don't count against a trial, but must end"},
    {"retry", "failed_starts", PolicyUnit::count, &Policy::retry_failed_starts, 1, 1000, "allocations in a row that start nothing pause a sweep: what the site refuses it refuses again"},
    {"retry", "failed_nodes", PolicyUnit::count, &Policy::retry_failed_nodes, 1, 1000, "the same by nodes that fail first: others are tried, but not for ever"},
    {"node_health", "quarantine_after", PolicyUnit::count, &Policy::quarantine_after, 1, 1000, "node failures before a node is excluded: a probe lets it back in, so one is enough"},
    {"node_health", "suspect_after", PolicyUnit::count, &Policy::suspect_after, 1, 1000, "trials that failed on a node and were measured elsewhere, before it is excluded"},
    {"node_health", "layout_after", PolicyUnit::count, &Policy::layout_after, 2, 1000, "nodes that fail under one trial before the trial is to blame"},
    {"node_health", "most_out", PolicyUnit::count, &Policy::most_out, 0, 100000, "nodes excluded at once; where more fail it is no longer the nodes. 0: never exclude"},
    {"node_health", "probe_after", PolicyUnit::seconds, &Policy::probe_after_s, 1, day_s * 7, "before a node is tried again by a short run; doubled by each that fails"},
    {"node_health", "probe_limit", PolicyUnit::seconds, &Policy::probe_limit_s, 1, 3600, "a short run that is not over by then has failed"},
    {"node_health", "remember", PolicyUnit::seconds, &Policy::remember_s, 60, day_s * 365, "evidence against a node older than that counts no more"},
    {"node_health", "control_tolerance", PolicyUnit::percent, &Policy::control_tolerance, 1, 99, "by which an allocation's control may differ from the sweep's median on as many nodes: more, and what the allocation has measured is measured again elsewhere"},
    {"node_health", "network_factor", PolicyUnit::factor, &Policy::network_factor, 1.01, 1000, "times slower or faster than the sweep's median on as many nodes, the network probe of an allocation says the same of it"},
    {"node_health", "control_least", PolicyUnit::count, &Policy::control_least, 2, 1000, "controls on as many nodes before one is judged: a median of fewer says nothing"},
    {"node_health", "slow_factor", PolicyUnit::factor, &Policy::slow_node_factor, 1.01, 100, "times what its peers need for the same work a node is slow; equal GPUs differ by a few percent"},
    {"node_health", "slow_after", PolicyUnit::count, &Policy::slow_node_after, 1, 1000, "attempts in which a node was slow, beside two other nodes at least and more than those in which it was not"},
    {"node_health", "slow_nodes", PolicyUnit::slow_nodes, &Policy::slow_nodes, 0, 1, "report: they are shown; exclude: new jobs leave them out until a short run is measured on them"},
    {"limits", "max_points", PolicyUnit::count, &Policy::max_points, 1, 1e8, "a larger grid is more likely a mistake than a plan"},
    {"limits", "max_stored_left_out", PolicyUnit::count, &Policy::max_stored_left_out, 0, 1e7, "points left out that are kept one by one; the rest is counted"},
    {"limits", "max_nodes", PolicyUnit::count, &Policy::max_nodes, 0, 1e6, "nodes in use at once; 0: no limit"},
    {"limits", "max_gpu_hours", PolicyUnit::hours, &Policy::max_gpu_hours, 0, 1e9, "no attempt is started beyond it; 0: no limit"},
    {"limits", "max_allocations", PolicyUnit::count, &Policy::max_allocations, 0, 10000, "allocations side by side; 0: four on a cluster. On one machine a second would spoil the first"},
    {"limits", "max_pending", PolicyUnit::count, &Policy::max_pending, 0, 10000, "allocations that wait in the queue at once; 0: no limit of its own"},
    {"limits", "partition_share", PolicyUnit::percent, &Policy::partition_share, 1, 100, "of a partition's nodes, for all sweeps of a database together; 100%: no limit of its own"},
    {"limits", "yield", PolicyUnit::yield, &Policy::yield, 0, 2, "while jobs of others wait for a partition's nodes: never, hold (ask for no more) or drain (leave after what runs)"},
    {"lane", "length", PolicyUnit::count, &Policy::lane_length, 0, most_count, "attempts per allocation; 0: as many as there are, 1: a job per trial"},
    {"lane", "array", PolicyUnit::count, &Policy::lane_array, 1, 100000, "allocations submitted as one job array where several are wanted at once; 1: each by itself"},
    {"lane", "ahead", PolicyUnit::seconds, &Policy::lane_ahead_s, 0, day_s, "run time assigned ahead: a dead daemon costs nothing for so long"},
    {"lane", "time_margin", PolicyUnit::factor, &Policy::lane_time_margin, 1, 100, "wall time asked for over the time predicted: a prediction is no promise"},
    {"lane", "min_time", PolicyUnit::seconds, &Policy::lane_min_time_s, 60, day_s * 7, "wall time asked for at least: starting up and one slow attempt have to fit"},
    {"lane", "max_time", PolicyUnit::seconds, &Policy::lane_max_time_s, 60, day_s * 30, "wall time asked for at most: short jobs fit into gaps of the schedule"},
    {"lane", "stop_before_end", PolicyUnit::seconds, &Policy::lane_stop_before_end_s, 0, day_s, "what must be left of the wall time when an attempt ends: for cleaning up"},
    {"slurm", "look", PolicyUnit::seconds, &Policy::look_s, 0.2, 3600, "between two questions to Slurm: each costs its controller about three RPCs"},
    {"slurm", "submit_limit", PolicyUnit::seconds, &Policy::submit_limit_s, 1, 3600, "sbatch retries for two minutes by itself; after that the job is looked for"},
    {"slurm", "look_others", PolicyUnit::seconds, &Policy::look_others_s, 1, 3600, "between two questions about others' jobs, which limits.yield needs: each lists all that wait"},
    {"daemon", "tick", PolicyUnit::seconds, &Policy::tick_s, 0.01, 3600, "between two looks while something runs; beside more than 8 allocations in jobs as many times longer, up to 2.5 idle ticks"},
    {"daemon", "idle_tick", PolicyUnit::seconds, &Policy::idle_tick_s, 0.01, 3600, "between two looks for requests while nothing runs"},
    {"daemon", "lease_renew", PolicyUnit::seconds, &Policy::lease_renew_s, 0.05, 3600, "each renewal is a write to the database"},
    {"daemon", "lease_ttl", PolicyUnit::seconds, &Policy::lease_ttl_s, 0.1, 36000, "a lease not renewed for so long belongs to a dead or suspended daemon"},
    {"daemon", "claim_limit", PolicyUnit::seconds, &Policy::claim_limit_s, 0.5, day_s, "a started allocation that has not claimed by then is looked up again"},
    {"daemon", "lead_limit", PolicyUnit::seconds, &Policy::lead_limit_s, 2, day_s, "an allocation whose lead says nothing for so long is cancelled, its trial tried elsewhere; file systems may hide a line for a minute"},
    {"daemon", "query_limit", PolicyUnit::seconds, &Policy::query_limit_s, 1, 3600, "squeue, sacct, scancel: an answer later than that is none"},
    {"daemon", "stall", PolicyUnit::seconds, &Policy::stall_s, 1, day_s * 30, "a sweep that holds nodes and starts and ends nothing for so long is told of; longer than any attempt"},
    {"daemon", "blind", PolicyUnit::seconds, &Policy::blind_s, 1, day_s, "a scheduler that does not answer for so long is told of: a blind watcher must not look healthy"},
    {"lane", "idle_limit", PolicyUnit::seconds, &Policy::lane_idle_s, 0.1, day_s, "a lead with nothing assigned for so long gives its nodes back"},
    {"limits", "slow_factor", PolicyUnit::factor, &Policy::slow_factor, 0, 1e6, "times its predicted time an attempt is a timeout, though it advances; predictions miss by less than ten times; 0: only attempt_time counts"},
    {"limits", "slow_floor", PolicyUnit::seconds, &Policy::slow_floor_s, 1, day_s, "no attempt is called slow before"},
    {"limits", "attempt_time", PolicyUnit::seconds, &Policy::attempt_limit_s, 0.1, day_s * 7, "an attempt that advances but never ends is a timeout"},
});
// clang-format on

}  // namespace

std::span<const PolicyField> policy_fields() {
  return policy_table;
}

}  // namespace shardsweep
