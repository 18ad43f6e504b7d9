// SPDX-License-Identifier: Apache-2.0
// Names, bounds and meanings of every policy value.
#include <shardsweep/policy.hpp>

#include <array>

namespace shardsweep {
namespace {

constexpr double day_s = 86400;
constexpr double most_count = 1e9;

/// The value at the end of these members.
template <auto... path>
PolicyValue at(Policy& policy) {
  return &(policy.*....*path);
}

// clang-format off
const auto policy_table = std::to_array<PolicyField>({
    {"watch", "start_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::start_limit_s>, 0.1, day_s, "longest wait for a rank's first record"},
    {"watch", "rendezvous_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::rendezvous_limit_s>, 0.1, day_s, "longest time for ranks to find each other"},
    {"watch", "init_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::init_limit_s>, 0.1, day_s, "longest time to make weights and communicators; the largest worlds take minutes"},
    {"watch", "first_step_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::first_step_limit_s>, 0.1, day_s, "longest first train step; it also compiles, tunes and connects"},
    {"watch", "step_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::step_limit_s>, 0.1, day_s, "longest later train step"},
    {"watch", "hang_floor", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::hang_floor_s>, 0.1, day_s, "with flight recorders: a step may be hung after so long without an operation of any rank"},
    {"watch", "hang_factor", PolicyUnit::factor, at<&Policy::attempt, &AttemptLimits::hang_factor>, 0, 1000, "a step is hung after so many times the longest step so far; 0 leaves only step_limit"},
    {"watch", "evidence", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::evidence_s>, 0, 60, "time for backtraces of hung ranks before they end"},
    {"watch", "gdb", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::gdb_s>, 0, 600, "time for gdb to print backtraces of hung ranks; 0 does not run it"},
    {"watch", "others_cpu_limit", PolicyUnit::factor, at<&Policy::attempt, &AttemptLimits::others_cpu_limit>, 0, 1, "share of a node's CPUs that others may use during a measurement: above it the measurement is contaminated; 1 records it alone, as on hosts that are shared; 0 does not look"},
    {"watch", "container_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::container_limit_s>, 1, 86400, "longest time to make the container on a node"},
    {"watch", "gpu_release", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::gpu_release_s>, 0, 3600, "longest wait for free GPU memory before an attempt; 0 does not look"},
    {"watch", "gpu_slack", PolicyUnit::bytes, at<&Policy::attempt, &AttemptLimits::gpu_slack_bytes>, 0, 1e12, "GPU memory that may be in use before an attempt; drivers keep some hundred MB"},
    {"watch", "learn_factor", PolicyUnit::factor, at<&Policy::attempt, &AttemptLimits::learn_factor>, 0, 1000, "the limits shrink to so many times the longest pause of three finished attempts of a lane; 0 keeps them"},
    {"watch", "learn_floor", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::learn_floor_s>, 1, day_s, "no limit shrinks below this"},
    {"watch", "teardown_limit", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::teardown_limit_s>, 0.1, day_s, "longest time for processes to end after the result"},
    {"watch", "grace", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::grace_s>, 0, 3600, "time between SIGTERM and SIGKILL"},
    {"watch", "beat", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::beat_s>, 0.01, 60, "interval of a sign of life between lead and node agent"},
    {"watch", "agent_lease", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::agent_lease_s>, 0.1, 3600, "an agent that hears nothing for so long ends its ranks and itself"},
    {"watch", "node_lease", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::node_lease_s>, 0.1, 3600, "a node that is silent for so long has failed"},
    {"watch", "file_beat", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::file_beat_s>, 0.05, 3600, "interval of the lead's sign of life for the daemon; each is a line in a shared file"},
    {"watch", "interval", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::watch_interval_s>, 0.01, 60, "interval at which an agent checks records and limits"},
    {"watch", "keep_log", PolicyUnit::bytes, at<&Policy::attempt, &AttemptLimits::keep_log_bytes>, 0, 1e9, "size kept of each rank's output: half from its beginning, half from its end"},
    {"watch", "log_limit", PolicyUnit::bytes, at<&Policy::attempt, &AttemptLimits::log_limit_bytes>, 0, 1e12, "most that one rank may print before the attempt ends; 0 sets no limit"},
    {"watch", "file_limit", PolicyUnit::bytes, at<&Policy::attempt, &AttemptLimits::file_limit_bytes>, 0, 1e15, "largest file that a rank may write, also in shared memory; 0 sets no limit"},
    {"retry", "on_trial", PolicyUnit::count, at<&Policy::retry_on_trial>, 0, 100, "times that a crash or a hang is tried again"},
    {"retry", "elsewhere", PolicyUnit::count, at<&Policy::retry_elsewhere>, 0, 100, "times that a failure of infrastructure, or what the end of its job cut off early, is tried again"},
    {"retry", "fragmented", PolicyUnit::count, at<&Policy::retry_fragmented>, 0, 1, "1: out of memory by fragmentation is tried again with expandable_segments:True; 0: it is not"},
    {"retry", "failed_starts", PolicyUnit::count, at<&Policy::retry_failed_starts>, 1, 1000, "allocations in a row that start nothing, or die with all that they started, before the sweep pauses"},
    {"retry", "failed_nodes", PolicyUnit::count, at<&Policy::retry_failed_nodes>, 1, 1000, "the same, where the nodes failed first"},
    {"node_health", "quarantine_after", PolicyUnit::count, at<&Policy::quarantine_after>, 1, 1000, "failures before a node is excluded; a short run lets it back in"},
    {"node_health", "suspect_after", PolicyUnit::count, at<&Policy::suspect_after>, 1, 1000, "trials that failed on a node and ran elsewhere, or jobs that started nothing on it, before it is excluded"},
    {"node_health", "layout_after", PolicyUnit::count, at<&Policy::layout_after>, 2, 1000, "nodes that fail under one trial before the trial is to blame"},
    {"node_health", "most_out", PolicyUnit::count, at<&Policy::most_out>, 0, 100000, "most nodes excluded at once; 0 excludes none"},
    {"node_health", "probe_after", PolicyUnit::seconds, at<&Policy::probe_after_s>, 1, day_s * 7, "time before an excluded node is tried by a short run; doubled by each failure"},
    {"node_health", "probe_limit", PolicyUnit::seconds, at<&Policy::probe_limit_s>, 1, 3600, "longest such run"},
    {"node_health", "remember", PolicyUnit::seconds, at<&Policy::remember_s>, 60, day_s * 365, "age at which evidence against a node expires"},
    {"node_health", "control_tolerance", PolicyUnit::percent, at<&Policy::control_tolerance>, 1, 99, "most that an allocation's control may differ from the sweep's median"},
    {"node_health", "network_factor", PolicyUnit::factor, at<&Policy::network_factor>, 1.01, 1000, "most times that a network probe may be slower or faster than the median"},
    {"node_health", "control_least", PolicyUnit::count, at<&Policy::control_least>, 2, 1000, "controls on as many nodes before one is judged"},
    {"node_health", "slow_factor", PolicyUnit::factor, at<&Policy::slow_node_factor>, 1.01, 100, "a node is slow from so many times its peers' time for the same work"},
    {"node_health", "slow_after", PolicyUnit::count, at<&Policy::slow_node_after>, 1, 1000, "attempts in which a node was slow, before it is reported"},
    {"node_health", "slow_nodes", PolicyUnit::slow_nodes, at<&Policy::slow_nodes>, 0, 1, "report shows slow nodes; exclude leaves them out of new jobs"},
    {"check", "home", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::check_home_s>, 0, 3600, "the first act of an allocation, on each node: the database's folder is written, read and removed from within this time; 0 does not check it"},
    {"check", "memory", PolicyUnit::factor, at<&Policy::lane, &LaneLimits::check_memory>, 0, 1, "the same: least free memory of the host, as a share of what is free on the median of nodes with the same device (of all of it, with fewer than three), and no more GPU memory in use than watch.gpu_slack; 0 does not check it"},
    {"check", "gemm", PolicyUnit::factor, at<&Policy::lane, &LaneLimits::check_gemm>, 0, 1, "the same: least speed of shardbench's matrix products, as a share of the median of nodes with the same device; 0 does not check it"},
    {"check", "clocks", PolicyUnit::factor, at<&Policy::lane, &LaneLimits::check_clocks>, 0, 1, "the same: least clock of a GPU meanwhile, as a share of that median; errors of its memory and a slowdown by its hardware fail too; 0 does not check it"},
    {"check", "allreduce", PolicyUnit::factor, at<&Policy::lane, &LaneLimits::check_allreduce>, 0, 1, "the same: least bandwidth of shardbench's all-reduce between a node and the better of two others, as a share of that median; 0 does not check it"},
    {"check", "limit", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::check_limit_s>, 1, 3600, "longest time for these on all nodes, and again for each round of all-reduces; a node that has not answered then has failed"},
    {"check", "hook", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::check_hook_s>, 1, 3600, "longest time for each line of the site file's 'before' and 'after'"},
    {"limits", "max_points", PolicyUnit::count, at<&Policy::max_points>, 1, 1e8, "largest grid; a larger one is probably a mistake"},
    {"limits", "max_stored_left_out", PolicyUnit::count, at<&Policy::max_stored_left_out>, 0, 1e7, "points left out that are stored one by one; the rest is counted"},
    {"limits", "max_nodes", PolicyUnit::count, at<&Policy::max_nodes>, 0, 1e6, "most nodes in use at once; 0 sets no limit"},
    {"limits", "max_gpu_hours", PolicyUnit::hours, at<&Policy::max_gpu_hours>, 0, 1e9, "nothing is assigned beyond this; a trial that was assigned ahead may still start; 0 sets no limit"},
    {"limits", "max_allocations", PolicyUnit::count, at<&Policy::max_allocations>, 0, 10000, "most allocations at once; 0 means four on a cluster, one on this machine"},
    {"limits", "max_pending", PolicyUnit::count, at<&Policy::max_pending>, 0, 10000, "most allocations waiting in the queue; 0 sets no limit"},
    {"limits", "partition_share", PolicyUnit::percent, at<&Policy::partition_share>, 1, 100, "most of a partition's nodes, for all sweeps of a database; 100% sets no limit"},
    {"limits", "yield", PolicyUnit::yield, at<&Policy::yield>, 0, 2, "while others wait for nodes: never changes nothing, hold asks for no more, drain also leaves after the present attempt"},
    {"lane", "length", PolicyUnit::count, at<&Policy::lane_length>, 0, most_count, "attempts per allocation; 0 means as many as there are, 1 a job per trial"},
    {"lane", "array", PolicyUnit::count, at<&Policy::lane_array>, 1, 100000, "allocations submitted as one job array; 1 submits each by itself"},
    {"lane", "ahead", PolicyUnit::seconds, at<&Policy::lane_ahead_s>, 0, day_s, "most run time assigned ahead; jobs go on so long without a daemon"},
    {"lane", "time_margin", PolicyUnit::factor, at<&Policy::lane, &LaneLimits::time_margin>, 1, 100, "wall time asked for, as a multiple of the predicted time"},
    {"lane", "min_time", PolicyUnit::seconds, at<&Policy::lane_min_time_s>, 60, day_s * 7, "least wall time asked for"},
    {"lane", "max_time", PolicyUnit::seconds, at<&Policy::lane_max_time_s>, 60, day_s * 30, "most wall time asked for; short jobs fit into gaps of the schedule"},
    {"lane", "stop_before_end", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::stop_before_end_s>, 0, day_s, "wall time that must remain when an attempt ends"},
    {"slurm", "look", PolicyUnit::seconds, at<&Policy::look_s>, 0.2, 3600, "interval between questions to Slurm; each costs about three RPCs"},
    {"slurm", "submit_limit", PolicyUnit::seconds, at<&Policy::submit_limit_s>, 1, 3600, "longest wait for sbatch; then the job is looked for"},
    {"slurm", "agents_limit", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::agents_limit_s>, 1, day_s, "longest wait of a job for its node agents; a node's prolog may take minutes"},
    {"slurm", "look_others", PolicyUnit::seconds, at<&Policy::look_others_s>, 1, 3600, "interval between questions about others' jobs, for limits.yield"},
    {"daemon", "tick", PolicyUnit::seconds, at<&Policy::tick_s>, 0.01, 3600, "interval of the daemon while something runs; longer with more than 8 jobs"},
    {"daemon", "idle_tick", PolicyUnit::seconds, at<&Policy::idle_tick_s>, 0.01, 3600, "interval of the daemon while nothing runs"},
    {"daemon", "lease_renew", PolicyUnit::seconds, at<&Policy::lease_renew_s>, 0.05, 3600, "interval at which the daemon renews its lease; each is a write"},
    {"daemon", "lease_ttl", PolicyUnit::seconds, at<&Policy::lease_ttl_s>, 0.1, 36000, "a lease that was not renewed for so long is free"},
    {"daemon", "claim_limit", PolicyUnit::seconds, at<&Policy::claim_limit_s>, 0.5, day_s, "longest wait for a started allocation to claim its work; a prolog may take minutes"},
    {"daemon", "lead_limit", PolicyUnit::seconds, at<&Policy::lead_limit_s>, 2, day_s, "an allocation whose lead is silent for so long is cancelled"},
    {"daemon", "file_delay", PolicyUnit::seconds, at<&Policy::file_delay_s>, 0, 3600, "on a network file system: time until a file shows what another host has written"},
    {"daemon", "records_limit", PolicyUnit::seconds, at<&Policy::records_limit_s>, 0.1, 3600, "records and lines of a lead that can't be read are tried again for so long; then their trial is lost"},
    {"daemon", "query_limit", PolicyUnit::seconds, at<&Policy::query_limit_s>, 1, 3600, "longest wait for squeue, sacct and scancel"},
    {"daemon", "stall", PolicyUnit::seconds, at<&Policy::stall_s>, 1, day_s * 30, "a sweep that holds nodes without starting or ending an attempt for so long is reported"},
    {"daemon", "blind", PolicyUnit::seconds, at<&Policy::blind_s>, 1, day_s, "a scheduler that does not answer for so long is reported"},
    {"lane", "idle_limit", PolicyUnit::seconds, at<&Policy::lane, &LaneLimits::idle_limit_s>, 0.1, day_s, "a lead without work for so long returns its nodes"},
    {"limits", "slow_factor", PolicyUnit::factor, at<&Policy::slow_factor>, 0, 1e6, "an attempt is a timeout after so many times its predicted time; 0 leaves only attempt_time"},
    {"limits", "slow_floor", PolicyUnit::seconds, at<&Policy::slow_floor_s>, 1, day_s, "slow_factor ends no attempt before this"},
    {"limits", "attempt_time", PolicyUnit::seconds, at<&Policy::attempt, &AttemptLimits::attempt_limit_s>, 0.1, day_s * 7, "longest attempt"},
});
// clang-format on

}  // namespace

std::span<const PolicyField> policy_fields() {
  return policy_table;
}

}  // namespace shardsweep
