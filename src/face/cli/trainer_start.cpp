// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's flags are those of core 0.12 to 0.20 (arguments.py and the dataclasses behind
// it); torchtitan's options those of config/configs.py and models/llama3/config_registry.py of
// 2026-08-21.
#include "cli/trainer_start.hpp"

#include "text/characters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace shardsweep {
namespace {

constexpr TrainerStart megatron{
    .name = "megatron",
    .constants = {},
    .zero = "[0, 1]",
    .recompute = "[none, selective, full]",
    .axes = "  sequence_parallel: [false, true]           # needs tp above 1\n",
    .rest =
        R"(# Megatron-LM's own program, a process for each rank. Each axis above stands here as a placeholder:
# 'shardsweep help placeholders'. runner/TRAINERS.md says what is checked in its log.
runner:
  log: megatron
  cwd: .                             # folder of Megatron-LM
  argv:
    [python3, pretrain_gpt.py,
     # the model
     --num-layers, "{layers}", --hidden-size, "{hidden}", --ffn-hidden-size, "{ffn}",
     --num-attention-heads, "{heads}", --group-query-attention, --num-query-groups, "{kv_heads}",
     "{head_dim>0?--kv-channels={head_dim}}", --position-embedding-type, rope, --swiglu,
     --normalization, RMSNorm, --untie-embeddings-and-output-weights, --disable-bias-linear,
     "{experts>0?--num-experts={experts}}", "{experts>0?--moe-router-topk={experts_per_token}}",
     "{experts>0?--moe-ffn-hidden-size={expert_ffn}}", "{experts>0?--moe-grouped-gemm}",
     "{experts>0?--moe-token-dispatcher-type=alltoall}",
     --seq-length, "{seq_len}", --max-position-embeddings, "{seq_len}", "{dtype=bf16?--bf16}",
     # the layout
     --tensor-model-parallel-size, "{tp}", --pipeline-model-parallel-size, "{pp}",
     --micro-batch-size, "{micro_batch}", --global-batch-size, "{global_batch}",
     "{sequence_parallel?--sequence-parallel}", "{zero=1?--use-distributed-optimizer}",
     "{overlap?--overlap-grad-reduce}", "{zero=1 and overlap?--overlap-param-gather}",
     "{recompute?--recompute-granularity={recompute}}",
     "{recompute=full?--recompute-method=uniform}", "{recompute=full?--recompute-num-layers=1}",
     # data of its own, no evaluation, no checkpoints, each train step printed
     --mock-data, --tokenizer-type, NullTokenizer, --vocab-size, "{vocab}",
     --lr, "1e-4", --lr-decay-style, constant, --train-iters, "{train_steps}",
     --eval-iters, "0", --eval-interval, "1000000", --log-interval, "1", --log-throughput]

# It asserts the first with tensor or context parallelism.
env: {CUDA_DEVICE_MAX_CONNECTIONS: "{tp>1 or cp>1?1:8}", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)"};

constexpr TrainerStart torchtitan{
    .name = "torchtitan",
    .constants = "  recompute: selective       # what its recipes do\n",
    .zero = "[2, 3]",
    .recompute = {},
    .axes = "  sequence_parallel: [false, true]           # needs tp above 1\n",
    .rest =
        R"(# torchtitan since August 2026, a process for each rank. Its recipe holds the model; it counts tokens,
# so placeholders compute: 'shardsweep help placeholders'. runner/TRAINERS.md says what is checked.
runner:
  log: torchtitan
  cwd: .                             # folder of torchtitan
  told: [recompute]
  argv:
    [python3, -m, torchtitan.train, --module, llama3, --config, @RECIPE@,
     "--training.num_tokens_per_microbatch_per_dp_rank={micro_batch*seq_len}",
     "--training.num_tokens_per_train_step={global_batch*seq_len}",
     "--training.max_context_length={seq_len}", "--training.steps={train_steps}",
     # zero 2 keeps weights gathered after the forward pass, zero 3 gathers them again
     --parallelism.data_parallel_replicate_degree=1,
     "--parallelism.data_parallel_shard_degree={dp}",
     "--parallelism.fsdp_reshard_after_forward={zero=3?always:never}",
     "--parallelism.tensor_parallel_degree={tp}",
     "--parallelism.{sequence_parallel?enable:no_enable}_sequence_parallel",
     "--parallelism.pipeline_parallel_degree={pp}",
     # a pipeline takes all micro-batches of a train step at once
     "--parallelism.num_pp_microbatches={pp>1?{grad_accum}:1}",
     # each train step printed, and its configuration, which is held against the layout
     --metrics.log_freq=1, --metrics.disable_color_printing, --debug.print_config,
     --metrics.no_enable_tensorboard, --profiler.no_enable_profiling]

# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_recipes = true};

constexpr std::array<TrainerStart, 2> starts{megatron, torchtitan};

struct Recipe {
  std::string_view model, name;
};
/// Of those that recompute as `constants` says.
constexpr std::array<Recipe, 1> recipes{{{"llama-3-8b", "llama3_8b"}}};

}  // namespace

std::span<const TrainerStart> trainer_starts() {
  return starts;
}

Result<const TrainerStart*> find_trainer_start(std::string_view name) {
  std::vector<std::string_view> names;
  for (const TrainerStart& start : starts) {
    if (start.name == name) return &start;
    names.push_back(start.name);
  }
  return fault(
      FaultKind::invalid_input,
      fmt::format("--trainer knows {}; got {}. runner/TRAINERS.md is about the others.",
                  fmt::join(names, " and "), in_quotes(name)));
}

Result<std::string> rest_of(const TrainerStart& start, std::string_view model) {
  std::string text(start.rest);
  if (!start.has_recipes) return text;
  const auto* found = std::find_if(recipes.begin(), recipes.end(),
                                   [&](const Recipe& one) { return one.model == model; });
  if (found == recipes.end()) {
    return fault(FaultKind::invalid_input,
                 fmt::format("{} has a recipe for each model. Begin with --model {}, and name "
                             "yours in the file",
                             start.name, recipes.front().model));
  }
  constexpr std::string_view mark = "@RECIPE@";
  return text.replace(text.find(mark), mark.size(), found->name);
}

}  // namespace shardsweep
