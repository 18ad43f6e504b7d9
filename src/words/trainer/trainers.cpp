// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainers.hpp"

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

constexpr auto keys = std::to_array<LogKey>({
    {"iteration", "number of the train step; begins a new one"},
    {"validation", "number of a validation: all else on its line is passed over"},
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
    {"consumed_samples", "samples since the start, after this train step"},
    {"consumed_tokens", "tokens since the start, after this train step"},
    {"nans", "train steps whose loss was no number"},
    {"global_batch", "samples per train step", true},
    {"tokens_per_step", "tokens per train step", true},
    {"seq_len", "tokens per sample", true},
    {"vocab", "entries of the vocabulary", true},
    {"gpus", "ranks of the run", true},
    {"dp", "data parallel degree", true},
    {"tp", "tensor parallel degree", true},
    {"pp", "pipeline stages", true},
    {"cp", "context parallel degree", true},
    {"data_ranks", "ranks among which samples are divided: dp, as far as it is told", true},
    {"ep", "expert parallel degree", true},
    {"vpp", "virtual pipeline stages of a rank", true},
    {"zero", "ZeRO stage", true},
    {"distributed_optimizer", "Megatron-LM shards its optimizer: 0: no, 1: yes", true},
    {"fsdp", "0: none, 1: Megatron-LM's, 2: PyTorch's", true},
    {"fsdp_stage", "what Megatron-LM's FSDP shards, as a ZeRO stage", true},
    {"grad_accum", "micro-batches of a train step", true},
    {"recompute", "0: none, 1: selective, 2: full", true},
    {"sequence_parallel", "0: no, 1: yes", true},
    {"expert_tp", "tensor parallel degree of experts", true},
    {"first_stage_layers", "layers of the first pipeline stage, if it is told them", true},
    {"last_stage_layers", "layers of the last one, if it is told them", true},
    {"cuda_graphs", "0: none, 1 and 2: of layers", true},
    {"offload", "to the host's memory, 0: none, 1: the optimizer's state", true},
    {"layers", "layers of the model", true},
    {"hidden", "hidden size of the model", true},
    {"ffn", "width of a feed-forward layer", true},
    {"heads", "attention heads of the model", true},
    {"experts", "experts of a layer", true},
    {"expert_ffn", "width of an expert", true},
    {"expert_period", "layers for each one that has experts", true},
    {"micro_batch", "samples per micro-batch", true},
    {"parameters", "parameters of one model parallel rank"},
    {"all_parameters", "parameters of the whole model", true},
    {"allocated_bytes", "largest memory that tensors had, bytes", true},
    {"allocated_mib", "the same in MiB", true},
    {"allocated_gib", "the same in GiB", true},
    {"allocated_gb", "the same in GB of 10^9 bytes", true},
    {"reserved_bytes", "largest memory that the allocator held, bytes", true},
    {"reserved_mib", "the same in MiB", true},
    {"reserved_gib", "the same in GiB", true},
    {"reserved_gb", "the same in GB of 10^9 bytes", true},
});

