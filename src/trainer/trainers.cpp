// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainers.hpp"

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

constexpr auto keys = std::to_array<LogKey>({
    {"iteration", "number of the train step; begins a new one"},
    {"step_ms", "time of a train step in ms"},
    {"step_s", "time of a train step in s"},
    {"steps_per_s", "train steps per second"},
    {"samples_per_s", "samples per second of all GPUs"},
    {"tokens_per_s", "tokens per second of all GPUs"},
    {"tokens_per_s_per_gpu", "tokens per second of a GPU"},
    {"tflops_per_gpu", "TFLOP/s of a GPU, as the trainer counts them"},
    {"loss", "loss of the train step, nat per token"},
    {"skipped", "train steps that changed no weight"},
    {"skipped_total", "the same, counted since the start"},
    {"nans", "train steps whose loss was no number"},
    {"global_batch", "samples per train step"},
    {"tokens_per_step", "tokens per train step"},
    {"seq_len", "tokens per sample"},
    {"vocab", "entries of the vocabulary"},
    {"gpus", "ranks of the run"},
    {"dp", "data parallel degree"},
    {"tp", "tensor parallel degree"},
    {"pp", "pipeline stages"},
    {"cp", "context parallel degree"},
    {"micro_batch", "samples per micro-batch"},
    {"parameters", "parameters of one model parallel rank"},
    {"allocated_mib", "largest memory that tensors had, MiB"},
    {"allocated_gib", "the same in GiB"},
    {"allocated_gb", "the same in GB of 10^9 bytes"},
    {"reserved_mib", "largest memory that the allocator held, MiB"},
    {"reserved_gib", "the same in GiB"},
    {"reserved_gb", "the same in GB of 10^9 bytes"},
});

// One line per train step; the rest of it is optional and differs between versions. The dump of
// the arguments before the first one gives what the line leaves out.
constexpr auto megatron = std::to_array<std::string_view>({
    "iteration {iteration}/",
    "elapsed time per iteration (ms): {step_ms}",
    "throughput per GPU (TFLOP/s/GPU): {tflops_per_gpu}",
    "| global batch size: {global_batch}",
    "| lm loss: {loss}",
    "number of skipped iterations: {skipped}",
    "number of nan iterations: {nans}",
    "using world size: {gpus}, data-parallel size: {dp}",
    "tensor-model-parallel size: {tp}",
    " pipeline-model-parallel size: {pp}",
    " context-parallel size: {cp}",
    " seq_length ..* {seq_len}",
    " micro_batch_size ..* {micro_batch}",
    " padded_vocab_size ..* {vocab}",
    " > number of parameters on (tensor, *) model parallel rank (*): {parameters}",
    "memory (MB) |*| max allocated: {allocated_mib}",
    "memory (MB) |*| max reserved: {reserved_mib}",
});

constexpr auto bridge = std::to_array<std::string_view>({
    "iteration {iteration}/",
    "elapsed time per iteration (ms): {step_ms}",
    "throughput per GPU (TFLOP/s/GPU): {tflops_per_gpu}",
    "| global batch size: {global_batch}",
    "| lm loss: {loss}",
    "number of skipped iterations: {skipped}",
    "number of nan iterations: {nans}",
    "memory (GB) |*mem-max-allocated-gigabytes: {allocated_gb}",
    "memory (GB) |*mem-max-reserved-gigabytes: {reserved_gb}",
});

constexpr auto nemo = std::to_array<std::string_view>({
    "Training epoch *, iteration {iteration}/",
    "train_step_timing in s: {step_s}",
    "reduced_train_loss: {loss}",
    "| global_batch_size: {global_batch}",
    "TFLOPS_per_GPU: {tflops_per_gpu}",
});

constexpr auto nanotron = std::to_array<std::string_view>({
    "iteration: {iteration} /",
    "time_per_iteration_ms: {step_ms:human}",
    "tokens_per_sec: {tokens_per_s:human}",
    "tokens_per_sec_per_gpu: {tokens_per_s_per_gpu:human}",
    "| global_batch_size: {tokens_per_step:human}",
    "| lm_loss: {loss:human}",
    "model_tflops_per_gpu: {tflops_per_gpu:human}",
    "Memory usage: * Peak allocated {allocated_mib}MiB",
    "Memory usage: * Peak reserved: {reserved_mib}MiB",
});

