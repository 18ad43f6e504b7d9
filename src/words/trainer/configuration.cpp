// SPDX-License-Identifier: Apache-2.0
#include "trainer/configuration.hpp"

#include "text/characters.hpp"
#include "trainer/axis_words.hpp"
#include "trainer/layout_words.hpp"
#include "trainer/megatron_words.hpp"
#include "trainer/point_words.hpp"
#include "trainer/settings.hpp"
#include "trainer/shell_script.hpp"
#include "trainer/trainer_file.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace shardsweep {
namespace {

using Write = Result<std::string> (*)(const TrainerLayout&);
using Read = Result<TrainerLayout> (*)(std::string_view, std::int64_t gpus);

struct Configurable {
  std::string_view name;
  Write write;
  Read read;
  /// Of the axes that few trainers have words for, those that this one has.
  std::array<std::string_view, 10> more{};
};

/// Of a trainer that spreads neither experts over ranks nor the sequence between its TP
/// regions.
Result<void> check_neither_experts_nor_sequences(
    std::string_view trainer, const TrainerLayout& layout) {
  if (layout.ep > 1) return no_words(trainer, "ep", std::to_string(layout.ep));
  if (layout.sequence_parallel) return no_words(trainer, "sequence_parallel", "true");
  return {};
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
  // What evaluates beside it may have a layout of its own.
  const Settings yaml = Settings::of_lines(text, "lighteval");
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

// ---- torchtitan up to v0.2.2: TOML, and behind it the options of today. A pipeline's
// micro-batches are parts of the local batch.

struct TitanSchedule {
  std::string_view word, schedule;
  std::int64_t vpp;
};
// Of schedules with several stages for a rank there are two, unless layers_per_stage is set.
constexpr std::array<TitanSchedule, 4> titan_schedules{{{"1F1B", "1f1b", 1}, {"GPipe", "afab", 1},
    {"Interleaved1F1B", "1f1b", 2}, {"ZBVZeroBubble", "zb-v", 2}}};

Result<void> read_titan_schedule(TrainerLayout& layout, const Settings& toml) {
  constexpr std::string_view name = "pipeline_parallel_schedule";
  constexpr std::string_view by_layers = "pipeline_parallel_layers_per_stage";
  const auto word = toml.text(name);
  if (word.empty()) return {};
  const auto* found = std::find_if(titan_schedules.begin(), titan_schedules.end(),
      [&](const auto& one) { return one.word == word; });
  if (found == titan_schedules.end())
    return fault(FaultKind::invalid_input,
        fmt::format("{}: {} is none of 1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble", name,
            in_quotes(word)));
  if (found->vpp > 1 && toml.has(by_layers))
    return fault(FaultKind::invalid_input,
        fmt::format("{}: the model's layers are not told here. Leave it out where a "
                    "rank has two stages.",
            by_layers));
  layout.schedule = found->schedule;
  layout.vpp = found->vpp;
  return {};
}

/// By how many layers the first and the last stage have less than the others; 1 each unless it
/// is told.
struct TitanStages {
  std::int64_t first = 0, last = 0;
};
constexpr std::string_view titan_first = "pipeline_parallel_first_stage_less_layers";
constexpr std::string_view titan_last = "pipeline_parallel_last_stage_less_layers";

Result<TitanStages> titan_stages(const TrainerLayout& layout) {
  const auto first = layout.first_stage_layers;
  const auto last = layout.last_stage_layers;
  if (first == 0 && last == 0) return TitanStages{};
  const MiddleStages middle(layout.layers, layout.pp, first, last);
  // Of two stages each is the others' measure.
  const auto between = middle.stages > 0 ? middle.layers / middle.stages : std::max(first, last);
  const TitanStages less{first > 0 ? between - first : 0, last > 0 ? between - last : 0};
  if (layout.layers == 0 || layout.vpp > 1 || less.first < 0 || less.last < 0)
    return no_words("torchtitan", first > 0 ? "first_stage_layers" : "last_stage_layers",
        fmt::format("{} of {} layers", first > 0 ? first : last, layout.layers));
  return less;
}

/// The same for a torchtitan that reads no TOML: its options count tokens (config/configs.py of
/// 2026-08-21). Recompute is of its recipes there.
std::string titan_options(
    const TrainerLayout& layout, std::string_view schedule, const TitanStages& stages) {
  const std::int64_t replicas = layout.zero == 0 ? layout.dp : layout.dp_replicate;
  std::string text = "# Without this file, since August 2026:\n";
  const auto add = [&](std::string_view option, const auto& value) {
    text += fmt::format("#   --{}={}\n", option, value);
  };
  if (layout.seq_len > 0) {
    add("training.num_tokens_per_microbatch_per_dp_rank", layout.micro_batch * layout.seq_len);
    add("training.num_tokens_per_train_step", layout.global_batch() * layout.seq_len);
    add("training.max_context_length", layout.seq_len);
  }
  add("parallelism.data_parallel_replicate_degree", replicas);
  add("parallelism.data_parallel_shard_degree", layout.dp / replicas);
  if (layout.zero > 0)
    add("parallelism.fsdp_reshard_after_forward", layout.zero == 3 ? "always" : "never");
  add("parallelism.tensor_parallel_degree", layout.tp);
  add("parallelism.context_parallel_degree", layout.cp);
  add("parallelism.expert_parallel_degree", layout.ep);
  add("parallelism.pipeline_parallel_degree", layout.pp);
  if (layout.pp > 1) {
    add("parallelism.pipeline_parallel_schedule", schedule);
    add("parallelism.num_pp_microbatches", layout.grad_accum);
    text += "#   --training.disable_cuda_graphs\n";
    add(fmt::format("parallelism.{}", titan_first), stages.first);
    add(fmt::format("parallelism.{}", titan_last), stages.last);
  }
  if (layout.offload == "all") text += "#   --training.enable_cpu_offload\n";
  return text;
}

Result<std::string> write_torchtitan(const TrainerLayout& layout) {
  // Its tensor parallelism splits the sequence too, always.
  if (layout.sequence_parallel != (layout.tp > 1))
    return no_words("torchtitan", "sequence_parallel",
        fmt::format("{} with tp {}", layout.sequence_parallel, layout.tp));
  if (layout.zero == 1) return no_words("torchtitan", "zero", "1");
  if (layout.dp_replicate > 1 && (layout.zero == 0 || layout.dp % layout.dp_replicate != 0))
    return no_words("torchtitan", "dp_replicate", std::to_string(layout.dp_replicate));
  const auto* schedule = std::find_if(titan_schedules.begin(), titan_schedules.end(),
      [&](const auto& one) { return one.schedule == layout.schedule && one.vpp == layout.vpp; });
  if (schedule == titan_schedules.end() && layout.schedule == "1f1b")
    return no_words("torchtitan", "vpp", std::to_string(layout.vpp));
  if (schedule == titan_schedules.end()) return no_words("torchtitan", "schedule", layout.schedule);
  SHARDSWEEP_ASSIGN(const TitanStages stages, titan_stages(layout));
  // It spreads whole experts over the ranks of tp too.
  if (layout.ep > 1 && layout.tp > 1 && layout.expert_tp != 1)
    return no_words("torchtitan", "expert_tp",
        fmt::format("{} with tp {}; it has 1", layout.expert_tp, layout.tp));
  if (layout.expert_tp > 0 && (layout.ep == 1 || layout.tp == 1))
    return no_words("torchtitan", "expert_tp",
        fmt::format("{} with ep {} and tp {}", layout.expert_tp, layout.ep, layout.tp));
  if (layout.offload == "optimizer" || (layout.offload == "all" && layout.zero == 0))
    return no_words(
        "torchtitan", "offload", fmt::format("{} with zero {}", layout.offload, layout.zero));
  const bool pipelined = layout.pp > 1;
  std::string text = fmt::format("[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n",
      pipelined ? layout.micro_batch * layout.grad_accum : layout.micro_batch,
      layout.global_batch());
  if (layout.seq_len > 0) text += fmt::format("seq_len = {}\n", layout.seq_len);
  if (layout.offload == "all") text += "enable_cpu_offload = true\n";
  text += fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\npipeline_parallel_degree = {}\n"
      "context_parallel_degree = {}\nexpert_parallel_degree = {}\n",
      layout.zero == 0 ? layout.dp : layout.dp_replicate,
      layout.zero == 0 ? 1 : layout.dp / layout.dp_replicate, layout.tp, layout.pp, layout.cp,
      layout.ep);
  if (layout.expert_tp > 0)
    text += fmt::format("expert_tensor_parallel_degree = {}\n", layout.expert_tp);
  if (layout.zero > 0)
    text +=
        fmt::format("fsdp_reshard_after_forward = \"{}\"\n", layout.zero == 3 ? "always" : "never");
  if (pipelined)
    text += fmt::format(
        "pipeline_parallel_microbatch_size = {}\n"
        "pipeline_parallel_schedule = \"{}\"\n{} = {}\n{} = {}\n",
        layout.micro_batch, schedule->word, titan_first, stages.first, titan_last, stages.last);
  return text + fmt::format("[activation_checkpoint]\nmode = \"{}\"\n", layout.recompute) +
      titan_options(layout, schedule->word, stages);
}

Result<TrainerLayout> read_torchtitan(std::string_view text, std::int64_t gpus) {
  const Settings toml = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(toml, "tensor_parallel_degree"));
  layout.sequence_parallel = layout.tp > 1;
  SHARDSWEEP_ASSIGN(layout.pp, degree(toml, "pipeline_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.cp, degree(toml, "context_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.ep, degree(toml, "expert_parallel_degree"));
  SHARDSWEEP_ASSIGN(layout.seq_len, toml.number("seq_len", 0));
  SHARDSWEEP_ASSIGN(const std::int64_t replicas, degree(toml, "data_parallel_replicate_degree"));
  // Its default is -1: what the other degrees leave.
  constexpr std::string_view shard_degree = "data_parallel_shard_degree";
  const bool all_rest = !toml.has(shard_degree) || toml.text(shard_degree) == "-1";
  std::int64_t shards = 1;
  if (!all_rest) {
    SHARDSWEEP_ASSIGN(shards, degree(toml, shard_degree));
  } else if (gpus > 0) {
    SHARDSWEEP_ASSIGN(
        const std::int64_t rest, product({replicas, layout.tp, layout.pp, layout.cp}));
    shards = gpus / rest;
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
  SHARDSWEEP_ASSIGN(
      const std::int64_t ranks, product({layout.dp, layout.tp, layout.pp, layout.cp}));
  SHARDSWEEP_ASSIGN(const std::int64_t usual_batch, product({local, layout.dp}));
  SHARDSWEEP_TRY(derive(layout, ranks, batch > 0 ? batch : usual_batch));
  if (layout.pp > 1) SHARDSWEEP_TRY(read_titan_schedule(layout, toml));
  for (const auto name : {titan_first, titan_last}) {
    SHARDSWEEP_ASSIGN(const std::int64_t less, toml.number(name, 0));
    if (less > 0)
      return fault(FaultKind::invalid_input,
          fmt::format("{}: the model's layers are not told here; write 0", name));
  }
  if (layout.ep > 1 && layout.tp > 1) {
    SHARDSWEEP_ASSIGN(layout.expert_tp, degree(toml, "expert_tensor_parallel_degree"));
    if (layout.expert_tp == layout.tp) layout.expert_tp = 0;
  }
  if (toml.is_true("enable_cpu_offload")) layout.offload = "all";
  if (const auto mode = toml.text("mode"); !mode.empty()) layout.recompute = mode;
  return layout;
}

// ---- DeepSpeed: JSON. Pipeline stages and recompute are in the trainer's own code.

Result<std::string> write_deepspeed(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("deepspeed", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.pp > 1) return no_words("deepspeed", "pp", std::to_string(layout.pp));
  if (layout.cp > 1) return no_words("deepspeed", "cp", std::to_string(layout.cp));
  SHARDSWEEP_TRY(check_neither_experts_nor_sequences("deepspeed", layout));
  if (layout.recompute != "none") return no_words("deepspeed", "recompute", layout.recompute);
  std::string text = fmt::format(
      "{{\n  \"train_batch_size\": {},\n"
      "  \"train_micro_batch_size_per_gpu\": {},\n"
      "  \"gradient_accumulation_steps\": {},\n",
      layout.global_batch(), layout.micro_batch, layout.grad_accum);
  if (layout.tp > 1)
    text += fmt::format("  \"tensor_parallel\": {{\n    \"autotp_size\": {}\n  }},\n", layout.tp);
  constexpr std::string_view to_host = ",\n    \"{}\": {{\n      \"device\": \"cpu\"\n    }}";
  std::string offload;
  if (layout.offload == "all" && layout.zero != 3)
    return no_words("deepspeed", "offload", fmt::format("all with zero {}", layout.zero));
  if (layout.offload != "none") offload += fmt::format(to_host, "offload_optimizer");
  if (layout.offload == "all") offload += fmt::format(to_host, "offload_param");
  return text +
      fmt::format(
          "  \"zero_optimization\": {{\n    \"stage\": {}{}\n  }}\n}}\n", layout.zero, offload);
}

Result<std::string> deepspeed_offload(const Settings& json) {
  const auto of = [&](std::string_view section) { return json.text_in(section, "device"); };
  for (const std::string_view section : {"offload_optimizer", "offload_param"}) {
    const auto device = of(section);
    if (device.empty() || device == "cpu" || device == "none") continue;
    return fault(FaultKind::invalid_input,
        fmt::format(
            "{}: offload is to the host's memory, device cpu, not {}", section, in_quotes(device)));
  }
  // Its names of before 0.3.16, which it still takes.
  const auto was_on = [&](std::string_view name) { return json.is_true(name); };
  if (of("offload_param") == "cpu" || was_on("cpu_offload_params")) return "all";
  const bool optimizer = of("offload_optimizer") == "cpu" || was_on("cpu_offload");
  return optimizer ? "optimizer" : "none";
}

/// A batch, micro-batches and their number: any one of them follows from the two others.
Result<void> read_batch(TrainerLayout& layout, const Settings& settings) {
  SHARDSWEEP_ASSIGN(const std::int64_t batch, settings.number("train_batch_size", 0));
  SHARDSWEEP_ASSIGN(layout.grad_accum, degree(settings, "gradient_accumulation_steps"));
  if (batch == 0) return {};
  const bool has_steps = settings.has("gradient_accumulation_steps");
  const bool has_size = settings.has("train_micro_batch_size_per_gpu");
  SHARDSWEEP_ASSIGN(const std::int64_t shares,
      product({layout.dp, has_size ? layout.micro_batch : layout.grad_accum}));
  const bool divides = batch % shares == 0;
  if (divides && !has_size) layout.micro_batch = batch / shares;
  if (divides && has_size && !has_steps) layout.grad_accum = batch / shares;
  if (divides && layout.global_batch() == batch) return {};
  return fault(FaultKind::invalid_input,
      fmt::format("{} samples per train step do not divide into dp {} x {}", batch, layout.dp,
          !has_size       ? fmt::format("{} accumulation steps", layout.grad_accum)
              : has_steps ? fmt::format("micro-batch {} x {} accumulation steps",
                                layout.micro_batch, layout.grad_accum)
                          : fmt::format("micro-batch {}", layout.micro_batch)));
}

Result<TrainerLayout> read_deepspeed(std::string_view text, std::int64_t gpus) {
  const Settings json = Settings::of_lines(text);
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(json, "autotp_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(json, "train_micro_batch_size_per_gpu"));
  SHARDSWEEP_ASSIGN(layout.zero, json.number("stage", 0));
  SHARDSWEEP_ASSIGN(layout.offload, deepspeed_offload(json));
  SHARDSWEEP_TRY(derive(layout, gpus, 0));
  SHARDSWEEP_TRY(read_batch(layout, json));
  return layout;
}

// ---- GPT-NeoX: YAML. dp is what the other degrees leave of the GPUs.

Result<std::string> write_neox(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("gpt-neox", "dp_replicate", std::to_string(layout.dp_replicate));
  if (layout.cp > 1) return no_words("gpt-neox", "cp", std::to_string(layout.cp));
  if (layout.ep > 1) return no_words("gpt-neox", "ep", std::to_string(layout.ep));
  if (layout.recompute == "selective") return no_words("gpt-neox", "recompute", "selective");
  if (layout.schedule != "1f1b") return no_words("gpt-neox", "schedule", layout.schedule);
  // Its pipeline engine, which one stage gets too, shards no more than the optimizer.
  const bool without_engine = layout.zero > 1;
  if (without_engine && layout.pp > 1)
    return no_words("gpt-neox", "zero", fmt::format("{} with pp {}", layout.zero, layout.pp));
  std::string text = fmt::format(
      "pipe_parallel_size: {}\nmodel_parallel_size: {}\nsequence_parallel: {}\n"
      "train_micro_batch_size_per_gpu: {}\ngradient_accumulation_steps: {}\n"
      "checkpoint_activations: {}\ncheckpoint_num_layers: 1\n",
      without_engine ? 0 : layout.pp, layout.tp, layout.sequence_parallel, layout.micro_batch,
      layout.grad_accum, layout.recompute == "full");
  if (layout.seq_len > 0)
    text += fmt::format("seq_length: {0}\nmax_position_embeddings: {0}\n", layout.seq_len);
  return text + fmt::format("zero_optimization:\n  stage: {}\n", layout.zero);
}

Result<TrainerLayout> read_neox(std::string_view text, std::int64_t gpus) {
  const Settings yaml = Settings::of_lines(text).with_underscores();
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(const std::int64_t stages, yaml.number("pipe_parallel_size", 1));
  layout.pp = std::max<std::int64_t>(1, stages);
  SHARDSWEEP_ASSIGN(layout.tp, degree(yaml, "model_parallel_size"));
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(yaml, "train_micro_batch_size_per_gpu"));
  SHARDSWEEP_ASSIGN(layout.seq_len, yaml.number("seq_length", 0));
  SHARDSWEEP_ASSIGN(layout.zero, yaml.number("stage", 0));
  SHARDSWEEP_ASSIGN(layout.offload, deepspeed_offload(yaml));
  SHARDSWEEP_TRY(derive(layout, gpus, 0));
  SHARDSWEEP_TRY(read_batch(layout, yaml));
  layout.sequence_parallel = yaml.is_true("sequence_parallel");
  if (yaml.is_true("checkpoint_activations")) layout.recompute = "full";
  return layout;
}

// ---- picotron: JSON.

Result<std::string> write_picotron(const TrainerLayout& layout) {
  if (layout.dp_replicate > 1)
    return no_words("picotron", "dp_replicate", std::to_string(layout.dp_replicate));
  SHARDSWEEP_TRY(check_neither_experts_nor_sequences("picotron", layout));
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

constexpr std::array<std::string_view, 4> foundry_sharding{
    "NO_SHARD", "", "SHARD_GRAD_OP", "FULL_SHARD"};

Result<std::string> write_foundry(const TrainerLayout& layout) {
  const std::array<std::pair<std::string_view, std::int64_t>, 3> one_alone{
      {{"pp", layout.pp}, {"cp", layout.cp}, {"dp_replicate", layout.dp_replicate}}};
  for (const auto& [axis, value] : one_alone) {
    if (value > 1) return no_words("llm-foundry", axis, std::to_string(value));
  }
  SHARDSWEEP_TRY(check_neither_experts_nor_sequences("llm-foundry", layout));
  if (layout.zero == 1) return no_words("llm-foundry", "zero", "1");
  if (layout.recompute == "selective") return no_words("llm-foundry", "recompute", "selective");
  std::string text = fmt::format("global_train_batch_size: {}\ndevice_train_microbatch_size: {}\n",
      layout.global_batch(), layout.micro_batch);
  if (layout.seq_len > 0) text += fmt::format("max_seq_len: {}\n", layout.seq_len);
  text += fmt::format("fsdp_config:\n  sharding_strategy: {}\n  activation_checkpointing: {}\n",
      foundry_sharding.at(static_cast<std::size_t>(layout.zero)), layout.recompute == "full");
  if (layout.tp > 1)
    text += fmt::format("tp_config:\n  strategy: ffn\n  tensor_parallel_degree: {}\n", layout.tp);
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

constexpr std::array<std::string_view, 10> of_megatron{"vpp", "cp_mode", "rank_order", "overlap",
    "recompute", "expert_tp", "first_stage_layers", "last_stage_layers", "cuda_graphs", "offload"};
constexpr std::array<Configurable, 8> configurable{
    {{"megatron", write_megatron, read_megatron, of_megatron},
        {"megatron-bridge", write_bridge, read_bridge, of_megatron},
        {"nanotron", write_nanotron, read_nanotron},
        {"torchtitan", write_torchtitan, read_torchtitan,
            {"vpp", "expert_tp", "first_stage_layers", "last_stage_layers", "offload"}},
        {"deepspeed", write_deepspeed, read_deepspeed, {"offload"}},
        {"gpt-neox", write_neox, read_neox}, {"picotron", write_picotron, read_picotron},
        {"llm-foundry", write_foundry, read_foundry}}};

static_assert(configurable[place_of_megatron].name == "megatron" &&
    configurable[place_of_bridge].name == "megatron-bridge");

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

constexpr std::array<std::string_view, 5> degrees{"dp", "tp", "pp", "cp", "ep"};
/// Of both Megatrons, beside the first name of an axis.
constexpr std::array<std::string_view, 9> further_words{"--num-layers-per-virtual-pipeline-stage",
    "--recompute-activations", "--enable-cuda-graph", "--use-megatron-fsdp", "--use-torch-fsdp2",
    "dataset.seq_length", "dist.use_megatron_fsdp", "dist.use_torch_fsdp2",
    "ddp.use_megatron_fsdp"};

/// A text of another trainer is none of this one: what it says would be taken for the default.
Result<void> check_whose(const Configurable& trainer, std::string_view text) {
  const Settings settings = trainer.name == "gpt-neox"
      ? settings_of(trainer.name, text).with_underscores()
      : settings_of(trainer.name, text);
  const auto own = static_cast<std::size_t>(&trainer - configurable.data());
  const auto is_own = [own](std::string_view word) {
    return std::any_of(names_of_axes.begin(), names_of_axes.end(),
        [&](const AxisNames& axis) { return axis.names.at(own) == word; });
  };
  const auto stands = [&](std::string_view word) { return !word.empty() && settings.has(word); };
  const bool any = std::any_of(names_of_axes.begin(), names_of_axes.end(),
                       [&](const auto& axis) { return stands(axis.names.at(own)); }) ||
      std::any_of(further_words.begin(), further_words.end(), stands);
  if (!any)
    return fault(FaultKind::invalid_input,
        fmt::format("none of {}'s words for a layout is in it ('shardsweep help "
                    "trainers' lists them)",
            trainer.name));
  for (const AxisNames& axis : names_of_axes) {
    if (std::find(degrees.begin(), degrees.end(), axis.axis) == degrees.end()) continue;
    for (std::size_t other = 0; other < configurable.size(); ++other) {
      const std::string_view word = axis.names.at(other);
      if (word.empty() || is_own(word) || !settings.has(word)) continue;
      if (settings.text(word) == "1") continue;
      return fault(FaultKind::invalid_input,
          fmt::format("{} {} is a word of {}, and {} has no such word", word, settings.text(word),
              configurable.at(other).name, trainer.name));
    }
  }
  return {};
}

/// With a word that no axis says the layout is another one than what would be read.
Result<void> check_unread(const Configurable& trainer, std::string_view text) {
  const Settings all = settings_of(trainer.name, text);
  const Settings settings = trainer.name == "gpt-neox" ? all.with_underscores() : all;
  constexpr std::array<std::string_view, 9> off{
      "false", "False", "none", "None", "null", "0", "1", "[]", "-1"};
  for (const RefusedWord& one : trainer_file(trainer.name).refuses) {
    if (!settings.has(one.word)) continue;
    const std::string_view value = settings.text(one.word);
    if (std::find(off.begin(), off.end(), value) != off.end()) continue;
    return fault(FaultKind::invalid_input,
        fmt::format("{}{}{}: it {}, which no axis says; a layout without it is another", one.word,
            value.empty() ? "" : " ", value, one.why));
  }
  return {};
}

/// Axes that each writer looks at by itself; of recompute those words that name no modules.
constexpr std::array<std::string_view, 12> of_all{"dp", "tp", "pp", "cp", "ep", "dp_replicate",
    "micro_batch", "grad_accum", "seq_len", "zero", "schedule", "sequence_parallel"};
static_assert(names_axes(of_all));

Result<void> check_more_axes(const Configurable& trainer, const TrainerLayout& layout) {
  const TrainerLayout usual;
  const auto is_in = [](std::string_view axis, const auto& list) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  };
  for (const AxisInfo& axis : axis_table) {
    const auto value = axis_text_of(layout, axis);
    if (!value || value == axis_text_of(usual, axis)) continue;
    if (is_in(axis.name, of_all) || is_in(axis.name, trainer.more)) continue;
    if (axis.name == "recompute" && !Modules(layout.recompute).any()) continue;
    return no_words(trainer.name, axis.name, *value);
  }
  if (layout.vpp > 1 && layout.pp == 1)
    return no_words(trainer.name, "vpp", fmt::format("{} with pp 1", layout.vpp));
  return {};
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
  SHARDSWEEP_TRY(check_more_axes(*found, layout));
  return found->write(layout);
}

Result<TrainerLayout> layout_of(
    std::string_view trainer, std::string_view text, std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const Configurable* found, find_configurable(trainer));
  SHARDSWEEP_TRY(check_whose(*found, text));
  SHARDSWEEP_TRY(check_unread(*found, text));
  auto layout = found->read(text, gpus);
  if (!layout) return layout;
  // One rank splits no sequence, whatever it is told; trainers switch it off by themselves.
  if (layout->tp == 1) layout->sequence_parallel = false;
  // Whoever counts its GPUs or samples need not think of numbers that are none.
  SHARDSWEEP_TRY(product({layout->dp, layout->tp, layout->pp, layout->cp}));
  SHARDSWEEP_TRY(product({layout->dp, layout->micro_batch, layout->grad_accum}));
  return layout;
}

namespace {

/// Beside names of axes: what a layout is read from too.
constexpr std::array<std::string_view, 7> deciding_words{"--recompute-method",
    "--recompute-num-layers", "--recompute-modules", "--torch-fsdp2-no-reshard-after-forward",
    "model.recompute_method", "model.recompute_num_layers", "model.recompute_modules"};

bool decides(std::size_t trainer, std::string_view word) {
  const auto is_named = [&](const AxisNames& axis) { return axis.names.at(trainer) == word; };
  return std::any_of(names_of_axes.begin(), names_of_axes.end(), is_named) ||
      std::find(further_words.begin(), further_words.end(), word) != further_words.end() ||
      std::find(deciding_words.begin(), deciding_words.end(), word) != deciding_words.end();
}

/// Words of a command that decide a layout, with their values.
Result<std::map<std::string, std::string>> deciding(
    std::size_t trainer, const ScriptCommand& command) {
  std::map<std::string, std::string> found;
  for (std::size_t i = 0; i < command.size(); ++i) {
    std::string_view word = command[i].text;
    word.remove_prefix(std::min(word.find_first_not_of('+'), word.size()));
    const auto equals = word.find('=');
    const std::string name(word.substr(0, equals));
    if (!decides(trainer, name)) continue;
    std::string value;
    bool unsure = command[i].unsure;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < command.size() && !command[i + 1].text.starts_with("--")) {
      value = command[i + 1].text;
      unsure = unsure || command[i + 1].unsure;
    }
    if (unsure || value.find('$') != std::string::npos)
      return fault(FaultKind::invalid_input,
          fmt::format("{}: the script does not say it without a branch, an argument "
                      "or its environment; write its value",
              name));
    found.insert_or_assign(name, value);
  }
  return found;
}

Result<std::string> script_as_flags(std::size_t trainer, std::string_view script) {
  SHARDSWEEP_ASSIGN(const auto commands, commands_of_script(script));
  std::string text;
  std::map<std::string, std::string> said;
  for (const ScriptCommand& command : commands) {
    SHARDSWEEP_ASSIGN(const auto words, deciding(trainer, command));
    for (const auto& [name, value] : words) {
      const auto [before, fresh] = said.emplace(name, value);
      if (!fresh && before->second != value)
        return fault(FaultKind::invalid_input,
            fmt::format("{} is {} in one command of the script and {} in another", name,
                before->second, value));
    }
    for (const ScriptWord& word : command) {
      // A value that is not known is no number; a flag that may be there decides nothing here.
      if (!word.unsure) text += word.text + ' ';
      if (word.unsure && !word.text.starts_with("--")) text += "$? ";
    }
    text += '\n';
  }
  return text;
}

}  // namespace

Result<TrainerLayout> layout_of_file(
    std::string_view trainer, std::string_view text, std::int64_t gpus) {
  SHARDSWEEP_ASSIGN(const Configurable* found, find_configurable(trainer));
  const bool is_script = trainer == "megatron" || trainer == "megatron-bridge";
  if (!is_script || text.find('$') == std::string_view::npos) return layout_of(trainer, text, gpus);
  SHARDSWEEP_ASSIGN(const std::string flags,
      script_as_flags(static_cast<std::size_t>(found - configurable.data()), text));
  return layout_of(trainer, flags, gpus);
}

}  // namespace shardsweep
