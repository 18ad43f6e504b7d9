// SPDX-License-Identifier: Apache-2.0
#include "trainer/configuration.hpp"

#include "text/characters.hpp"
#include "trainer/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsweep {
namespace {

using Write = Result<std::string> (*)(const TrainerLayout&);
using Read = Result<TrainerLayout> (*)(std::string_view, std::int64_t gpus);

struct Configurable {
  std::string_view name;
  Write write;
  Read read;
};

tl::unexpected<Fault> no_words(std::string_view trainer, std::string_view axis,
                               std::string_view value) {
  return fault(FaultKind::invalid_input,
               fmt::format("{} has no words for {} {}", trainer, axis, value));
}

/// A degree that a configuration does not set is 1; so is none of zero.
Result<std::int64_t> degree(const Settings& settings, std::string_view name) {
  SHARDSWEEP_ASSIGN(const std::int64_t value, settings.number(name, 1));
  if (value < 1)
    return fault(FaultKind::invalid_input, fmt::format("{}: a degree is 1 or more", name));
  return value;
}

/// dp from the GPUs, and grad_accum from the samples of a train step.
Result<void> derive(TrainerLayout& layout, std::int64_t gpus, std::int64_t global_batch) {
  const std::int64_t rest = layout.tp * layout.pp * layout.cp;
  if (gpus <= 0)
    return fault(FaultKind::invalid_input, "how many GPUs? It derives dp from them");
  if (gpus % rest != 0)
    return fault(FaultKind::invalid_input,
                 fmt::format("{} GPUs do not divide into tp {} x pp {} x cp {}", gpus,
                             layout.tp, layout.pp, layout.cp));
  layout.dp = gpus / rest;
  const std::int64_t samples = layout.dp * layout.micro_batch;
  if (global_batch == 0) global_batch = samples;
  if (global_batch % samples != 0)
    return fault(FaultKind::invalid_input,
                 fmt::format("{} samples per train step do not divide into dp {} x micro-batch "
                             "{}",
                             global_batch, layout.dp, layout.micro_batch));
  layout.grad_accum = global_batch / samples;
  return {};
}

// ---- Megatron-LM: flags. dp is what the other degrees leave of the GPUs.

constexpr std::array<std::string_view, 4> sharding{"no_shard", "optim", "optim_grads",
                                                   "optim_grads_params"};

Result<std::int64_t> stage_of(const Settings& settings, std::string_view name) {
  const auto word = settings.text(name);
  const auto* found = std::find(sharding.begin(), sharding.end(), word);
  if (found == sharding.end())
    return fault(FaultKind::invalid_input,
                 fmt::format("{}: unknown word {}", name, in_quotes(word)));
  return found - sharding.begin();
}

Result<std::string> write_megatron(const TrainerLayout& layout) {
  if (layout.schedule != "1f1b") return no_words("megatron", "schedule", layout.schedule);
  std::string text = fmt::format(
      "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} "
      "--context-parallel-size {} --expert-model-parallel-size {} "
      "--micro-batch-size {} --global-batch-size {}",
      layout.tp, layout.pp, layout.cp, layout.ep, layout.micro_batch, layout.global_batch());
  if (layout.seq_len > 0) text += fmt::format(" --seq-length {}", layout.seq_len);
  if (layout.sequence_parallel) text += " --sequence-parallel";
  if (layout.dp_replicate > 1 && layout.zero != 1)
    return no_words("megatron", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.zero == 1) text += " --use-distributed-optimizer";
  if (layout.dp_replicate > 1)
    text += fmt::format(" --num-distributed-optimizer-instances {}", layout.dp_replicate);
  if (layout.zero > 1)
    text += fmt::format(" --use-megatron-fsdp --data-parallel-sharding-strategy {}",
                        sharding.at(static_cast<std::size_t>(layout.zero)));
  if (layout.recompute == "full")
    text += " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  if (layout.recompute == "selective") text += " --recompute-granularity selective";
  return text + "\n";
}

Result<TrainerLayout> read_megatron(std::string_view text, std::int64_t gpus) {
  const Settings flags = Settings::of_flags(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(flags, "--tensor-model-parallel-size"));
  SHARDSWEEP_ASSIGN(layout.pp, degree(flags, "--pipeline-model-parallel-size"));
  SHARDSWEEP_ASSIGN(layout.cp, degree(flags, "--context-parallel-size"));
  SHARDSWEEP_ASSIGN(layout.ep, degree(flags, "--expert-model-parallel-size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(flags, "--micro-batch-size"));
  SHARDSWEEP_ASSIGN(layout.seq_len, flags.number("--seq-length", 0));
  SHARDSWEEP_ASSIGN(const std::int64_t batch, flags.number("--global-batch-size", 0));
  SHARDSWEEP_TRY(derive(layout, gpus, batch));
  layout.sequence_parallel = flags.has("--sequence-parallel");
  layout.zero = flags.has("--use-distributed-optimizer") ? 1 : 0;
  SHARDSWEEP_ASSIGN(layout.dp_replicate,
                    degree(flags, "--num-distributed-optimizer-instances"));
  if (flags.has("--data-parallel-sharding-strategy")) {
    SHARDSWEEP_ASSIGN(layout.zero, stage_of(flags, "--data-parallel-sharding-strategy"));
  }
  if (const auto word = flags.text("--recompute-granularity"); !word.empty())
    layout.recompute = word;
  if (flags.has("--recompute-activations")) layout.recompute = "selective";
  return layout;
}

// ---- Megatron-Bridge: overrides behind the recipe. dp is what the other degrees leave.

Result<std::string> write_bridge(const TrainerLayout& layout) {
  if (layout.schedule != "1f1b")
    return no_words("megatron-bridge", "schedule", layout.schedule);
  if (layout.dp_replicate > 1 && layout.zero != 1)
    return no_words("megatron-bridge", "dp_replicate", std::to_string(layout.dp_replicate));
  std::string text = fmt::format(
      "model.tensor_model_parallel_size={} model.pipeline_model_parallel_size={} "
      "model.context_parallel_size={} model.expert_model_parallel_size={} "
      "train.micro_batch_size={} train.global_batch_size={} model.sequence_parallel={}",
      layout.tp, layout.pp, layout.cp, layout.ep, layout.micro_batch, layout.global_batch(),
      layout.sequence_parallel);
  if (layout.seq_len > 0) text += fmt::format(" model.seq_length={}", layout.seq_len);
  text += fmt::format(" ddp.use_distributed_optimizer={}", layout.zero == 1);
  if (layout.dp_replicate > 1)
    text += fmt::format(" ddp.num_distributed_optimizer_instances={}", layout.dp_replicate);
  if (layout.zero > 1)
    text += fmt::format(" dist.use_megatron_fsdp=true ddp.data_parallel_sharding_strategy={}",
                        sharding.at(static_cast<std::size_t>(layout.zero)));
  if (layout.recompute == "full")
    text +=
        " model.recompute_granularity=full model.recompute_method=uniform "
        "model.recompute_num_layers=1";
  if (layout.recompute == "selective") text += " model.recompute_granularity=selective";
  return text + "\n";
}

Result<TrainerLayout> read_bridge(std::string_view text, std::int64_t gpus) {
  const Settings words = Settings::of_overrides(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(words, "model.tensor_model_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.pp, degree(words, "model.pipeline_model_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.cp, degree(words, "model.context_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.ep, degree(words, "model.expert_model_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(words, "train.micro_batch_size"));
  SHARDSWEEP_ASSIGN(layout.seq_len, words.number("model.seq_length", 0));
  SHARDSWEEP_ASSIGN(const std::int64_t batch, words.number("train.global_batch_size", 0));
  SHARDSWEEP_TRY(derive(layout, gpus, batch));
  SHARDSWEEP_ASSIGN(layout.dp_replicate,
                    degree(words, "ddp.num_distributed_optimizer_instances"));
  layout.sequence_parallel = words.is_true("model.sequence_parallel");
  layout.zero = words.is_true("ddp.use_distributed_optimizer") ? 1 : 0;
  if (words.has("ddp.data_parallel_sharding_strategy")) {
    SHARDSWEEP_ASSIGN(layout.zero, stage_of(words, "ddp.data_parallel_sharding_strategy"));
  }
  if (const auto word = words.text("model.recompute_granularity"); !word.empty())
    layout.recompute = word;
  return layout;
}

// ---- nanotron: YAML.

Result<std::string> write_nanotron(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("nanotron", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.zero > 1) return no_words("nanotron", "zero", std::to_string(layout.zero));
  if (layout.recompute == "selective") return no_words("nanotron", "recompute", "selective");
  if (layout.schedule != "1f1b" && layout.schedule != "afab")
    return no_words("nanotron", "schedule", layout.schedule);
  std::string text = fmt::format(
      "parallelism:\n  dp: {}\n  pp: {}\n  tp: {}\n  context_parallel_size: {}\n"
      "  expert_parallel_size: {}\n  pp_engine: {}\n  tp_mode: {}\n  recompute_layer: {}\n"
      "tokens:\n  micro_batch_size: {}\n  batch_accumulation_per_replica: {}\n",
      layout.dp, layout.pp, layout.tp, layout.cp, layout.ep, layout.schedule,
      layout.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE", layout.recompute == "full",
      layout.micro_batch, layout.grad_accum);
  if (layout.seq_len > 0) text += fmt::format("  sequence_length: {}\n", layout.seq_len);
  return text + fmt::format("optimizer:\n  zero_stage: {}\n", layout.zero);
}

Result<TrainerLayout> read_nanotron(std::string_view text, std::int64_t /*gpus*/) {
  const Settings yaml = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.dp, degree(yaml, "dp"));
  SHARDSWEEP_ASSIGN(layout.pp, degree(yaml, "pp"));
  SHARDSWEEP_ASSIGN(layout.tp, degree(yaml, "tp"));
  SHARDSWEEP_ASSIGN(layout.cp, degree(yaml, "context_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.ep, degree(yaml, "expert_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(yaml, "micro_batch_size"));
  SHARDSWEEP_ASSIGN(layout.grad_accum, degree(yaml, "batch_accumulation_per_replica"));
  SHARDSWEEP_ASSIGN(layout.seq_len, yaml.number("sequence_length", 0));
  SHARDSWEEP_ASSIGN(layout.zero, yaml.number("zero_stage", 0));
  if (const auto word = yaml.text("pp_engine"); !word.empty()) layout.schedule = word;
  layout.sequence_parallel = yaml.text("tp_mode") == "REDUCE_SCATTER";
  if (yaml.is_true("recompute_layer")) layout.recompute = "full";
  return layout;
}

// ---- torchtitan up to v0.2.2: TOML. A pipeline's micro-batches are parts of the local batch.

Result<std::string> write_torchtitan(const TrainerLayout& layout) {
  if (layout.zero == 1) return no_words("torchtitan", "zero", "1");
  if (layout.dp_replicate > 1 && (layout.zero == 0 || layout.dp % layout.dp_replicate != 0))
    return no_words("torchtitan", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.schedule != "1f1b" && layout.schedule != "afab")
    return no_words("torchtitan", "schedule", layout.schedule);
  const bool pipelined = layout.pp > 1;
  std::string text =
      fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n",
                  pipelined ? layout.micro_batch * layout.grad_accum : layout.micro_batch,
                  layout.global_batch());
  if (layout.seq_len > 0) text += fmt::format("seq_len = {}\n", layout.seq_len);
  text += fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\n"
      "context_parallel_degree = {}\nexpert_parallel_degree = {}\n",
      layout.zero == 0 ? layout.dp : layout.dp_replicate,
      layout.zero == 0 ? 1 : layout.dp / layout.dp_replicate, layout.tp, layout.pp, layout.cp,
      layout.ep);
  if (layout.zero > 0)
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n",
                        layout.zero == 3 ? "always" : "never");
  if (pipelined)
    text += fmt::format(
        "pipeline_parallel_microbatch_size = {}\n"
        "pipeline_parallel_schedule = \"{}\"\n",
        layout.micro_batch, layout.schedule == "afab" ? "GPipe" : "1F1B");
  return text + fmt::format("[activation_checkpoint]\nmode = \"{}\"\n", layout.recompute);
}

Result<TrainerLayout> read_torchtitan(std::string_view text, std::int64_t gpus) {
  const Settings toml = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(toml, "tensor_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.pp, degree(toml, "pipeline_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.cp, degree(toml, "context_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.ep, degree(toml, "expert_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.seq_len, toml.number("seq_len", 0));
  SHARDSWEEP_ASSIGN(const std::int64_t replicas,
                    degree(toml, "data_parallel_replicate_degree"));
  const bool all_rest = toml.text("data_parallel_shard_degree") == "-1";
  std::int64_t shards = 1;
  if (!all_rest) {
    SHARDSWEEP_ASSIGN(shards, degree(toml, "data_parallel_shard_degree"));
  } else if (gpus > 0) {
    shards = gpus / (replicas * layout.tp * layout.pp * layout.cp);
  } else {
    return fault(FaultKind::invalid_input, "how many GPUs? It derives dp from them");
  }
  layout.dp = replicas * std::max<std::int64_t>(shards, 1);
  const auto reshard = toml.text("fsdp_reshard_after_forward");
  // Its default keeps weights gathered in a pipeline alone.
  const bool gathered = reshard == "never" || (reshard != "always" && layout.pp > 1);
  if (shards > 1 || !reshard.empty()) layout.zero = gathered ? 2 : 3;
  if (layout.zero > 0) layout.dp_replicate = replicas;
  SHARDSWEEP_ASSIGN(const std::int64_t local, degree(toml, "local_batch_size"));
  layout.micro_batch = local;
  if (layout.pp > 1) {
    SHARDSWEEP_ASSIGN(layout.micro_batch, degree(toml, "pipeline_parallel_microbatch_size"));
  }
  SHARDSWEEP_ASSIGN(const std::int64_t batch, toml.number("global_batch_size", 0));
  SHARDSWEEP_TRY(derive(layout, layout.gpus(), batch > 0 ? batch : local * layout.dp));
  if (toml.text("pipeline_parallel_schedule") == "GPipe") layout.schedule = "afab";
  if (const auto mode = toml.text("mode"); !mode.empty()) layout.recompute = mode;
  return layout;
}

// ---- DeepSpeed: JSON. Pipeline stages and recompute are in the trainer's own code.

Result<std::string> write_deepspeed(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("deepspeed", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.pp > 1) return no_words("deepspeed", "pp", std::to_string(layout.pp));
  if (layout.cp > 1) return no_words("deepspeed", "cp", std::to_string(layout.cp));
  if (layout.recompute != "none") return no_words("deepspeed", "recompute", layout.recompute);
  std::string text = fmt::format(
      "{{\n  \"train_batch_size\": {},\n"
      "  \"train_micro_batch_size_per_gpu\": {},\n"
      "  \"gradient_accumulation_steps\": {},\n",
      layout.global_batch(), layout.micro_batch, layout.grad_accum);
  if (layout.tp > 1)
    text +=
        fmt::format("  \"tensor_parallel\": {{\n    \"autotp_size\": {}\n  }},\n", layout.tp);
  return text +
         fmt::format("  \"zero_optimization\": {{\n    \"stage\": {}\n  }}\n}}\n", layout.zero);
}

Result<TrainerLayout> read_deepspeed(std::string_view text, std::int64_t gpus) {
  const Settings json = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(json, "autotp_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(json, "train_micro_batch_size_per_gpu"));
  SHARDSWEEP_ASSIGN(layout.zero, json.number("stage", 0));
  SHARDSWEEP_ASSIGN(const std::int64_t steps, json.number("gradient_accumulation_steps", 0));
  SHARDSWEEP_ASSIGN(std::int64_t batch, json.number("train_batch_size", 0));
  if (batch == 0 && gpus > 0 && steps > 0)
    batch = gpus / layout.tp * layout.micro_batch * steps;
  SHARDSWEEP_TRY(derive(layout, gpus, batch));
  return layout;
}

// ---- GPT-NeoX: YAML. dp is what the other degrees leave of the GPUs.

Result<std::string> write_neox(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("gpt-neox", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.cp > 1) return no_words("gpt-neox", "cp", std::to_string(layout.cp));
  if (layout.recompute == "selective") return no_words("gpt-neox", "recompute", "selective");
  if (layout.schedule != "1f1b") return no_words("gpt-neox", "schedule", layout.schedule);
  std::string text = fmt::format(
      "pipe_parallel_size: {}\nmodel_parallel_size: {}\nsequence_parallel: {}\n"
      "train_micro_batch_size_per_gpu: {}\ngradient_accumulation_steps: {}\n"
      "checkpoint_activations: {}\ncheckpoint_num_layers: 1\n",
      layout.pp, layout.tp, layout.sequence_parallel, layout.micro_batch, layout.grad_accum,
      layout.recompute == "full");
  if (layout.seq_len > 0) text += fmt::format("seq_length: {}\n", layout.seq_len);
  return text + fmt::format("zero_optimization:\n  stage: {}\n", layout.zero);
}

Result<TrainerLayout> read_neox(std::string_view text, std::int64_t gpus) {
  const Settings yaml = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.pp, degree(yaml, "pipe_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.tp, degree(yaml, "model_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(yaml, "train_micro_batch_size_per_gpu"));
  SHARDSWEEP_ASSIGN(const std::int64_t steps, degree(yaml, "gradient_accumulation_steps"));
  SHARDSWEEP_ASSIGN(layout.seq_len, yaml.number("seq_length", 0));
  SHARDSWEEP_ASSIGN(layout.zero, yaml.number("stage", 0));
  SHARDSWEEP_TRY(derive(layout, gpus, 0));
  layout.grad_accum = steps;
  layout.sequence_parallel = yaml.is_true("sequence_parallel");
  if (yaml.is_true("checkpoint_activations")) layout.recompute = "full";
  return layout;
}

// ---- picotron: JSON.

Result<std::string> write_picotron(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("picotron", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.zero != 0) return no_words("picotron", "zero", std::to_string(layout.zero));
  if (layout.recompute != "none") return no_words("picotron", "recompute", layout.recompute);
  if (layout.schedule != "1f1b" && layout.schedule != "afab")
    return no_words("picotron", "schedule", layout.schedule);
  const std::string length =
      layout.seq_len > 0 ? fmt::format(",\n    \"seq_length\": {}", layout.seq_len) : "";
  return fmt::format(
      "{{\n  \"distributed\": {{\n    \"tp_size\": {},\n    \"cp_size\": {},\n"
      "    \"pp_size\": {},\n    \"dp_size\": {},\n    \"pp_engine\": \"{}\"\n"
      "  }},\n  \"training\": {{\n    \"micro_batch_size\": {},\n"
      "    \"gradient_accumulation_steps\": {}{}\n  }}\n}}\n",
      layout.tp, layout.cp, layout.pp, layout.dp, layout.schedule, layout.micro_batch,
      layout.grad_accum, length);
}

Result<TrainerLayout> read_picotron(std::string_view text, std::int64_t /*gpus*/) {
  const Settings json = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(json, "tp_size"));
  SHARDSWEEP_ASSIGN(layout.cp, degree(json, "cp_size"));
  SHARDSWEEP_ASSIGN(layout.pp, degree(json, "pp_size"));
  SHARDSWEEP_ASSIGN(layout.dp, degree(json, "dp_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(json, "micro_batch_size"));
  SHARDSWEEP_ASSIGN(layout.grad_accum, degree(json, "gradient_accumulation_steps"));
  SHARDSWEEP_ASSIGN(layout.seq_len, json.number("seq_length", 0));
  if (const auto word = json.text("pp_engine"); !word.empty()) layout.schedule = word;
  return layout;
}

// ---- llm-foundry: YAML. dp is what tp leaves of the GPUs.

constexpr std::array<std::string_view, 4> foundry_sharding{"NO_SHARD", "", "SHARD_GRAD_OP",
                                                           "FULL_SHARD"};

Result<std::string> write_foundry(const TrainerLayout& layout) {
  const std::array<std::pair<std::string_view, std::int64_t>, 4> one_alone{
      {{"pp", layout.pp},
       {"cp", layout.cp},
       {"ep", layout.ep},
       {"dp_replicate", layout.dp_replicate}}};
  for (const auto& [axis, value] : one_alone) {
    if (value > 1) return no_words("llm-foundry", axis, std::to_string(value));
  }
  if (layout.zero == 1) return no_words("llm-foundry", "zero", "1");
  if (layout.recompute == "selective") return no_words("llm-foundry", "recompute", "selective");
  std::string text =
      fmt::format("global_train_batch_size: {}\ndevice_train_microbatch_size: {}\n",
                  layout.global_batch(), layout.micro_batch);
  if (layout.seq_len > 0) text += fmt::format("max_seq_len: {}\n", layout.seq_len);
  text += fmt::format("fsdp_config:\n  sharding_strategy: {}\n  activation_checkpointing: {}\n",
                      foundry_sharding.at(static_cast<std::size_t>(layout.zero)),
                      layout.recompute == "full");
  if (layout.tp > 1)
    text += fmt::format("tp_config:\n  tensor_parallel_degree: {}\n", layout.tp);
  return text;
}

Result<TrainerLayout> read_foundry(std::string_view text, std::int64_t gpus) {
  const Settings yaml = Settings::of_lines(text);
  TrainerLayout layout;
  if (yaml.text("device_train_microbatch_size") == "auto")
    return fault(FaultKind::invalid_input,
                 "device_train_microbatch_size: auto says no micro-batch; write a number");
  SHARDSWEEP_ASSIGN(layout.tp, degree(yaml, "tensor_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(yaml, "device_train_microbatch_size"));
  SHARDSWEEP_ASSIGN(layout.seq_len, yaml.number("max_seq_len", 0));
  SHARDSWEEP_ASSIGN(const std::int64_t batch, yaml.number("global_train_batch_size", 0));
  SHARDSWEEP_TRY(derive(layout, gpus, batch));
  if (const auto word = yaml.text("sharding_strategy"); !word.empty()) {
    const auto* found = std::find(foundry_sharding.begin(), foundry_sharding.end(), word);
    if (found == foundry_sharding.end())
      return fault(FaultKind::invalid_input,
                   fmt::format("sharding_strategy: no stage of ZeRO is {}", in_quotes(word)));
    layout.zero = found - foundry_sharding.begin();
  }
  if (yaml.is_true("activation_checkpointing")) layout.recompute = "full";
  return layout;
}

constexpr std::array<Configurable, 8> configurable{
    {{"megatron", write_megatron, read_megatron},
     {"megatron-bridge", write_bridge, read_bridge},
     {"nanotron", write_nanotron, read_nanotron},
     {"torchtitan", write_torchtitan, read_torchtitan},
     {"deepspeed", write_deepspeed, read_deepspeed},
     {"gpt-neox", write_neox, read_neox},
     {"picotron", write_picotron, read_picotron},
     {"llm-foundry", write_foundry, read_foundry}}};

// Names as in the trainers' own files, without what they are nested in.
// clang-format off
constexpr auto names_of_axes = std::to_array<AxisNames>({
    {"dp", {"", "", "dp", "data_parallel_shard_degree", "", "", "dp_size", ""}},
    {"tp", {"--tensor-model-parallel-size", "model.tensor_model_parallel_size", "tp", "tensor_parallel_degree", "autotp_size", "model_parallel_size", "tp_size", "tensor_parallel_degree"}},
    {"pp", {"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size", "pp", "pipeline_parallel_degree", "", "pipe_parallel_size", "pp_size", ""}},
    {"cp", {"--context-parallel-size", "model.context_parallel_size", "context_parallel_size", "context_parallel_degree", "", "", "cp_size", ""}},
    {"ep", {"--expert-model-parallel-size", "model.expert_model_parallel_size", "expert_parallel_size", "expert_parallel_degree", "", "", "", ""}},
    {"dp_replicate", {"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances", "", "data_parallel_replicate_degree", "", "", "", ""}},
    {"seq_len", {"--seq-length", "model.seq_length", "sequence_length", "seq_len", "", "seq_length", "seq_length", "max_seq_len"}},
    {"micro_batch", {"--micro-batch-size", "train.micro_batch_size", "micro_batch_size", "local_batch_size", "train_micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu", "micro_batch_size", "device_train_microbatch_size"}},
    {"grad_accum", {"", "", "batch_accumulation_per_replica", "", "gradient_accumulation_steps", "gradient_accumulation_steps", "gradient_accumulation_steps", ""}},
    {"global_batch", {"--global-batch-size", "train.global_batch_size", "", "global_batch_size", "train_batch_size", "", "", "global_train_batch_size"}},
    {"zero", {"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy", "zero_stage", "fsdp_reshard_after_forward", "stage", "stage", "", "sharding_strategy"}},
    {"zero 1", {"--use-distributed-optimizer", "ddp.use_distributed_optimizer", "zero_stage", "", "stage", "stage", "", ""}},
    {"recompute", {"--recompute-granularity", "model.recompute_granularity", "recompute_layer", "mode", "", "checkpoint_activations", "", "activation_checkpointing"}},
    {"schedule", {"", "", "pp_engine", "pipeline_parallel_schedule", "", "", "pp_engine", ""}},
    {"sequence_parallel", {"--sequence-parallel", "model.sequence_parallel", "tp_mode", "", "", "sequence_parallel", "", ""}},
});
// clang-format on

constexpr auto configurable_names = [] {
  std::array<std::string_view, configurable.size()> list{};
  for (std::size_t i = 0; i < configurable.size(); ++i)
    list[i] = configurable[i].name;
  return list;
}();

Result<const Configurable*> find_configurable(std::string_view trainer) {
  const auto* found = std::find_if(configurable.begin(), configurable.end(),
                                   [&](const auto& one) { return one.name == trainer; });
  if (found == configurable.end())
    return fault(FaultKind::invalid_input,
                 fmt::format("no configuration of {} can be written; the trainers are {}",
                             in_quotes(trainer), fmt::join(configurable_names, ", ")));
  return found;
}

}  // namespace

std::span<const std::string_view> configurable_trainers() {
  return configurable_names;
}

std::span<const AxisNames> axis_names() {
  return names_of_axes;
}

Result<std::string> configuration_of(std::string_view trainer, const TrainerLayout& layout) {
  SHARDSWEEP_ASSIGN(const Configurable* found, find_configurable(trainer));
  return found->write(layout);
}

Result<TrainerLayout> layout_of(std::string_view trainer, std::string_view text,
                                std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const Configurable* found, find_configurable(trainer));
  return found->read(text, gpus);
}

}  // namespace shardsweep
