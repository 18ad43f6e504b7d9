// SPDX-License-Identifier: Apache-2.0
// Node inspection: what /proc says about processes, and the one safe way to end a process that
// is nobody's child here: by pidfd, after its start time was compared.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The variable by which a rank, and whatever it starts, is known: `<token>/<attempt>/<node>`.
inline constexpr std::string_view marker_variable = "SHARDSWEEP_MARKER";
/// Variable that marks guard and node agent: `<token>/agent/<node>`.
inline constexpr std::string_view agent_variable = "SHARDSWEEP_AGENT";

struct ProcessEntry {
  pid_t pid = 0;
  std::int64_t start = 0;  ///< field 22 of /proc/PID/stat; pid and start name a process for ever
  std::string cmdline;     ///< arguments with spaces in between, at most 200 bytes
};

struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  std::int64_t start = 0;
};
/// Empty if there is no such process.
[[nodiscard]] std::optional<ProcessStat> process_stat(pid_t pid);
/// "[name]" where it has no arguments (any more).
[[nodiscard]] std::string process_cmdline(pid_t pid);
/// Command-line words, unchanged; empty if they can't be read.
[[nodiscard]] std::vector<std::string> process_arguments(pid_t pid);
/// Environment that the program was started with; empty if it can't be read.
[[nodiscard]] std::string process_environment(pid_t pid);
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);
/// Children, their children and so on: parents first. Zombies are among them.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t pid);

/// NVIDIA's driver is loaded on this node.
[[nodiscard]] bool has_gpus();

struct MarkedProcesses {
  std::vector<ProcessEntry> found;
  int unreadable = 0;  ///< other users' processes, which may still be ours
};
/// Every process but the caller whose marker (or agent variable) `fits`. Zombies don't count.
[[nodiscard]] MarkedProcesses find_marked(const std::function<bool(std::string_view marker)>& fits);

struct MarkedProcess {
  ProcessEntry process;
  std::string marker;
  bool in_step = false;  ///< true if a living slurmstepd is an ancestor
};
/// Every process of this user with a marker or the agents' variable, but the caller.
[[nodiscard]] std::vector<MarkedProcess> marked_processes();

/// Processes of this user.
[[nodiscard]] std::vector<pid_t> own_processes();

/// The number by which squeue and scancel know a job, from the variables SLURM_JOB_ID,
/// SLURM_ARRAY_JOB_ID and SLURM_ARRAY_TASK_ID: an element of an array is "12_4".
[[nodiscard]] std::string job_id_of(
    std::string_view job, std::string_view array, std::string_view task);

struct JobProcess {
  ProcessEntry process;
  std::string job;       ///< job_id_of its environment
  std::string cluster;   ///< SLURM_CLUSTER_NAME, which may be empty: numbers are a cluster's own
  bool in_step = false;  ///< see MarkedProcess
};
/// Every process of this user with a SLURM_JOB_ID and without a marker or the agents' variable,
/// but the caller.
[[nodiscard]] std::vector<JobProcess> job_processes();

/// SIGTERM (and SIGCONT: a stopped process takes it only then), `grace_ms` in all to leave by
/// themselves, then SIGKILL. Those that are not gone `wait_ms` after that: state D.
[[nodiscard]] std::vector<ProcessEntry> end_processes(
    const std::vector<ProcessEntry>& processes, int grace_ms, int wait_ms);

/// SIGKILL, then waits at most `wait_ms` for its end. True when that process is gone.
[[nodiscard]] bool end_process(const ProcessEntry& process, int wait_ms);

/// A JSON line: {pid, cmdline, ended}.
[[nodiscard]] std::string encode(const ProcessEntry& process, bool ended);

}  // namespace shardsweep
