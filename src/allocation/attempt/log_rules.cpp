// SPDX-License-Identifier: Apache-2.0
// Decision: Output of ranks is read after they have ended, within bounds, with patterns of
// plain text and `*`. Logs are foreign, and a regular expression can run for ever.
#include "attempt/log_rules.hpp"

#include "attempt/fragmentation.hpp"
#include "attempt/pattern.hpp"
#include "text/characters.hpp"

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

using enum Outcome;
using enum Strength;
using enum LineSource;

// A longer line is a dump: what it means stands at its beginning.
constexpr std::size_t looked_at = 4096;

// What each says, and where it was seen: tests/data/cases/logs holds a log for each name.
// clang-format off
constexpr std::array rule_table{
    // Hardware, before whatever the driver says in its wake.
    BuiltInRule{"gpu-ecc", cuda, "ncorrectable ECC error", node_failure, cause},
    BuiltInRule{"gpu-nvlink", cuda, "ncorrectable NVLink error", node_failure, cause},
    BuiltInRule{"gpu-xid", system, "NVRM: Xid (", node_failure, cause},
    BuiltInRule{"gpu-fell-off", system, "GPU has fallen off the bus", node_failure, cause},
    BuiltInRule{"gpu-lost", system, "GPU is lost", node_failure, cause},
    BuiltInRule{"gpu-requires-reset", system, "GPU requires reset", node_failure, cause},
    BuiltInRule{"gpu-hardware-stack", cuda, "CUDA error: hardware stack error", node_failure, cause},
    BuiltInRule{"gpu-busy", cuda, "CUDA-capable device(s) is/are busy or unavailable", node_failure, cause},
    BuiltInRule{"gpu-absent", cuda, "no CUDA-capable device is detected", node_failure, cause},
    BuiltInRule{"gpu-none", torch, "No CUDA GPUs are available", node_failure, cause},
    BuiltInRule{"gpu-fabric", cuda, "CUDA error: system not yet initialized", node_failure, cause},
    BuiltInRule{"gpu-driver-mismatch", system, "Driver/library version mismatch", node_failure, exception},
    BuiltInRule{"gpu-driver-old", cuda, "CUDA driver version is insufficient for CUDA runtime version", node_failure, cause},
    BuiltInRule{"shm-full", nccl, "Error while creating shared memory segment", node_failure, cause},
    BuiltInRule{"disk-full", system, "No space left on device", node_failure, exception},
    BuiltInRule{"file-system-read-only", system, "Read-only file system", node_failure, exception},
    BuiltInRule{"file-system-gone", system, "Stale file handle", node_failure, exception},
    BuiltInRule{"file-system-not-connected", system, "Transport endpoint is not connected", node_failure, symptom},
    // Memory. A size that no machine has is what a failed collective left in a tensor.
    BuiltInRule{"oom-of-nonsense-size", torch, "out of memory*Tried to allocate more than 1EB", comm_error, cause},
    BuiltInRule{"torch-oom", torch, "OutOfMemoryError: CUDA out of memory", oom, cause},
    BuiltInRule{"torch-oom-old", torch, "RuntimeError: CUDA out of memory", oom, cause},
    BuiltInRule{"hip-oom", torch, "HIP out of memory", oom, cause},
    BuiltInRule{"cuda-oom", cuda, "CUDA error: out of memory", oom, cause},
    BuiltInRule{"cuda-oom-name", cuda, "cudaErrorMemoryAllocation", oom, cause},
    BuiltInRule{"cuda-driver-oom", cuda, "CUDA_ERROR_OUT_OF_MEMORY", oom, cause},
    BuiltInRule{"nccl-oom", nccl, "NCCL WARN*Cuda failure*out of memory", oom, cause},
    BuiltInRule{"cublas-alloc", cuda, "CUBLAS_STATUS_ALLOC_FAILED", oom, cause},
    BuiltInRule{"cudnn-alloc", cuda, "CUDNN_STATUS_ALLOC_FAILED", oom, cause},
    BuiltInRule{"host-oom-torch", torch, "DefaultCPUAllocator: *memory", oom, cause},
    BuiltInRule{"host-oom-cpp", system, "std::bad_alloc", oom, cause},
    BuiltInRule{"host-oom-fork", system, "Cannot allocate memory", oom, exception},
    BuiltInRule{"slurm-oom-kill", slurm, "slurmstepd: error: Detected * oom", oom, cause},
    BuiltInRule{"slurm-oom-limit", slurm, "slurmstepd: error: *xceeded*memory limit", oom, cause},
    BuiltInRule{"slurm-oom-task", slurm, "srun: error: *: task*: Out Of Memory", oom, cause},
    // What the layout asks of a kernel, and is no memory: bench_cluster filed the first as oom.
    BuiltInRule{"illegal-access", cuda, "an illegal memory access was encountered", crashed, cause},
    BuiltInRule{"illegal-instruction", cuda, "an illegal instruction was encountered", crashed, cause},
    BuiltInRule{"misaligned-address", cuda, "misaligned address", crashed, cause},
    BuiltInRule{"device-assert", cuda, "device-side assert triggered", crashed, cause},
    BuiltInRule{"launch-failure", cuda, "unspecified launch failure", crashed, cause},
    BuiltInRule{"invalid-configuration", cuda, "CUDA error: invalid configuration argument", crashed, cause},
    BuiltInRule{"no-kernel-image", cuda, "no kernel image is available for execution on the device", rejected, cause},
    BuiltInRule{"cublas-failed", cuda, "CUBLAS_STATUS_EXECUTION_FAILED", crashed, cause},
    BuiltInRule{"glibc-corruption", system, "malloc(): ", crashed, cause},
    BuiltInRule{"glibc-double-free", system, "double free or corruption", crashed, cause},
    // Communication.
    BuiltInRule{"nccl-watchdog", nccl, "Watchdog caught collective operation timeout", comm_error, cause},
    BuiltInRule{"nccl-heartbeat", nccl, "ProcessGroupNCCL's watchdog got stuck", comm_error, cause},
    BuiltInRule{"nccl-ib-completion", nccl, "NCCL WARN*Got completion from peer*with status=", comm_error, cause},
    BuiltInRule{"nccl-ib-call", nccl, "NCCL WARN Call to ibv_", comm_error, cause},
    BuiltInRule{"nccl-mismatch", nccl, "NCCL WARN*Mismatched", crashed, cause},
    BuiltInRule{"gloo-timeout", torch, "gloo/transport/*Timed out waiting", comm_error, cause},
    BuiltInRule{"store-clients-timeout", torch, "Timed out after * seconds waiting for clients", comm_error, cause},
    BuiltInRule{"port-in-use", torch, "The server socket has failed to listen on any local network address", comm_error, cause},
    BuiltInRule{"nccl-system", nccl, "ncclSystemError: ", comm_error, exception},
    BuiltInRule{"nccl-internal", nccl, "ncclInternalError: ", comm_error, exception},
    BuiltInRule{"nccl-remote", nccl, "ncclRemoteError: ", comm_error, symptom},
    BuiltInRule{"nccl-failed", nccl, "Some NCCL operations have failed or timed out", comm_error, symptom},
    BuiltInRule{"nccl-unhandled-cuda", nccl, "ncclUnhandledCudaError: ", crashed, symptom},
    BuiltInRule{"dist-network", torch, "DistNetworkError: ", comm_error, symptom},
    BuiltInRule{"dist-store", torch, "DistStoreError: ", comm_error, symptom},
    BuiltInRule{"dist-backend", torch, "DistBackendError: ", comm_error, symptom},
    BuiltInRule{"connection-reset", system, "Connection reset by peer", comm_error, symptom},
    BuiltInRule{"connection-closed", system, "Connection closed by remote peer", comm_error, symptom},
    BuiltInRule{"connection-closed-peer", system, "Connection closed by peer", comm_error, symptom},
    BuiltInRule{"connection-refused", system, "Connection refused", comm_error, symptom},
    BuiltInRule{"broken-pipe", system, "Broken pipe", comm_error, symptom},
    // What Slurm says in the log of a job or step.
    BuiltInRule{"slurm-time-limit", slurm, "CANCELLED AT * DUE TO TIME LIMIT", timeout, cause},
    BuiltInRule{"slurm-node-failure", slurm, "CANCELLED AT * DUE TO NODE FAILURE", node_failure, cause},
    BuiltInRule{"srun-node-failure", slurm, "srun: error: Node failure on ", node_failure, cause},
    BuiltInRule{"slurm-preemption", slurm, "CANCELLED AT * DUE TO PREEMPTION", preempted, cause},
    BuiltInRule{"slurm-cancelled", slurm, "slurmstepd: error: *** * CANCELLED AT ", reaped, symptom},
    // What the trainer refuses: the same on every node and at every try.
    BuiltInRule{"not-divisible", trainer, "Error: *divisible by", rejected, exception},
    BuiltInRule{"not-equal-world", trainer, "Error: *orld size*equal", rejected, exception},
    BuiltInRule{"module-missing", trainer, "ModuleNotFoundError: ", rejected, exception},
    BuiltInRule{"import-failed", trainer, "ImportError: ", rejected, exception},
    BuiltInRule{"syntax", trainer, "SyntaxError: ", rejected, exception},
    BuiltInRule{"unknown-flag", trainer, "error: unrecognized arguments: ", rejected, exception},
    BuiltInRule{"wrong-flag-value", trainer, "error: argument *: invalid ", rejected, exception},
    BuiltInRule{"flag-missing", trainer, "error: the following arguments are required: ", rejected, exception},
    BuiltInRule{"library-missing", system, "error while loading shared libraries: ", rejected, exception},
    BuiltInRule{"not-a-number", trainer, "loss is nan", crashed, exception},
    BuiltInRule{"nanotron-nan", trainer, "Loss is NaN or Inf", crashed, exception},
    BuiltInRule{"megatron-nan", trainer, "found NaN in local", crashed, exception},
};
// clang-format on

