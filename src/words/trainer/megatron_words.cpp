// SPDX-License-Identifier: Apache-2.0
#include "trainer/megatron_words.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"
#include "text/placeholders.hpp"
#include "trainer/axis_words.hpp"
#include "trainer/layout_words.hpp"
#include "trainer/point_words.hpp"
#include "trainer/settings.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/point.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>
#include <string>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 4> sharding{
    "no_shard", "optim", "optim_grads", "optim_grads_params"};

Result<std::int64_t> stage_of(const Settings& settings, std::string_view name) {
  const auto word = settings.text(name);
  const auto* found = std::find(sharding.begin(), sharding.end(), word);
  if (found == sharding.end())
    return fault(
        FaultKind::invalid_input, fmt::format("{}: unknown word {}", name, in_quotes(word)));
  return found - sharding.begin();
}

/// Of Megatron-LM and Megatron-Bridge: 1F1B, and interleaved where vpp is above 1.
Result<void> check_megatron(std::string_view trainer, const TrainerLayout& layout) {
  if (layout.schedule != "1f1b") return no_words(trainer, "schedule", layout.schedule);
  if (layout.dp_replicate > 1 && layout.zero != 1)
    return no_words(trainer, "dp_replicate", std::to_string(layout.dp_replicate));
  const bool told = layout.first_stage_layers > 0 || layout.last_stage_layers > 0;
  if (!told && layout.layers % (layout.pp * layout.vpp) != 0)
    return fault(FaultKind::invalid_input,
        fmt::format("{} shares layers out evenly, unless first_stage_layers or "
                    "last_stage_layers say otherwise: {} layers are no multiple of pp {} x "
                    "vpp {}",
            trainer, layout.layers, layout.pp, layout.vpp));
  // Its optimizer in the host's memory is a part of its distributed one.
  if (layout.offload != "none" && (layout.offload != "optimizer" || layout.zero != 1))
    return no_words(
        trainer, "offload", fmt::format("{} with zero {}", layout.offload, layout.zero));
  // Its ranks are in the order tp-cp-dp-pp, or tp-cp-pp-dp, which its FSDP does not take.
  const std::string& order = layout.rank_order;
  const bool pp_before_dp = order == "tp-cp-pp-dp" || (order == "tp-pp-dp" && layout.cp == 1);
  if (order != "tp-dp-pp" && (!pp_before_dp || layout.zero > 1))
    return no_words(trainer, "rank_order", order);
  return {};
}

Result<std::string> mode_of(const Settings& settings, std::string_view name, std::int64_t cp) {
  const auto word = cp > 1 ? settings.text(name) : std::string_view();
  if (word.empty() || word == "p2p") return "ring";
  if (word == "a2a") return "ulysses";
  return fault(FaultKind::invalid_input,
      fmt::format("{}: {} is neither p2p nor a2a", name, in_quotes(word)));
}

/// Told as their number, or as the layers of each.
Result<std::int64_t> virtual_stages(const Settings& flags, std::int64_t pp) {
  constexpr std::string_view by_layers = "--num-layers-per-virtual-pipeline-stage";
  if (!flags.has(by_layers)) return degree(flags, axis_word("vpp", place_of_megatron));
  SHARDSWEEP_ASSIGN(const std::int64_t each, degree(flags, by_layers));
  SHARDSWEEP_ASSIGN(const std::int64_t layers, flags.number("--num-layers", 0));
  if (layers == 0)
    return fault(FaultKind::invalid_input,
        fmt::format("{} alone says no number of stages; add --num-layers", by_layers));
  if (layers % (pp * each) != 0)
    return fault(FaultKind::invalid_input,
        fmt::format("--num-layers {} is no multiple of pp {} x {}", layers, pp, each));
  return layers / (pp * each);
}

