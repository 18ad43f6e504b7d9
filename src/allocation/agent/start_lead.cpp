// SPDX-License-Identifier: Apache-2.0
#include "agent/start_lead.hpp"

#include "agent/lead.hpp"
#include "agent/reap.hpp"
#include "machine/host_name.hpp"
#include "machine/processes.hpp"
#include "rundir/claim.hpp"

#include <shardsweep/fail_point.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace shardsweep::agent {
namespace {

constexpr int exit_failed = 1;
constexpr const char* local_node = "local";

Environment own_environment(const AllocationSpec& spec) {
  Environment entries = current_environment();
  entries.push_back(std::string(agent_variable) + "=" + spec.token + "/agent");
  return entries;
}

Result<PipedChild> start_nodes(const AllocationSpec& spec) {
  SHARDSWEEP_ASSIGN(const std::string program, own_program());
  const Environment own = own_environment(spec);
  if (spec.launch == LaunchMode::agents) {
    SHARDSWEEP_ASSIGN(const std::string srun, find_program("srun", own));
    return start_piped(
        srun_command(srun, spec, node_command(program, spec, "")), srun_environment(own));
  }
  // One node agent here, for the step of every attempt. The ledger knows nodes by Slurm's
  // names.
  if (spec.launch == LaunchMode::srun) {
    const std::string node = value_in(own, "SLURMD_NODENAME").value_or(local_node);
    return start_piped(node_command(program, spec, node), own);
  }
  if (spec.launch != LaunchMode::local || spec.nodes != 1)
    return fault(FaultKind::invalid_input,
        "launch '" + std::string(word_of(spec.launch)) + "' can't have " +
            std::to_string(spec.nodes) + " nodes");
  return start_piped(node_command(program, spec, local_node), own);
}

/// As squeue and scancel name it; empty outside of Slurm.
std::string own_job_id() {
  const auto value = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
  };
  return job_id_of(
      value("SLURM_JOB_ID"), value("SLURM_ARRAY_JOB_ID"), value("SLURM_ARRAY_TASK_ID"));
}

Claimed claimed_by_us(const AllocationSpec& spec, const std::string& claim) {
  Claimed claimed;
  claimed.token = spec.token;
  claimed.claim = claim;
  claimed.host = host_name();
  claimed.pid = ::getpid();
  claimed.pid_start = process_stat(::getpid()).value_or(ProcessStat{}).start;
  claimed.job_id = own_job_id();
  if (spec.launch != LaunchMode::local)
    claimed.node = value_in(current_environment(), "SLURMD_NODENAME").value_or("");
  return claimed;
}

/// Slurm starts a job again in spite of --no-requeue where an administrator requeues it.
bool is_restarted() {
  const char* count = std::getenv("SLURM_RESTART_COUNT");
  return count != nullptr && std::atoi(count) > 0;
}

Result<int> claim_and_run(const AllocationPaths& paths, const Clock& clock, const Log& log) {
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(paths.spec()));
  SHARDSWEEP_ASSIGN(const AllocationSpec spec, decode_allocation_spec(text));
  SHARDSWEEP_ASSIGN(const std::string nonce, random_nonce());
  SHARDSWEEP_ASSIGN(const bool won, claim_allocation(paths, nonce));
  if (!won) {
    log.line("another lead has claimed this allocation");
    return exit_not_claimed;
  }
  SHARDSWEEP_ASSIGN(LineWriter from_lead, LineWriter::open(paths.from_lead()));
  SHARDSWEEP_ASSIGN(PipedChild nodes, start_nodes(spec));
  // A daemon on this machine may have been started within a job that is none of its leads'.
  JobEnd job_end(spec.launch == LaunchMode::local ? Environment{} : own_environment(spec));
  Lead lead(paths, spec, std::move(from_lead), clock, std::move(nodes), std::move(job_end));
  fail_point("lead.claimed");
  lead.say_claimed(claimed_by_us(spec, nonce));
  fail_point("lead.claimed_written");
  return lead.run();
}

}  // namespace

int run_lead(const std::string& dir, const Clock& clock) {
  block_signals();
  // With kill -9 of guard and node agent at once, what they watched comes here.
  become_subreaper();
  const Log log(clock, "lead");
  if (is_restarted()) {
    log.line("this job was started before: the daemon decides about retries");
    return exit_not_claimed;
  }
  const auto code = claim_and_run(AllocationPaths{dir}, clock, log);
  if (code) return *code;
  log.line(code.error().what);
  return exit_failed;
}

}  // namespace shardsweep::agent
