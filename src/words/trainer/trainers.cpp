// SPDX-License-Identifier: Apache-2.0
#include "trainer/trainers.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "trainer/trainer_file.hpp"

#include <fmt/format.h>

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
        .snapshot = {.words = megatron_snapshot}},
    {.name = "megatron-bridge",
        .title = "Megatron-Bridge",
        .from = "0.2",
        .to = "0.7",
        .probe = {"megatron", "bridge/package_info.py", "megatron-bridge"},
        .prints = "the last rank",
        .resolution = "0.1 ms",
        .advice = "logger.log_interval=1 logger.log_throughput=true",
        .fake = {.why_not = "its recipes take no fake process group"},
        .snapshot = {.why_not = "writes one after train steps, and none when memory runs out"}},
    {.name = "nemo",
        .title = "NeMo",
        .from = "2.0",
        .to = "2.5",
        .probe = {"nemo", "package_info.py", "nemo-toolkit"},
        .prints = "rank 0",
        .resolution = "4 digits",
        .advice = "log_every_n_steps: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written}},
    {.name = "nanotron",
        .title = "nanotron",
        .from = "0.4",
        .to = "0.4",
        .probe = {"nanotron", "__init__.py:../../pyproject.toml", "nanotron"},
        .prints = "the last pipeline stage",
        .resolution = "3 digits",
        .advice = "logging.iteration_step_info_interval: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written}},
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
            .older_words = toml_snapshot}},
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
        .unprinted = 2},
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
                                "reached"}},
    {.name = "picotron",
        .title = "picotron",
        .from = "2024.12",
        .to = "2026.8",
        .probe = {},
        .prints = "the last pipeline stage",
        .resolution = "0.001 to 0.1 %",
        .advice = "",
        .fake = {.why_not = in_its_code},
        .snapshot = {.why_not = never_written}},
    {.name = "llm-foundry",
        .title = "llm-foundry",
        .from = "0.10",
        .to = "0.22",
        .probe = {"llmfoundry", "_version.py", "llm-foundry"},
        .prints = "rank 0, on standard error",
        .resolution = "4 decimals of train steps per second",
        .advice = "console_log_interval: 1ba, callbacks.speed_monitor.window_size: 1",
        .fake = {.why_not = in_its_code},
        .snapshot = {.words = foundry_snapshot}},
    {.name = "records",
        .title = "JSON lines as in OWN_RUNNER.md",
        .from = "",
        .to = "",
        .probe = {},
        .prints = "any rank",
        .resolution = "all digits",
        .advice = R"({"type": "train_step", "step": 1, "step_ms": 12.5, "loss": 10.8})",
        .fake = {.why_not = "it is a program of your own"},
        .snapshot = {.why_not = "are of a program of your own"}},
});

}  // namespace

std::span<const LogKey> log_keys() {
  return keys;
}

std::vector<std::string_view> log_patterns(std::string_view trainer) {
  const auto& patterns = trainer_file(trainer).patterns;
  return {patterns.begin(), patterns.end()};
}

std::span<const Trainer> trainers() {
  return known_trainers;
}

const Trainer* find_trainer(std::string_view name) {
  const auto* found = std::find_if(known_trainers.begin(), known_trainers.end(),
      [&](const Trainer& one) { return one.name == name; });
  return found == known_trainers.end() ? nullptr : found;
}

std::string unknown_trainer(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Trainer& trainer : trainers())
    names.push_back(trainer.name);
  const auto hint = did_you_mean(name, names);
  return fmt::format("no trainer is called {}{} 'shardsweep read-log --list' names all.",
      in_quotes(name), hint.empty() ? "." : hint);
}

}  // namespace shardsweep