/// What both trainers call the same settings; axes by the table of their words.
struct Names {
  std::string_view tp, pp, cp, ep, cp_mode, mapping, micro_batch, global_batch, seq_len;
  std::string_view sequence_parallel, distributed_optimizer, instances, sharding, recompute;
  std::string_view fsdp, torch_fsdp, torch_gathered, recompute_method, recompute_layers, layers;
  std::string_view recompute_modules, expert_tp, first_stage, last_stage, graphs, offload;
  bool (*is_set)(const Settings&, std::string_view name);
};
constexpr Names flag_names{.tp = axis_word("tp", place_of_megatron),
    .pp = axis_word("pp", place_of_megatron),
    .cp = axis_word("cp", place_of_megatron),
    .ep = axis_word("ep", place_of_megatron),
    .cp_mode = axis_word("cp_mode", place_of_megatron),
    .mapping = axis_word("rank_order", place_of_megatron),
    .micro_batch = axis_word("micro_batch", place_of_megatron),
    .global_batch = axis_word("global_batch", place_of_megatron),
    .seq_len = axis_word("seq_len", place_of_megatron),
    .sequence_parallel = axis_word("sequence_parallel", place_of_megatron),
    .distributed_optimizer = axis_word("zero 1", place_of_megatron),
    .instances = axis_word("dp_replicate", place_of_megatron),
    .sharding = axis_word("zero", place_of_megatron),
    .recompute = axis_word("recompute", place_of_megatron),
    .fsdp = "--use-megatron-fsdp",
    .torch_fsdp = "--use-torch-fsdp2",
    .torch_gathered = "--torch-fsdp2-no-reshard-after-forward",
    .recompute_method = "--recompute-method",
    .recompute_layers = "--recompute-num-layers",
    .layers = "--num-layers",
    .recompute_modules = "--recompute-modules",
    .expert_tp = axis_word("expert_tp", place_of_megatron),
    .first_stage = axis_word("first_stage_layers", place_of_megatron),
    .last_stage = axis_word("last_stage_layers", place_of_megatron),
    .graphs = axis_word("cuda_graphs", place_of_megatron),
    .offload = axis_word("offload", place_of_megatron),
    .is_set = [](const Settings& flags, std::string_view name) { return flags.has(name); }};
constexpr Names override_names{.tp = axis_word("tp", place_of_bridge),
    .pp = axis_word("pp", place_of_bridge),
    .cp = axis_word("cp", place_of_bridge),
    .ep = axis_word("ep", place_of_bridge),
    .cp_mode = axis_word("cp_mode", place_of_bridge),
    .mapping = axis_word("rank_order", place_of_bridge),
    .micro_batch = axis_word("micro_batch", place_of_bridge),
    .global_batch = axis_word("global_batch", place_of_bridge),
    .seq_len = axis_word("seq_len", place_of_bridge),
    .sequence_parallel = axis_word("sequence_parallel", place_of_bridge),
    .distributed_optimizer = axis_word("zero 1", place_of_bridge),
    .instances = axis_word("dp_replicate", place_of_bridge),
    .sharding = axis_word("zero", place_of_bridge),
    .recompute = axis_word("recompute", place_of_bridge),
    .fsdp = "dist.use_megatron_fsdp",
    .torch_fsdp = "dist.use_torch_fsdp2",
    .torch_gathered = "",
    .recompute_method = "model.recompute_method",
    .recompute_layers = "model.recompute_num_layers",
    .layers = "model.num_layers",
    .recompute_modules = "model.recompute_modules",
    .expert_tp = axis_word("expert_tp", place_of_bridge),
    .first_stage = axis_word("first_stage_layers", place_of_bridge),
    .last_stage = axis_word("last_stage_layers", place_of_bridge),
    .graphs = axis_word("cuda_graphs", place_of_bridge),
    .offload = axis_word("offload", place_of_bridge),
    .is_set = [](const Settings& words, std::string_view name) { return words.is_true(name); }};

constexpr std::string_view dataset_length = "dataset.seq_length";

/// Its own FSDP shards nothing unless it is told what; PyTorch's shards all.
Result<std::int64_t> stage_told(const Settings& settings, const Names& names) {
  if (settings.has(names.sharding)) return stage_of(settings, names.sharding);
  if (names.is_set(settings, names.fsdp))
    return fault(FaultKind::invalid_input,
        fmt::format("{} alone says no stage of ZeRO; add {}", names.fsdp, names.sharding));
  if (names.is_set(settings, names.torch_fsdp))
    return names.is_set(settings, names.torch_gathered) ? 2 : 3;
  return names.is_set(settings, names.distributed_optimizer) ? 1 : 0;
}