// One line per train step; the rest of it is optional and differs between versions. The dump of
// the arguments before the first one gives what the line leaves out.
constexpr auto megatron = std::to_array<std::string_view>({
    "iteration {iteration}/",
    "| consumed samples: {consumed_samples} |",
    "elapsed time per iteration (ms): {step_ms} |",
    "throughput per GPU (TFLOP/s/GPU): {tflops_per_gpu} |",
    // AMD's Primus prints a value of this step, and a mean behind a slash; its memory in GiB.
    "elapsed time per iteration (ms): {step_ms}/",
    "throughput per GPU (TFLOP/s/GPU): {tflops_per_gpu}/",
    "tokens per GPU (tokens/s/GPU): {tokens_per_s_per_gpu}/",
    "hip mem usage/free/total/usage_ratio: {reserved_gib}GB/",
    "| global batch size: {global_batch} |",
    "| lm loss: {loss} |",
    "number of skipped iterations: {skipped} |",
    "number of nan iterations: {nans} |",
    "using world size: {gpus}, data-parallel size: {dp}",
    "tensor-model-parallel size: {tp}",
    " pipeline-model-parallel size: {pp}",
    " context-parallel size: {cp}",
    " seq_length ..* {seq_len}",
    " micro_batch_size ..* {micro_batch}",
    " padded_vocab_size ..* {vocab}",
    " expert_model_parallel_size ..* {ep}",
    " virtual_pipeline_model_parallel_size ..* {vpp}",
    " virtual_pipeline_model_parallel_size ..* {vpp:|None}",
    " use_distributed_optimizer ..* {distributed_optimizer:False|True}",
    // Printed without FSDP too, where it means nothing.
    " data_parallel_sharding_strategy ..* "
    "{fsdp_stage:no_shard|optim|optim_grads|optim_grads_params}",
    " use_custom_fsdp ..* {fsdp:False|True}",
    " use_megatron_fsdp ..* {fsdp:False|True}",
    " use_torch_fsdp2 ..* {fsdp:False||True}",
    " recompute_granularity ..* {recompute:None|selective|full}",
    " sequence_parallel ..* {sequence_parallel:False|True}",
    " expert_tensor_parallel_size ..* {expert_tp}",
    " decoder_first_pipeline_num_layers ..* {first_stage_layers}",
    " decoder_last_pipeline_num_layers ..* {last_stage_layers}",
    " cuda_graph_impl ..* {cuda_graphs:none|local|transformer_engine}",
    " optimizer_cpu_offload ..* {offload:False|True}",
    " num_layers ..* {layers}",
    " hidden_size ..* {hidden}",
    " ffn_hidden_size ..* {ffn}",
    " num_attention_heads ..* {heads}",
    " num_experts ..* {experts}",
    " moe_ffn_hidden_size ..* {expert_ffn}",
    " moe_layer_freq ..* {expert_period}",
    " > number of parameters on (tensor, *) model parallel rank (*): {parameters}",
    "memory (MB) |*| max allocated: {allocated_mib} |",
    "memory (MB) |*| max reserved: {reserved_mib}",
});

constexpr auto bridge = std::to_array<std::string_view>({
    "iteration {iteration}/",
    "| consumed samples: {consumed_samples} |",
    "elapsed time per iteration (ms): {step_ms} |",
    "throughput per GPU (TFLOP/s/GPU): {tflops_per_gpu} |",
    "| global batch size: {global_batch} |",
    "| lm loss: {loss} |",
    "number of skipped iterations: {skipped} |",
    "number of nan iterations: {nans} |",
    "Step Time : * GPU utilization: {tflops_per_gpu}MODEL_TFLOP/s/GPU",
    "memory (GB) |*mem-max-allocated-gigabytes: {allocated_gb} |",
    "memory (GB) |*mem-max-reserved-gigabytes: {reserved_gb}",
});

constexpr auto nemo = std::to_array<std::string_view>({
    "Training epoch *, iteration {iteration}/",
    "train_step_timing in s: {step_s}",
    "reduced_train_loss: {loss} |",
    "| global_batch_size: {global_batch} |",
    "| consumed_samples: {consumed_samples}",
    "TFLOPS_per_GPU: {tflops_per_gpu}",
    "| tokens_per_sec_per_gpu: {tokens_per_s_per_gpu}",
    "| max_memory_allocated: {allocated_bytes} |",
    "| max_memory_reserved: {reserved_bytes} |",
});