constexpr auto torchtitan = std::to_array<std::string_view>({
    "step: {iteration}  loss:",
    "  loss: {loss}",
    "  memory: {reserved_gib}GiB(",
    "  tps: {tokens_per_s_per_gpu}",
    "  tflops: {tflops_per_gpu}",
    "tokens per DP rank, {tokens_per_step} tokens per train step",
});

constexpr auto deepspeed = std::to_array<std::string_view>({
    "steps: {iteration} loss: {loss} iter time (s): {step_s} samples/sec:",
    "/global_step={iteration}, RunningAvgSamplesPerSec=*, CurrSamplesPerSec={samples_per_s}",
    ", MaxMemAllocated={allocated_gib}GB",
    "] step=*, skipped={skipped_total}, lr=",
    "Max_MA {allocated_gib} GB",
    "Max_CA {reserved_gib} GB",
    " train_batch_size ..* {global_batch}",
    " train_micro_batch_size_per_gpu ..* {micro_batch}",
    " world_size ..* {gpus}",
});

constexpr auto gpt_neox = std::to_array<std::string_view>({
    "| iteration {iteration}/",
    "elapsed time per iteration (ms): {step_ms}",
    "samples/sec: {samples_per_s}",
    "approx flops per GPU: {tflops_per_gpu}TFLOPS",
    "| lm_loss: {loss}",
    "number of skipped iterations: {skipped}",
    "number of nan iterations: {nans}",
    "iterations memory (MB) |*| max allocated: {allocated_mib}",
    "iterations memory (MB) |*| max reserved: {reserved_mib}",
    " seq_length ..* {seq_len}",
    " train_batch_size ..* {global_batch}",
});

// Its memory is what the allocator holds at that moment.
constexpr auto picotron = std::to_array<std::string_view>({
    "] Step: {iteration} *| Loss:",
    "| Loss: {loss} |",
    "| Global batch size: {tokens_per_step:human} |",
    "| Tokens/s: {tokens_per_s:human} |",
    "| Tokens/s/GPU: {tokens_per_s_per_gpu:human} |",
    "| Memory usage: {reserved_gb}GB",
});

constexpr auto llm_foundry = std::to_array<std::string_view>({
    "[batch={iteration}/",
    "Train throughput/batches_per_sec: {steps_per_s}",
    "Train throughput/device/tokens_per_sec: {tokens_per_s_per_gpu}",
    "Train memory/peak_allocated_mem: {allocated_gb}",
    "Train memory/peak_reserved_mem: {reserved_gb}",
    "Train loss/train/total: {loss}",
});

constexpr auto known_trainers = std::to_array<Trainer>({
    {"megatron", "Megatron-LM, November 2023 to August 2026", "the last rank",
     "--log-interval 1 --log-throughput", megatron},
    {"megatron-bridge", "Megatron-Bridge, August 2026", "the last rank",
     "logger.log_interval=1 logger.log_throughput=true", bridge},
    {"nemo", "NeMo 2.0, September 2025", "rank 0", "log_every_n_steps: 1", nemo},
    {"nanotron", "nanotron, April 2026", "the last pipeline stage",
     "logging.iteration_step_info_interval: 1", nanotron},
    {"torchtitan", "torchtitan, v0.1.0 to August 2026", "a rank of the last pipeline stage",
     "metrics.log_freq = 1", torchtitan},
    {"deepspeed", "DeepSpeed, August 2026", "rank 0", "\"steps_per_print\": 1", deepspeed},
    {"gpt-neox", "GPT-NeoX, May 2026", "rank 0", "log_interval: 1", gpt_neox},
    {"picotron", "picotron, August 2025", "the last pipeline stage", "", picotron},
    {"llm-foundry", "llm-foundry, July 2025", "rank 0, on standard error",
     "console_log_interval: 1ba, callbacks.speed_monitor.window_size: 1", llm_foundry},
});

}  // namespace

std::span<const LogKey> log_keys() {
  return keys;
}

std::span<const Trainer> trainers() {
  return known_trainers;
}

const Trainer* find_trainer(std::string_view name) {
  const auto* found = std::find_if(known_trainers.begin(), known_trainers.end(),
                                   [&](const Trainer& one) { return one.name == name; });
  return found == known_trainers.end() ? nullptr : found;
}

}  // namespace shardsweep