/// "null" is how overrides say none.
Result<std::int64_t> number_or_null(const Settings& settings, std::string_view name) {
  if (settings.text(name) == "null") return 0;
  return settings.number(name, 0);
}

/// A graph of a whole train step is none of layers.
Result<bool> graphs_told(const Settings& settings, std::string_view name) {
  const auto word = settings.text(name);
  if (word == "full_iteration")
    return fault(FaultKind::invalid_input,
        fmt::format("{} {}: cuda_graphs is a graph of each layer; write local, or "
                    "leave it out",
            name, word));
  return word == "local" || word == "transformer_engine";
}

/// All but virtual stages, which each tells in its own way, and recompute, which needs them.
Result<TrainerLayout> read_settings(
    const Settings& settings, const Names& names, std::int64_t gpus) {
  TrainerLayout layout;
  SHARDSWEEP_ASSIGN(layout.tp, degree(settings, names.tp));
  SHARDSWEEP_ASSIGN(layout.pp, degree(settings, names.pp));
  SHARDSWEEP_ASSIGN(layout.cp, degree(settings, names.cp));
  SHARDSWEEP_ASSIGN(layout.ep, degree(settings, names.ep));
  SHARDSWEEP_ASSIGN(layout.cp_mode, mode_of(settings, names.cp_mode, layout.cp));
  // Without stages the mapping changes nothing.
  const bool pp_before_dp = names.is_set(settings, names.mapping) && layout.pp > 1;
  layout.rank_order = !pp_before_dp ? "tp-dp-pp" : layout.cp > 1 ? "tp-cp-pp-dp" : "tp-pp-dp";
  SHARDSWEEP_ASSIGN(layout.micro_batch, degree(settings, names.micro_batch));
  SHARDSWEEP_ASSIGN(layout.seq_len, settings.number(names.seq_len, 0));
  SHARDSWEEP_ASSIGN(const std::int64_t batch, settings.number(names.global_batch, 0));
  SHARDSWEEP_TRY(derive(layout, gpus, batch));
  SHARDSWEEP_ASSIGN(layout.dp_replicate, degree(settings, names.instances));
  layout.sequence_parallel = names.is_set(settings, names.sequence_parallel);
  SHARDSWEEP_ASSIGN(layout.zero, stage_told(settings, names));
  SHARDSWEEP_ASSIGN(layout.expert_tp, number_or_null(settings, names.expert_tp));
  if (layout.expert_tp == layout.tp) layout.expert_tp = 0;
  SHARDSWEEP_ASSIGN(layout.first_stage_layers, number_or_null(settings, names.first_stage));
  SHARDSWEEP_ASSIGN(layout.last_stage_layers, number_or_null(settings, names.last_stage));
  SHARDSWEEP_ASSIGN(layout.cuda_graphs, graphs_told(settings, names.graphs));
  if (names.is_set(settings, names.offload)) layout.offload = "optimizer";
  return layout;
}

/// The word of `recompute` for the modules in a list: "a b" or "[a,b]". Without flash attention
/// core_attn is what selective recompute is; with it there is nothing to compute again.
Result<std::string> modules_told(const Settings& settings, std::string_view name) {
  std::string list(settings.text(name));
  std::replace_if(
      list.begin(), list.end(),
      [](char c) { return std::string_view(",[]'\"").find(c) != std::string_view::npos; }, ' ');
  std::set<std::string, std::less<>> modules;
  for (const auto word : split(list, ' ')) {
    const auto module = trimmed(word);
    if (!module.empty() && module != "core_attn") modules.emplace(module);
  }
  if (modules.empty()) return "selective";
  for (const std::string_view word : recompute_words) {
    const auto parts = split(word, '+');
    if (std::set<std::string, std::less<>>(parts.begin(), parts.end()) == modules)
      return std::string(word);
  }
  return fault(FaultKind::invalid_input,
      fmt::format("{}: recompute has no word for {} together; it has {}", name,
          fmt::join(modules, " "), fmt::join(std::span(recompute_words).subspan(3), ", ")));
}