constexpr auto nanotron = std::to_array<std::string_view>({
    "iteration: {iteration} /",
    "| consumed_tokens: {consumed_tokens:human} |",
    "time_per_iteration_ms: {step_ms:human} |",
    "tokens_per_sec: {tokens_per_s:human} |",
    "tokens_per_sec_per_gpu: {tokens_per_s_per_gpu:human} |",
    "| global_batch_size: {tokens_per_step:human} |",
    "| lm_loss: {loss:human} |",
    "model_tflops_per_gpu: {tflops_per_gpu:human} |",
    "Memory usage: * Peak allocated {allocated_mib}MiB",
    "Memory usage: * Peak reserved: {reserved_mib}MiB",
    // Of the configuration that it prints. Its dp, tp and pp have names that a nested part for
    // evaluation has too.
    " tokens=TokensArgs(sequence_length={seq_len},",
    " micro_batch_size={micro_batch},",
    " batch_accumulation_per_replica={grad_accum},",
    " zero_stage={zero},",
    " recompute_layer={recompute:False||True}",
    " num_hidden_layers={layers},",
    " hidden_size={hidden},",
    " intermediate_size={ffn},",
    " num_attention_heads={heads},",
    "Total number of parameters: {all_parameters:human} (",
});

constexpr auto torchtitan = std::to_array<std::string_view>({
    "validate step: {validation}  loss:",
    "step: {iteration}  loss:",
    "  loss: {loss}  ",
    "  memory: {reserved_gib}GiB(",
    "  tps: {tokens_per_s_per_gpu}  ",
    "  tflops: {tflops_per_gpu}  ",
    "tokens per DP rank, {tokens_per_step} tokens per train step",
    // Of structured_logs/*.jsonl, which each rank writes since 2026-05-04: a span for a train
    // step.
    R"("step": {iteration}*"log_type_name": "step_end"*"value": {step_ms})",
    // With debug.print_config, JSON. Batch and length stand in its part for validation too.
    R"("tensor_parallel_degree": {tp})",
    R"("pipeline_parallel_degree": {pp})",
    R"("context_parallel_degree": {cp})",
    R"("expert_parallel_degree": {ep})",
    R"("mode": "{recompute:none|selective|full}")",
});

constexpr auto deepspeed = std::to_array<std::string_view>({
    "steps: {iteration} loss: {loss} iter time (s): {step_s} samples/sec:",
    "/global_step={iteration}, RunningAvgSamplesPerSec=*, CurrSamplesPerSec={samples_per_s},",
    ", MaxMemAllocated={allocated_gib}GB",
    "] step=*, skipped={skipped_total}, lr=",
    "Max_MA {allocated_gib} GB",
    "Max_CA {reserved_gib} GB",
    " train_batch_size ..* {global_batch}",
    " train_micro_batch_size_per_gpu ..* {micro_batch}",
    " gradient_accumulation_steps ..* {grad_accum}",
    " zero_optimization_stage ..* {zero}",
    " world_size ..* {data_ranks}",
    // Of Megatron-DeepSpeed, in its form and in that of its fork at Argonne. Their time counts:
    // CurrSamplesPerSec begins anew at each forward pass, so with several micro-batches for one
    // step() it holds the last one alone (engine.py:2764).
    " iteration {iteration}/ * | consumed samples",
    "iteration={iteration}/",
    "elapsed time per iteration (ms): {step_ms} |",
    "elapsed_time_per_iteration_ms={step_ms} |",
    "tokens_per_gpu_per_second_tgs={tokens_per_s_per_gpu} |",
    "| global batch size: {global_batch} |",
    "| global_batch_size={global_batch} |",
    "number of skipped iterations: {skipped} |",
    "number_of_skipped_iterations={skipped} |",
    "number of nan iterations: {nans} |",
    "number_of_nan_iterations={nans} |",
    "using world size: {gpus}, data-parallel-size: {dp}",
    "tensor-model-parallel size: {tp}",
});

constexpr auto gpt_neox = std::to_array<std::string_view>({
    "| iteration {iteration}/",
    "elapsed time per iteration (ms): {step_ms} |",
    "samples/sec: {samples_per_s} |",
    "approx flops per GPU: {tflops_per_gpu}TFLOPS",
    "| lm_loss: {loss} |",
    "number of skipped iterations: {skipped} |",
    "number of nan iterations: {nans} |",
    "iterations memory (MB) |*| max allocated: {allocated_mib} |",
    "iterations memory (MB) |*| max reserved: {reserved_mib}",
    " seq_length ..* {seq_len}",
    " train_batch_size ..* {global_batch}",
});

