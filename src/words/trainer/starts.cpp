// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's flags are those of core 0.12 to 0.20 (arguments.py and the dataclasses behind
// it); torchtitan's options those of config/configs.py and models/llama3/config_registry.py of
// 2026-08-21. tests/data/cases/emitted/starts.py has the rules of the others' parsers, each
// with its file and commit.
#include "trainer/starts.hpp"

#include "text/characters.hpp"
#include "trainer/megatron_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace shardsweep {
namespace {

constexpr TrainerStart start_of_megatron{.name = "megatron",
    .written_for = "core 0.12 to 0.20",
    .data = "its own",
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
     --num-attention-heads, "{heads}", "{kv_lora_rank=0?--group-query-attention}",
     "{kv_lora_rank=0?--num-query-groups={kv_heads}}",
     "{kv_lora_rank=0 and head_dim>0?--kv-channels={head_dim}}",
     "{kv_lora_rank>0?--multi-latent-attention}", "{kv_lora_rank>0?--kv-lora-rank={kv_lora_rank}}",
     "{q_lora_rank>0?--q-lora-rank={q_lora_rank}}",
     "{kv_lora_rank>0?--qk-head-dim={head_dim-qk_rope_head_dim}}",
     "{kv_lora_rank>0?--qk-pos-emb-head-dim={qk_rope_head_dim}}",
     "{v_head_dim>0?--v-head-dim={v_head_dim}}", "{mtp_layers>0?--mtp-num-layers={mtp_layers}}",
     --position-embedding-type, rope, "{ffn_matrices=0?--swiglu}",
     --normalization, RMSNorm, "{not tied_embeddings?--untie-embeddings-and-output-weights}",
     --disable-bias-linear,
     --attention-dropout, "0", --hidden-dropout, "0",
     "{experts>0?--num-experts={experts}}", "{experts>0?--moe-router-topk={experts_per_token}}",
     "{experts>0?--moe-ffn-hidden-size={expert_ffn}}", "{experts>0?--moe-grouped-gemm}",
     "{experts>0?--moe-token-dispatcher-type=alltoall}",
     "{shared_experts>0?--moe-shared-expert-intermediate-size={shared_experts*expert_ffn}}",
     "{shared_ffn>0?--moe-shared-expert-intermediate-size={shared_ffn}}",
     "{dense_layers>0?--moe-layer-freq=([0]*{dense_layers}+[1]*{layers-dense_layers})}",
     "{expert_layers>0 and dense_layers=0?--moe-layer-freq=([0]*{layers/expert_layers-1}+[1])*{expert_layers}}",
     --max-position-embeddings, "{seq_len}",
     # the layout
     @LAYOUT@
     # data of its own, no evaluation, no checkpoints, each train step printed
     --mock-data, --tokenizer-type, NullTokenizer, --vocab-size, "{vocab}",
     --lr, "1e-4", --lr-decay-style, constant, --train-iters, "{train_steps}",
     --eval-iters, "0", --eval-interval, "1000000", --log-interval, "1", --log-throughput]

# It asserts 1 with tensor or context parallelism, and more than that with FSDP.
env: {CUDA_DEVICE_MAX_CONNECTIONS: "{(tp>1 or cp>1) and zero<2?1:8}", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .spreads_experts = true};

constexpr TrainerStart start_of_torchtitan{.name = "torchtitan",
    .written_for = "since August 2026, whose options count tokens",
    .data = "its own",
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
     # its CUDA graphs take no pipeline: off for all, or the others would have an advantage
     --training.disable_cuda_graphs,
     # each train step printed, and its configuration, which is held against the layout
     --metrics.log_freq=1, --metrics.disable_color_printing, --debug.print_config,
     --metrics.no_enable_tensorboard, --profiler.no_enable_profiling]

# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_recipes = true};

constexpr TrainerStart start_of_bridge{.name = "megatron-bridge",
    .written_for = "August 2026",
    .data = "its own",
    .constants = {},
    .zero = "[0, 1]",
    .recompute = "[none, selective, full]",
    .axes = "  sequence_parallel: [false, true]           # needs tp above 1\n",
    .rest =
        R"(# Megatron-Bridge's own program, a process for each rank. Its recipe holds the model; all that the
# axes above say is an override. 'shardsweep help placeholders'; runner/TRAINERS.md says what is checked.
runner:
  log: megatron-bridge
  cwd: .                             # folder of Megatron-Bridge
  argv:
    [python3, scripts/training/run_recipe.py, --recipe, @RECIPE@, --mode, pretrain, --dataset, mock,
     # the layout: the dataset owns the length, and the model follows it
     @LAYOUT@
     # no evaluation, no checkpoints, each train step printed
     "train.train_iters={train_steps}", scheduler.lr_warmup_iters=0, optimizer.lr=1e-4,
     validation.eval_iters=0, validation.eval_interval=1000000,
     checkpoint.save=null, checkpoint.load=null,
     logger.log_interval=1, logger.log_throughput=true]

# It asserts 1 with tensor or context parallelism, and more than that with FSDP.
env: {CUDA_DEVICE_MAX_CONNECTIONS: "{(tp>1 or cp>1) and zero<2?1:8}", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_recipes = true};

constexpr TrainerStart start_of_nanotron{.name = "nanotron",
    .written_for = "April 2026",
    .data = "its own",
    .constants = {},
    .zero = "[0, 1]",
    .recompute = "[none, full]",
    .axes = "  sequence_parallel: [false, true]           # needs tp above 1\n",
    .rest =
        R"(# nanotron's own program, a process for each rank. Each axis above stands in its configuration as a
# placeholder: 'shardsweep help placeholders'. runner/TRAINERS.md says what is checked in its log.
runner:
  log: nanotron
  cwd: .                             # folder of nanotron
  argv: [python3, run_train.py, --config-file, "{attempt_dir}/config.yaml"]
  files:
    config.yaml: |
      general: {project: sweep, run: sweep, seed: 42, ignore_sanity_checks: true}
      model:
        dtype: {dtype=bf16?bfloat16:float32}
        init_method: {std: 0.025}
        make_vocab_size_divisible_by: 1
        model_config:
          # at 2411b022 its Llama does not start (models/llama.py:1095), and Qwen2 not with pp
          is_qwen2_config: true
          num_hidden_layers: {layers}
          hidden_size: {hidden}
          intermediate_size: {ffn}
          num_attention_heads: {heads}
          num_key_value_heads: {kv_heads}
          vocab_size: {vocab}
          max_position_embeddings: {seq_len}
          tie_word_embeddings: {tied_embeddings}
      # the layout
      parallelism:
        dp: {dp}
        tp: {tp}
        pp: {pp}
        context_parallel_size: 1
        expert_parallel_size: 1
        pp_engine: 1f1b
        tp_mode: {sequence_parallel?REDUCE_SCATTER:ALL_REDUCE}
        tp_linear_async_communication: {sequence_parallel?true:false}
        recompute_layer: {recompute=full?true:false}
      tokens:
        sequence_length: {seq_len}
        micro_batch_size: {micro_batch}
        batch_accumulation_per_replica: {grad_accum}
        train_steps: {train_steps}
        val_check_interval: -1
      optimizer:
        zero_stage: {zero}
        weight_decay: 0.01
        clip_grad: 1.0
        accumulate_grad_in_fp32: {dtype=bf16?true:false}
        optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1.0e-8, torch_adam_is_fused: true}
        learning_rate_scheduler: {learning_rate: 1.0e-4, lr_warmup_steps: 0, lr_warmup_style: constant, lr_decay_style: linear, min_decay_lr: 1.0e-4}
      # tokens of its own, no tokenizer, no evaluation, no checkpoints, each train step printed
      data_stages: [{name: all, start_training_step: 1, data: {dataset: null, num_loading_workers: 1, seed: 42}}]
      checkpoints: {checkpoint_interval: 1000000, checkpoints_path: checkpoints, save_initial_state: false, save_final_state: false}
      logging: {iteration_step_info_interval: 1, log_level: info, log_level_replica: info}

env: {CUDA_DEVICE_MAX_CONNECTIONS: "1", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_pp = false};

constexpr TrainerStart start_of_deepspeed{.name = "deepspeed",
    .written_for = "Megatron-DeepSpeed of July 2025, without a pipeline",
    .data = "write its path for DATA",
    .constants = {},
    .zero = "[0, 1, 2, 3]",
    .recompute = "[none, full]",
    .axes = {},
    .rest =
        R"(# Megatron-DeepSpeed, a process for each rank, by DeepSpeed's engine without a pipeline. It has no data of
# its own: DATA is what its tools/preprocess_data.py has written. Each axis above stands here as a
# placeholder: 'shardsweep help placeholders'. runner/TRAINERS.md says what is checked in its log.
runner:
  log: deepspeed
  cwd: .                             # folder of Megatron-DeepSpeed
  argv:
    [python3, pretrain_gpt.py, --deepspeed, --deepspeed_config, "{attempt_dir}/ds.json",
     --no-pipeline-parallel, --zero-stage, "{zero}",
     # the model
     --num-layers, "{layers}", --hidden-size, "{hidden}", --ffn-hidden-size, "{ffn}",
     --num-attention-heads, "{heads}", --num-key-value-heads, "{kv_heads}",
     --use-rotary-position-embeddings, --swiglu, --normalization, rmsnorm, --disable-bias-linear,
     "{not tied_embeddings?--untie-embeddings-and-output-weights}", --attention-dropout, "0", --hidden-dropout, "0",
     --seq-length, "{seq_len}", --max-position-embeddings, "{seq_len}", "{dtype=bf16?--bf16}",
     # the layout
     --tensor-model-parallel-size, "{tp}", --micro-batch-size, "{micro_batch}",
     --global-batch-size, "{global_batch}",
     "{recompute=full?--deepspeed-activation-checkpointing}",
     "{recompute=full?--recompute-granularity=full}", "{recompute=full?--recompute-method=uniform}",
     "{recompute=full?--recompute-num-layers=1}",
     # no tokenizer, no evaluation, no checkpoints
     --data-path, DATA, --split, "100,0,0", --tokenizer-type, NullTokenizer,
     --vocab-size, "{vocab}", --lr, "1e-4", --lr-decay-style, constant,
     --train-iters, "{train_steps}", --eval-iters, "0", --eval-interval, "1000000",
     --log-interval, "1"]
  files:
    ds.json: |
      {
        "train_batch_size": {global_batch},
        "train_micro_batch_size_per_gpu": {micro_batch},
        "gradient_accumulation_steps": {grad_accum},
        "zero_optimization": {"stage": {zero}},
        "bf16": {"enabled": {dtype=bf16?true:false}},
        "gradient_clipping": 1.0,
        "steps_per_print": 1,
        "log_level": "info"
      }

env: {CUDA_DEVICE_MAX_CONNECTIONS: "1", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_pp = false};

constexpr TrainerStart start_of_neox{.name = "gpt-neox",
    .written_for = "May 2026",
    .data = "write its path for DATA",
    .constants = {},
    .zero = "[0, 1]",
    .recompute = "[none, full]",
    .axes = "  sequence_parallel: [false, true]           # needs tp above 1\n",
    .rest =
        R"(# GPT-NeoX, a process for each rank: start.py stands in for its launcher. It has no data of its own: DATA is
# what its tools/datasets/preprocess_data.py has written, with CharLevelTokenizer. Each axis above stands
# in its configuration as a placeholder: 'shardsweep help placeholders'. runner/TRAINERS.md says what is
# checked in its log.
runner:
  log: gpt-neox
  cwd: .                             # folder of gpt-neox
  argv: [python3, "{attempt_dir}/start.py", "{attempt_dir}/config.yml"]
  files:
    start.py: |
      import os
      import sys
      sys.path.insert(0, os.getcwd())
      from megatron.neox_arguments import NeoXArgs
      from megatron.training import pretrain
      neox_args = NeoXArgs.from_ymls([sys.argv[1]])
      neox_args.configure_distributed_args()
      neox_args.build_tokenizer()
      pretrain(neox_args=neox_args)
    config.yml: |
      num_layers: {layers}
      hidden_size: {hidden}
      intermediate_size: {ffn*(3-ffn_matrices)} # a gated one has a third of it
      num_attention_heads: {heads}
      num_kv_heads: {kv_heads}
      activation: {ffn_matrices=2?gelu:swiglu}
      norm: rmsnorm
      pos_emb: rotary
      rotary_pct: 1
      no_weight_tying: {not tied_embeddings?true:false}
      use_bias_in_norms: false
      use_bias_in_attn_linear: false
      hidden_dropout: 0
      attention_dropout: 0
      seq_length: {seq_len}
      max_position_embeddings: {seq_len}
      precision: {dtype=bf16?bfloat16:fp32}
      data_types: {grad_accum_dtype: fp32} # without it bf16 with ZeRO 1 breaks (arguments.py:1004)
      # the layout
      global_num_gpus: {gpus}
      pipe_parallel_size: {pp}
      model_parallel_size: {tp}
      sequence_parallel: {sequence_parallel}
      train_micro_batch_size_per_gpu: {micro_batch}
      gradient_accumulation_steps: {grad_accum}
      zero_optimization: {stage: {zero}}
      checkpoint_activations: {recompute=full?true:false}
      checkpoint_num_layers: 1
      # characters of its own, as many words as the model has; no evaluation, no checkpoints
      tokenizer_type: CharLevelTokenizer
      make_vocab_size_divisible_by: {vocab/tp}
      data_path: DATA
      data_impl: mmap
      split: "100,0,0"
      optimizer: {type: Adam, params: {lr: 1.0e-4, betas: [0.9, 0.95], eps: 1.0e-8}}
      lr_decay_style: constant
      gradient_clipping: 1.0
      train_iters: {train_steps}
      eval_iters: 0
      eval_interval: 1000000
      checkpoint_factor: 1000000
      # each train step printed
      log_interval: 1
      steps_per_print: 1

env: {CUDA_DEVICE_MAX_CONNECTIONS: "1", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)"};

constexpr TrainerStart start_of_picotron{.name = "picotron",
    .written_for = "August 2025",
    .data = "of Hugging Face",
    .constants = {},
    .zero = "[0]",
    .recompute = {},
    .axes = {},
    .rest =
        R"(# picotron, a process for each rank. It takes hidden sizes and vocabulary from a model of Hugging Face, and
# its samples from a dataset there. Each axis above stands in its configuration as a placeholder:
# 'shardsweep help placeholders'. runner/TRAINERS.md says what is checked in its log.
runner:
  log: picotron
  cwd: .                             # folder of picotron
  argv: [python3, train.py, --config, "{attempt_dir}/config.json"]
  files:
    config.json: |
      {
        "distributed": {
          "dp_size": {dp}, "tp_size": {tp}, "pp_size": {pp}, "cp_size": {cp},
          "pp_engine": "{schedule}", "backend": "nccl", "use_cpu": false
        },
        "model": {
          "name": "@RECIPE@",
          "num_hidden_layers": {layers}, "num_attention_heads": {heads}, "num_key_value_heads": {kv_heads},
          "dtype": "{dtype=bf16?bfloat16:float32}", "use_flash_attention": true, "use_fused_adam": true
        },
        "training": {
          "seed": 42, "learning_rate": 1e-4, "total_train_steps": {train_steps}, "seq_length": {seq_len},
          "micro_batch_size": {micro_batch}, "gradient_accumulation_steps": {grad_accum},
          "num_samples": 400000, "max_tokens": {train_steps*global_batch*seq_len}
        },
        "dataset": {"name": "roneneldan/TinyStories", "subset_name": null, "num_workers": 0, "num_proc": 1},
        "checkpoint": {"save_dir": "{attempt_dir}/ckpt", "save_frequency": 1000000, "load_path": ""},
        "logging": {"use_wandb": false, "project_name": "picotron", "run_name": null},
        "environment": {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "FLASH_ATTEN": "1", "HF_TOKEN": null}
      }

# It fetches the model with your token.
pass_env: [HF_TOKEN]
env: {CUDA_DEVICE_MAX_CONNECTIONS: "1", NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_recipes = true};

constexpr TrainerStart start_of_foundry{.name = "llm-foundry",
    .written_for = "July 2025",
    .data = "write its path for DATA",
    .constants = {},
    .zero = "[2, 3]",
    .recompute = "[none, full]",
    .axes = {},
    .rest =
        R"(# llm-foundry, by composer's launcher on each node. It has no data of its own: DATA is a folder that its
# scripts/data_prep has written. Each axis above stands in its configuration as a placeholder:
# 'shardsweep help placeholders'. runner/TRAINERS.md says what is checked in its log.
runner:
  log: llm-foundry
  cwd: .                             # folder of llm-foundry
  launch: node
  argv:
    [composer, --nproc, "{gpus_per_node}", --world_size, "{gpus}", --node_rank, "{node_rank}",
     --master_addr, "{master_addr}", --master_port, "{master_port}",
     scripts/train/train.py, "{attempt_dir}/config.yaml"]
  files:
    config.yaml: |
      max_seq_len: {seq_len}
      seed: 17
      model:
        name: mpt_causal_lm
        init_device: meta
        d_model: {hidden}
        n_heads: {heads}
        n_layers: {layers}
        expansion_ratio: 4
        max_seq_len: {seq_len}
        vocab_size: {vocab}
        no_bias: true
        norm_type: rmsnorm
        tie_word_embeddings: {tied_embeddings}
        learned_pos_emb: false
        ffn_config: {ffn_type: mptglu, ffn_hidden_size: {ffn}}
        attn_config: {attn_type: grouped_query_attention, kv_n_heads: {kv_heads}, attn_impl: flash, rope: true}
      tokenizer: {name: EleutherAI/gpt-neox-20b, kwargs: {model_max_length: {seq_len}}}
      train_loader:
        name: text
        dataset: {local: DATA, split: train, shuffle: false, max_seq_len: {seq_len}}
        drop_last: true
        num_workers: 8
      optimizer: {name: decoupled_adamw, lr: 1.0e-4, betas: [0.9, 0.95], eps: 1.0e-8, weight_decay: 0.0}
      scheduler: {name: constant_with_warmup, t_warmup: 0ba}
      precision: {dtype=bf16?amp_bf16:fp32}
      # the layout
      global_train_batch_size: {global_batch}
      device_train_microbatch_size: {micro_batch}
      fsdp_config:
        sharding_strategy: {zero=3?FULL_SHARD:SHARD_GRAD_OP}
        mixed_precision: PURE
        activation_checkpointing: {recompute=full?true:false}
        activation_checkpointing_reentrant: false
        activation_cpu_offload: false
        limit_all_gathers: true
      # no evaluation, no checkpoints, each train step printed
      device_eval_batch_size: 1
      max_duration: {train_steps}ba
      eval_interval: 0
      progress_bar: false
      log_to_console: true
      console_log_interval: 1ba
      callbacks: {speed_monitor: {window_size: 1}, memory_monitor: {}}

env: {NCCL_DEBUG: WARN}
# It compiles and connects in its first train step.
watch: {init_limit: 20min}
)",
    .has_tp = false,
    .has_pp = false};

constexpr std::array<TrainerStart, 8> starts{start_of_megatron, start_of_bridge, start_of_nanotron,
    start_of_torchtitan, start_of_deepspeed, start_of_neox, start_of_picotron, start_of_foundry};

struct StartRecipe {
  std::string_view trainer, model, name;
};
/// Of torchtitan those that recompute as `constants` says; of picotron models of that shape.
constexpr std::array<StartRecipe, 5> recipes{{{"torchtitan", "llama-3-8b", "llama3_8b"},
    {"megatron-bridge", "llama-3-8b", "llama3_8b_pretrain_2gpu_h100_bf16_config"},
    {"megatron-bridge", "llama-3-70b", "llama3_70b_pretrain_32gpu_h100_bf16_config"},
    {"picotron", "llama-3-8b", "meta-llama/Meta-Llama-3-8B"},
    {"picotron", "llama-3-70b", "meta-llama/Meta-Llama-3-70B"}}};

/// As they stand in the list of `argv`.
std::string lines_of(const std::vector<std::string>& words) {
  constexpr std::size_t width = 105;
  constexpr std::string_view indent = "     ";
  std::string text;
  std::size_t used = indent.size();
  for (const std::string& word : words) {
    const std::string_view quote = word.find('{') != std::string::npos ? "\"" : "";
    const std::string item = fmt::format("{0}{1}{0},", quote, word);
    if (!text.empty() && used + 1 + item.size() > width) {
      text += fmt::format("\n{}", indent);
      used = indent.size();
    } else if (!text.empty()) {
      text += ' ';
      ++used;
    }
    text += item;
    used += item.size();
  }
  return text;
}

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
  return fault(FaultKind::invalid_input,
      fmt::format("--trainer knows {}; got {}.", fmt::join(names, ", "), in_quotes(name)));
}

std::vector<std::string_view> models_of(const TrainerStart& start) {
  std::vector<std::string_view> models;
  for (const StartRecipe& one : recipes) {
    if (one.trainer == start.name) models.push_back(one.model);
  }
  return models;
}

Result<std::string> rest_of(const TrainerStart& start, std::string_view model) {
  std::string text(start.rest);
  constexpr std::string_view layout_mark = "@LAYOUT@";
  if (const auto layout = text.find(layout_mark); layout != std::string::npos)
    text.replace(layout, layout_mark.size(),
        lines_of(start.name == "megatron" ? told_to_megatron() : told_to_bridge()));
  if (!start.has_recipes) return text;
  const auto* found = std::find_if(recipes.begin(), recipes.end(),
      [&](const StartRecipe& one) { return one.trainer == start.name && one.model == model; });
  if (found == recipes.end()) {
    return fault(FaultKind::invalid_input,
        fmt::format("{} has a recipe for each model. Begin with --model {}, and name "
                    "yours in the file",
            start.name, fmt::join(models_of(start), " or ")));
  }
  constexpr std::string_view mark = "@RECIPE@";
  return text.replace(text.find(mark), mark.size(), found->name);
}

}  // namespace shardsweep