/// The block method computes the first layers of each stage again, and keeps the others.
Result<std::string> recompute_told(
    const Settings& settings, const Names& names, const TrainerLayout& layout) {
  const std::string word(settings.text(names.recompute));
  if (word.empty() || word == "null") return "none";
  if (word == "selective") return modules_told(settings, names.recompute_modules);
  if (word != "full")
    return fault(FaultKind::invalid_input,
        fmt::format("{}: {} is neither full nor selective", names.recompute, in_quotes(word)));
  if (settings.text(names.recompute_method) != "block") return word;
  SHARDSWEEP_ASSIGN(const std::int64_t again, settings.number(names.recompute_layers, 0));
  SHARDSWEEP_ASSIGN(const std::int64_t layers, settings.number(names.layers, 0));
  if (again == 0) return "none";
  SHARDSWEEP_ASSIGN(const std::int64_t all, product({again, layout.pp, layout.vpp}));
  if (layers > 0 && all >= layers) return word;
  return fault(FaultKind::invalid_input,
      fmt::format("{} block with {} layers of each stage is neither full recompute "
                  "nor none",
          names.recompute_method, again));
}

/// What tells a trainer an axis if `condition` holds; empty: always.
struct Saying {
  std::string_view axis, condition, value;
  std::string_view name{};  // of the flag or the override; empty: the axis's own
};

// What is routed to experts has no fixed size, which a graph needs. Megatron-LM's own FSDP
// asserts that format of checkpoints, though none is written.
constexpr auto told_flags = std::to_array<Saying>({
    {"dtype", "dtype=bf16", "", "--bf16"},
    {"tp", "", "{tp}"},
    {"pp", "", "{pp}"},
    {"cp", "", "{cp}"},
    {"ep", "", "{ep}"},
    {"micro_batch", "", "{micro_batch}"},
    {"global_batch", "", "{global_batch}"},
    {"seq_len", "", "{seq_len}"},
    {"vpp", "vpp>1", "{vpp}"},
    {"cp_mode", "cp_mode=ulysses", "a2a"},
    {"rank_order", "rank_order='tp-pp-dp' or rank_order='tp-cp-pp-dp'", ""},
    {"sequence_parallel", "sequence_parallel", ""},
    {"zero", "zero=1", "", axis_word("zero 1", place_of_megatron)},
    {"dp_replicate", "dp_replicate>1", "{dp_replicate}"},
    {"zero", "zero>1", "", flag_names.fsdp},
    {"zero", "zero>1", "{zero=2?optim_grads:optim_grads_params}"},
    {"zero", "zero>1", "fsdp_dtensor", "--ckpt-format"},
    {"recompute", "recompute=full", "full"},
    {"recompute", "recompute=full", "uniform", flag_names.recompute_method},
    {"recompute", "recompute=full", "1", flag_names.recompute_layers},
    {"recompute", "recompute<>'none' and recompute<>'full'", "selective"},
    {"expert_tp", "expert_tp>0", "{expert_tp}"},
    {"first_stage_layers", "first_stage_layers>0", "{first_stage_layers}"},
    {"last_stage_layers", "last_stage_layers>0", "{last_stage_layers}"},
    {"cuda_graphs", "cuda_graphs and experts=0", "local"},
    {"cuda_graphs", "cuda_graphs and experts>0", "transformer_engine"},
    {"cuda_graphs", "cuda_graphs and experts>0", "", "--cuda-graph-modules"},
    {"cuda_graphs", "cuda_graphs and experts>0", "", "attn"},
    {"cuda_graphs", "cuda_graphs and experts>0", "", "moe_router"},
    {"offload", "offload=optimizer", ""},
    {"offload", "offload=optimizer", "", "--use-precision-aware-optimizer"},
    {"overlap", "overlap", ""},
    {"overlap", "zero>0 and overlap", "", "--overlap-param-gather"},
});