// Its memory is what the allocator holds at that moment.
constexpr auto picotron = std::to_array<std::string_view>({
    "] Step: {iteration} *| Loss:",
    "| Loss: {loss} |",
    "| Tokens: {consumed_tokens:human} |",
    "| Tokens: {consumed_tokens:human}/",
    "| Global batch size: {tokens_per_step:human} |",
    "| Tokens/s: {tokens_per_s:human} |",
    "| Tokens/s/GPU: {tokens_per_s_per_gpu:human} |",
    "| Memory usage: {reserved_gb}GB",
    "Number of parameters: {all_parameters:human}",
});

constexpr auto llm_foundry = std::to_array<std::string_view>({
    "[batch={iteration}/",
    "Train throughput/batches_per_sec: {steps_per_s}",
    "Train throughput/device/tokens_per_sec: {tokens_per_s_per_gpu}",
    "Train memory/peak_allocated_mem: {allocated_gb}",
    "Train memory/peak_reserved_mem: {reserved_gb}",
    "Train loss/train/total: {loss}",
});

// JSON lines of a runner of ours, on the output instead of in a file.
constexpr auto records = std::to_array<std::string_view>({
    R"("train_step"*"step":{iteration})",
    R"("step":{iteration}*"train_step")",
    R"("step_ms":{step_ms},)",
    R"("step_ms":{step_ms}})",
    R"("loss":{loss},)",
    R"("loss":{loss}})",
    R"("tokens_per_s_per_gpu":{tokens_per_s_per_gpu},)",
    R"("tokens_per_s_per_gpu":{tokens_per_s_per_gpu}})",
    R"("tokens_per_step":{tokens_per_step})",
    R"("allocated_bytes":{allocated_bytes})",
    R"("reserved_bytes":{reserved_bytes})",
    R"("world":{gpus})",
});

constexpr std::string_view in_its_code = "its process groups are made in its own code";

// Each writes it from PyTorch's observer of failed allocations, or as it leaves its train loop.
// Megatron-LM: pretrain_gpt's model provider (core 0.12 to 0.20) opens oom_rank-N_NAME in the
// folder in which it runs, so NAME has no slash.
constexpr auto megatron_snapshot = std::to_array<std::string_view>(
    {"--record-memory-history", "--memory-snapshot-path", "{nonce}.pickle"});
// torchtitan: tools/profiling.py until its TOML went (v0.2.2), tools/profiler.py since then. An
// absolute folder takes the place of one below its dump folder.
constexpr auto torchtitan_snapshot = std::to_array<std::string_view>(
    {"--profiler.enable_memory_snapshot", "--profiler.save_memory_snapshot_folder={kept}"});
constexpr auto toml_snapshot = std::to_array<std::string_view>(
    {"--profiling.enable_memory_snapshot", "--profiling.save_memory_snapshot_folder={kept}"});
// llm-foundry: composer's OOMObserver, which its registry calls oom_observer.
constexpr auto foundry_snapshot =
    std::to_array<std::string_view>({"callbacks.oom_observer.folder={kept}",
        "callbacks.oom_observer.remote_file_name=null", "callbacks.oom_observer.overwrite=true"});
constexpr std::string_view never_written = "has no option that writes one";