/// Takes the next line off `text`. A progress bar's lines end with a carriage return.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_of("\n\r"), text.size());
  const std::string_view line = text.substr(0, std::min(end, looked_at));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

const BuiltInRule* built_in_for(std::string_view line) {
  const auto rule = std::find_if(rule_table.begin(), rule_table.end(),
      [line](const BuiltInRule& one) { return matches(line, one.pattern); });
  return rule == rule_table.end() ? nullptr : &*rule;
}

std::optional<LogFinding> find_own(std::string_view text, std::span<const LogRule> own) {
  if (own.empty()) return std::nullopt;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    if (const LogRule* rule = own_rule_for(line, own))
      return LogFinding{rule->name, rule->outcome, cause, one_line(line, longest_quote), true};
  }
  return std::nullopt;
}

}  // namespace

std::span<const BuiltInRule> built_in_rules() {
  return rule_table;
}

const LogRule* own_rule_for(std::string_view line, std::span<const LogRule> own) {
  const auto rule = std::find_if(own.begin(), own.end(),
      [line](const LogRule& one) { return matches(line.substr(0, looked_at), one.pattern); });
  return rule == own.end() ? nullptr : &*rule;
}

std::optional<LogFinding> find_cause(std::string_view text, std::span<const LogRule> own) {
  if (auto finding = find_own(text, own)) return finding;
  std::optional<LogFinding> best;
  while (!text.empty()) {
    const std::string_view line = next_line(text);
    const BuiltInRule* rule = built_in_for(line);
    if (rule == nullptr) continue;
    LogFinding finding{
        std::string(rule->name), rule->outcome, rule->strength, one_line(line, longest_quote)};
    if (const auto pieces = rule->outcome == oom ? fragmentation_in(line) : std::nullopt)
      finding.fragmentation = describe(*pieces);
    if (rule->strength == cause) return finding;
    const bool better = !best || rule->strength < best->strength ||
        (rule->strength == exception && best->strength == exception);
    if (better) best = std::move(finding);
  }
  return best;
}

}  // namespace shardsweep