// Behind a recipe, which may recompute by itself: none is told too. It makes the model as long
// as the dataset's samples, whatever the model is told.
constexpr auto told_overrides = std::to_array<Saying>({
    {"tp", "", "{tp}"},
    {"pp", "", "{pp}"},
    {"cp", "", "{cp}"},
    {"ep", "", "{ep}"},
    {"micro_batch", "", "{micro_batch}"},
    {"global_batch", "", "{global_batch}"},
    {"sequence_parallel", "", "{sequence_parallel}"},
    {"seq_len", "", "{seq_len}"},
    {"seq_len", "", "{seq_len}", dataset_length},
    {"vpp", "vpp>1", "{vpp}"},
    {"cp_mode", "cp_mode=ulysses", "a2a"},
    {"rank_order", "rank_order='tp-pp-dp' or rank_order='tp-cp-pp-dp'", "true"},
    {"zero", "", "{zero=1?true:false}", axis_word("zero 1", place_of_bridge)},
    {"dp_replicate", "dp_replicate>1", "{dp_replicate}"},
    {"zero", "zero>1", "true", override_names.fsdp},
    {"zero", "zero>1", "{zero=2?optim_grads:optim_grads_params}"},
    {"zero", "zero>1", "fsdp_dtensor", "checkpoint.ckpt_format"},
    {"recompute", "", "{recompute=none?null:{recompute=full?full:selective}}"},
    {"recompute", "", "{recompute=full?uniform:null}", override_names.recompute_method},
    {"recompute", "", "{recompute=full?1:null}", override_names.recompute_layers},
    {"recompute", "recompute=selective", "[core_attn]", override_names.recompute_modules},
    {"expert_tp", "expert_tp>0", "{expert_tp}"},
    {"first_stage_layers", "first_stage_layers>0", "{first_stage_layers}"},
    {"last_stage_layers", "last_stage_layers>0", "{last_stage_layers}"},
    {"cuda_graphs", "cuda_graphs and experts=0", "local"},
    {"cuda_graphs", "cuda_graphs and experts>0", "transformer_engine"},
    {"cuda_graphs", "cuda_graphs and experts>0", "[attn,moe_router]", "model.cuda_graph_modules"},
    {"offload", "offload=optimizer", "true"},
    {"offload", "offload=optimizer", "true", "optimizer.use_precision_aware_optimizer"},
    {"overlap", "", "{overlap}"},
    {"overlap", "", "{zero>0 and overlap?true:false}", "ddp.overlap_param_gather"},
});

/// A flag takes its value as a word of its own, unless both depend on a condition.
void append_words(const Saying& one, std::size_t trainer, std::vector<std::string>& words) {
  std::string_view name = one.name;
  for (const AxisNames& axis : names_of_axes)
    if (name.empty() && axis.axis == one.axis) name = axis.names[trainer];
  const std::string whole = fmt::format("{}{}{}", name, one.value.empty() ? "" : "=", one.value);
  if (!one.condition.empty()) {
    words.push_back(fmt::format("{{{}?{}}}", one.condition, whole));
  } else if (trainer == place_of_megatron) {
    words.emplace_back(name);
    words.emplace_back(one.value);
  } else {
    words.push_back(whole);
  }
}

/// The list of modules that selective recompute takes in place of its own.
void append_flag_of_modules(std::vector<std::string>& words) {
  const auto say = [&words](std::string_view word, auto is_in) {
    std::string sets;
    for (std::size_t i = 0; i < module_sets.size(); ++i) {
      if (!is_in(module_sets[i])) continue;
      sets += fmt::format("{}recompute='{}'", sets.empty() ? "" : " or ", recompute_words[i]);
    }
    words.push_back(fmt::format("{{{}?{}}}", sets, word));
  };
  say(flag_names.recompute_modules, [](Modules set) { return set.any(); });
  // In the order of each set's word.
  for (const std::string_view module : {"mla_up_proj", "layernorm", "mlp", "moe", "moe_act"})
    say(module, [module](Modules set) { return Modules(module).is_part_of(set); });
}

void append_override_of_modules(std::vector<std::string>& words) {
  for (std::size_t i = 0; i < module_sets.size(); ++i) {
    if (!module_sets[i].any()) continue;
    std::string list(recompute_words[i]);
    std::replace(list.begin(), list.end(), '+', ',');
    words.push_back(fmt::format(
        "{{recompute='{}'?{}=[{}]}}", recompute_words[i], override_names.recompute_modules, list));
  }
}