constexpr auto known_trainers = std::to_array<Trainer>({
    {.name = "megatron",
        .title = "Megatron-LM",
        .from = "0.5",
        .to = "0.20",
        .probe = {"megatron", "core/package_info.py", "megatron-core"},
        .prints = "the last rank",
        .resolution = "0.1 ms",
        .advice = "--log-interval 1 --log-throughput",
        .fake = {.flag = "--fake-process-group"},
        .snapshot = {.words = megatron_snapshot},
        .patterns = megatron},
    {.name = "megatron-bridge",
        .title = "Megatron-Bridge",
        .from = "0.2",
        .to = "0.7",
        .probe = {"megatron", "bridge/package_info.py", "megatron-bridge"},
        .prints = "the last rank",
        .resolution = "0.1 ms",
        .advice = "logger.log_interval=1 logger.log_throughput=true",
        .fake = {.why_not = "its recipes take no fake process group"},
        .snapshot = {.why_not = "writes one after train steps, and none when memory runs out"},
        .patterns = bridge},
    {.name = "nemo",
        .title = "NeMo",
        .from = "2.0",
        .to = "2.5",
        .probe = {"nemo", "package_info.py", "nemo-toolkit"},
        .prints = "rank 0",
        .resolution = "4 digits",
        .advice = "log_every_n_steps: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written},
        .patterns = nemo},
    {.name = "nanotron",
        .title = "nanotron",
        .from = "0.4",
        .to = "0.4",
        .probe = {"nanotron", "__init__.py:../../pyproject.toml", "nanotron"},
        .prints = "the last pipeline stage",
        .resolution = "3 digits",
        .advice = "logging.iteration_step_info_interval: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written},
        .patterns = nanotron},
    {.name = "torchtitan",
        .title = "torchtitan",
        .from = "0.1",
        .to = "0.3",
        .probe = {"torchtitan", "../assets/version.txt", "torchtitan"},
        .prints = "a rank of the last pipeline stage",
        .resolution = "1 token/s",
        .advice = "metrics.log_freq = 1",
        .fake = {.flag = "--comm.mode=fake_backend",
            .variable = "COMM_MODE=fake_backend",
            .world = "NGPU"},
        .snapshot = {.words = torchtitan_snapshot,
            .older_word = "--job.config_file",
            .older_words = toml_snapshot},
        .patterns = torchtitan},
    {.name = "deepspeed",
        .title = "DeepSpeed",
        .from = "0.9",
        .to = "0.19",
        .probe = {"deepspeed", "git_version_info_installed.py:../version.txt", "deepspeed",
            "DeepSpeed info: version="},
        .prints = "rank 0",
        .resolution = "1 ms in a pipeline, else all digits",
        .advice = "\"steps_per_print\": 1, \"log_level\": \"info\"",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written},
        .unprinted = 2,
        .patterns = deepspeed},
    {.name = "gpt-neox",
        .title = "GPT-NeoX",
        .from = "2023.9",
        .to = "2026.8",
        .probe = {},
        .prints = "rank 0",
        .resolution = "0.1 ms",
        .advice = "log_interval: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = "writes one at a train step that has to be "
                                "reached"},
        .patterns = gpt_neox},
    {.name = "picotron",
        .title = "picotron",
        .from = "2024.12",
        .to = "2026.8",
        .probe = {},
        .prints = "the last pipeline stage",
        .resolution = "0.001 to 0.1 %",
        .advice = "",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written},
        .patterns = picotron},
    {.name = "llm-foundry",
        .title = "llm-foundry",
        .from = "0.10",
        .to = "0.22",
        .probe = {"llmfoundry", "_version.py", "llm-foundry"},
        .prints = "rank 0, on standard error",
        .resolution = "4 decimals of train steps per second",
        .advice = "console_log_interval: 1ba, callbacks.speed_monitor.window_size: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.words = foundry_snapshot},
        .patterns = llm_foundry},
    {.name = "records",
        .title = "JSON lines as in OWN_RUNNER.md",
        .from = "",
        .to = "",
        .probe = {},
        .prints = "any rank",
        .resolution = "all digits",
        .advice = R"({"type": "train_step", "step": 1, "step_ms": 12.5, "loss": 10.8})",
        .fake = {.why_not = "it is a program of your own"},
        .snapshot = {.why_not = "are of a program of your own"},
        .patterns = records},
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