/// What the table's conditions and values name.
Placeholders placeholders_of(const TrainerLayout& layout) {
  Placeholders values{{"experts", std::to_string(layout.experts)},
      {"global_batch", std::to_string(layout.global_batch())}, {"dtype", ""}};
  for (const AxisInfo& axis : axis_table)
    if (auto text = axis_text_of(layout, axis))
      values.insert_or_assign(std::string(axis.name), *text);
  return values;
}

/// Those of a table that a layout has a value for.
std::vector<std::string_view> axes_in(std::span<const Saying> table, const TrainerLayout& layout) {
  std::vector<std::string_view> axes;
  for (const Saying& one : table)
    if (one.axis != "seq_len" || layout.seq_len > 0) axes.push_back(one.axis);
  return axes;
}

bool is_asked(const std::vector<std::string_view>& axes, const Saying& one) {
  return axes.empty() || std::find(axes.begin(), axes.end(), one.axis) != axes.end();
}

}  // namespace

std::vector<std::string> told_to_megatron(const std::vector<std::string_view>& axes) {
  std::vector<std::string> words;
  for (const Saying& one : told_flags) {
    if (!is_asked(axes, one)) continue;
    append_words(one, place_of_megatron, words);
    if (one.axis == "recompute" && one.value == "selective") append_flag_of_modules(words);
  }
  return words;
}

std::vector<std::string> told_to_bridge(const std::vector<std::string_view>& axes) {
  std::vector<std::string> words;
  for (const Saying& one : told_overrides) {
    if (!is_asked(axes, one)) continue;
    append_words(one, place_of_bridge, words);
    if (one.name == override_names.recompute_modules) append_override_of_modules(words);
  }
  return words;
}

Result<std::string> write_megatron(const TrainerLayout& layout) {
  SHARDSWEEP_TRY(check_megatron("megatron", layout));
  std::string text;
  for (std::string& word : filled_words(told_to_megatron(axes_in(told_flags, layout)),
           placeholders_of(layout), DoubleBraces::keep)) {
    const auto value = word.find('=');
    if (value != std::string::npos) word[value] = ' ';
    text += (text.empty() ? "" : " ") + word;
  }
  return text + "\n";
}

Result<TrainerLayout> read_megatron(std::string_view text, std::int64_t gpus) {
  const Settings flags = Settings::of_flags(text);
  SHARDSWEEP_ASSIGN(TrainerLayout layout, read_settings(flags, flag_names, gpus));
  SHARDSWEEP_ASSIGN(layout.vpp, virtual_stages(flags, layout.pp));
  SHARDSWEEP_ASSIGN(layout.recompute, recompute_told(flags, flag_names, layout));
  if (flags.has("--recompute-activations") && layout.recompute == "none")
    layout.recompute = "selective";
  if (flags.has("--enable-cuda-graph")) layout.cuda_graphs = true;
  return layout;
}

Result<std::string> write_bridge(const TrainerLayout& layout) {
  SHARDSWEEP_TRY(check_megatron("megatron-bridge", layout));
  const auto words = filled_words(
      told_to_bridge(axes_in(told_overrides, layout)), placeholders_of(layout), DoubleBraces::keep);
  return fmt::format("{}\n", fmt::join(words, " "));
}

Result<TrainerLayout> read_bridge(std::string_view text, std::int64_t gpus) {
  const Settings words = Settings::of_overrides(text);
  SHARDSWEEP_ASSIGN(TrainerLayout layout, read_settings(words, override_names, gpus));
  SHARDSWEEP_ASSIGN(layout.seq_len, words.number(dataset_length, layout.seq_len));
  constexpr std::string_view virtual_size = axis_word("vpp", place_of_bridge);
  if (words.text(virtual_size) != "null") {
    SHARDSWEEP_ASSIGN(layout.vpp, degree(words, virtual_size));
  }
  SHARDSWEEP_ASSIGN(layout.recompute, recompute_told(words, override_names, layout));
  return layout;
}

}  // namespace shardsweep
