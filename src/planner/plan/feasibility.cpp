// SPDX-License-Identifier: Apache-2.0
// The order of the constraints is part of the output: a point is counted under the first one
// that it breaks. Each constraint is a test and a sentence. The tests see up to a million
// points and allocate nothing; sentences are made for the few that are kept. What the runner
// declares comes after what holds in every sweep, so that a runner can only narrow the grid.
#include "plan/feasibility.hpp"

#include "text/numbers.hpp"
#include "text/pieces.hpp"
#include "trainer/trainer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

// The constraints that every sweep has; the runner's own follow them.
enum Fixed : int {
  gpus,
  world,
  batch,
  heads,
  kv_heads,
  ffn,
  cp_mode,
  rank_order,
  experts,
  recompute,
  cuda_graphs,
  offload,
  layers,
  stages,
  grad_accum,
  zero,
  dp_replicate,
  sequence_parallel,
  latent,
  max_nodes,
  exclude,
  memory,
  fixed_count,
};
constexpr std::array<std::string_view, fixed_count> fixed_names{"gpus", "world", "batch", "heads",
    "kv_heads", "ffn", "cp_mode", "rank_order", "experts", "recompute", "cuda_graphs", "offload",
    "layers", "stages", "grad_accum", "zero", "dp_replicate", "sequence_parallel", "latent",
    "max_nodes", "exclude", "memory"};
constexpr int none = -1;

std::optional<std::int64_t> axis_value(const AxisInfo& axis, std::string_view text) {
  if (axis.kind == AxisKind::word) {
    const auto found = std::find(axis.words.begin(), axis.words.end(), text);
    if (found == axis.words.end()) return std::nullopt;
    return found - axis.words.begin();
  }
  if (text == "true") return 1;
  if (text == "false") return 0;
  return number_from<std::int64_t>(text);
}

std::string runner_name(const SweepSpec& sweep, const Capabilities& runner) {
  if (runner.runner.empty()) return std::string(sweep.runner.known_as());
  if (runner.version.empty()) return runner.runner;
  return fmt::format("{} {}", runner.runner, runner.version);
}

std::string product_text(const Layout& layout, bool with_dp) {
  std::string text = with_dp ? fmt::format("dp {} x ", layout.dp) : "";
  text += fmt::format("tp {} x pp {}", layout.tp, layout.pp);
  if (layout.cp != 1) text += fmt::format(" x cp {}", layout.cp);
  return text;
}

std::string why_replicas(const Layout& layout) {
  if (layout.dp % layout.dp_replicate != 0)
    return fmt::format("dp_replicate {} does not divide dp {}", layout.dp_replicate, layout.dp);
  if (layout.zero == 0)
    return fmt::format("dp_replicate {} needs ZeRO 1 to 3, but zero is 0", layout.dp_replicate);
  return fmt::format(
      "dp_replicate {} with dp {} leaves one rank per shard group, so nothing is sharded",
      layout.dp_replicate, layout.dp);
}

bool shares_heads(const ModelSpec& model, const Layout& layout) {
  if (layout.cp_mode == ContextMode::ring) return true;
  const auto cut = std::int64_t{layout.tp} * layout.cp;
  return layout.cp > 1 && model.heads % cut == 0 && model.kv_heads % cut == 0;
}

std::string why_heads(const ModelSpec& model, const Layout& layout) {
  if (layout.cp == 1) return "cp_mode ulysses needs cp above 1";
  const auto cut = std::int64_t{layout.tp} * layout.cp;
  return fmt::format(
      "cp_mode ulysses exchanges heads, and tp {} x cp {} = {} does not divide the {} heads and {} "
      "kv heads of {}",
      layout.tp, layout.cp, cut, model.heads, model.kv_heads, model.name);
}

/// Ranks over which a stage's experts can be spread.
std::int64_t expert_ranks(const Layout& layout) {
  return layout.expert_tp > 0 ? std::int64_t{layout.tp} * layout.data_ranks() : layout.data_ranks();
}

/// GPUs among them that hold one copy of the experts.
std::int64_t expert_block(const Layout& layout) {
  return layout.expert_tp > 0 ? std::int64_t{layout.ep} * layout.expert_tp : layout.ep;
}

/// expert_tp 0 stands for tp: a sweep that has both has one layout twice.
bool is_twin(const SweepSpec& sweep, const Layout& layout) {
  if (layout.expert_tp == 0 || layout.expert_tp != layout.tp) return false;
  return std::any_of(sweep.axes.begin(), sweep.axes.end(), [](const AxisValues& one) {
    return one.axis->name == "expert_tp" &&
        std::find(one.values.begin(), one.values.end(), 0) != one.values.end();
  });
}

bool spreads_experts(const ModelSpec& model, const Layout& layout) {
  if (model.experts == 0) return layout.ep == 1 && layout.expert_tp == 0;
  const std::int64_t split = layout.expert_tp > 0 ? layout.expert_tp : layout.tp;
  return model.experts % layout.ep == 0 && expert_ranks(layout) % expert_block(layout) == 0 &&
      model.expert_ffn % split == 0;
}

std::string why_experts(const ModelSpec& model, const Layout& layout) {
  if (model.experts == 0)
    return fmt::format("{} needs a model with experts, and {} has none",
        layout.ep == 1 ? fmt::format("expert_tp {}", layout.expert_tp)
                       : fmt::format("ep {}", layout.ep),
        model.name);
  if (model.experts % layout.ep != 0)
    return fmt::format(
        "ep {} does not divide the {} experts of {}", layout.ep, model.experts, model.name);
  if (expert_ranks(layout) % expert_block(layout) != 0 && layout.expert_tp > 0)
    return fmt::format("ep {} x expert_tp {} does not divide dp {} x cp {} x tp {} = {}", layout.ep,
        layout.expert_tp, layout.dp, layout.cp, layout.tp, expert_ranks(layout));
  if (expert_ranks(layout) % expert_block(layout) != 0)
    return fmt::format("ep {} does not divide dp {} x cp {} = {}", layout.ep, layout.dp, layout.cp,
        layout.data_ranks());
  return fmt::format("{} does not divide the {} expert_ffn columns of {}",
      layout.expert_tp > 0 ? fmt::format("expert_tp {}", layout.expert_tp)
                           : fmt::format("tp {}", layout.tp),
      model.expert_ffn, model.name);
}

/// True if all virtual stages are equal once each stage that is told its layers counts one more:
/// the first the embedding, the last the head.
bool counts_ends(std::int64_t layers, const Layout& layout) {
  const auto told = {layout.first_stage_layers, layout.last_stage_layers};
  const auto all = layers + std::count_if(told.begin(), told.end(), [](auto at) { return at > 0; });
  return all % (std::int64_t{layout.pp} * layout.vpp) == 0 &&
      std::all_of(
          told.begin(), told.end(), [&](auto at) { return at == 0 || at == all / layout.pp - 1; });
}

/// Rule that a layout with stages of their own size breaks; empty: none. Called for few points.
std::string why_stages(const ModelSpec& model, const Layout& layout, bool ends_count) {
  if (layout.pp == 1) return "first_stage_layers and last_stage_layers need pp above 1";
  if (layout.schedule == Schedule::zb_v)
    return "zb-v puts the first and the last stage on one rank, so first_stage_layers and "
           "last_stage_layers can't be set";
  const auto [layers, stages] =
      MiddleStages(model.layers, layout.pp, layout.first_stage_layers, layout.last_stage_layers);
  if (ends_count && layout.vpp > 1 && counts_ends(model.layers, layout)) return {};
  for (const auto& [name, told] : {std::pair("first_stage_layers", layout.first_stage_layers),
           std::pair("last_stage_layers", layout.last_stage_layers)}) {
    if (told % layout.vpp != 0)
      return fmt::format("{} {} is not a multiple of vpp {}", name, told, layout.vpp);
  }
  const bool fits = stages == 0 ? layers == 0 : layers > 0 && layers % (stages * layout.vpp) == 0;
  if (fits) return {};
  return fmt::format(
      "first_stage_layers {} and last_stage_layers {} leave {} of the {} layers of {} to {}, which "
      "{}",
      layout.first_stage_layers, layout.last_stage_layers, layers, model.layers, model.name,
      counted(stages, "other stage"),
      stages == 0 ? "can hold none"
                  : fmt::format("need equally many{}",
                        layout.vpp > 1 ? fmt::format(", times vpp {}", layout.vpp) : ""));
}

bool has_modules(const ModelSpec& model, const Point& point) {
  const auto modules = recomputed_modules(point.layout.recompute);
  if (!modules.any()) return true;
  const bool sparse = model.experts > 0;
  const bool dense = model.with_dense() > 0;
  const bool sparse_alone = modules.has(Module::moe) || modules.has(Module::moe_act);
  const bool dropped_output = modules.has(Module::layernorm) || modules.has(Module::moe_act);
  return (sparse || !sparse_alone) && (dense || !modules.has(Module::mlp)) &&
      (model.is_latent() || !modules.has(Module::mla_up_proj)) &&
      !(dropped_output && point.dtype == Dtype::fp8_delayed);
}

std::string why_modules(const ModelSpec& model, const Point& point) {
  const auto word = recompute_words[static_cast<std::size_t>(point.layout.recompute)];
  const auto modules = recomputed_modules(point.layout.recompute);
  const bool sparse_alone = modules.has(Module::moe) || modules.has(Module::moe_act);
  if (sparse_alone && model.experts == 0)
    return fmt::format(
        "recompute {} needs a model with experts, and {} has none", word, model.name);
  if (modules.has(Module::mlp) && model.with_dense() == 0)
    return fmt::format(
        "recompute {} needs layers without experts, and {} has none", word, model.name);
  if (modules.has(Module::mla_up_proj) && !model.is_latent())
    return fmt::format(
        "recompute {} needs multi-head latent attention, and {} has none", word, model.name);
  return fmt::format("recompute {} drops values that FP8 with delayed scaling must keep", word);
}

/// Parts that the benchmark's own model lacks; empty: it has all of it.
std::string_view unknown_to_shardbench(const ModelSpec& model) {
  if (model.is_latent()) return "multi-head latent attention";
  if (model.mtp_layers > 0) return "multi-token prediction";
  if (model.ffn_matrices == 2) return "feed-forward part without a gate";
  if (model.expert_layers > 0) return "layers without experts between those with experts";
  if (model.shared_ffn > 0) return "shared experts of another width";
  if (model.window > 0) return "sliding window";
  return model.unpredicted();
}

/// The optimizer's state can leave the device if ZeRO has split it, weights if it splits
/// gradients too.
std::int32_t least_zero(Offload offload) {
  return offload == Offload::none ? 0 : offload == Offload::optimizer ? 1 : 2;
}

}  // namespace

Judge::Judge(const SweepSpec& sweep, const Capabilities& runner, PointFilter* excludes,
    PointFilter* runner_rules)
    : sweep_(sweep),
      runner_(runner),
      excludes_(excludes),
      runner_rules_(runner_rules),
      predictor_(sweep.cluster, family_of(sweep.runner)),
      shardbench_(sweep.runner.is_shardbench()),
      copies_kv_heads_(trainer_file(family_of(sweep.runner).words).copies_kv_heads),
      ends_count_(trainer_file(family_of(sweep.runner).words).ends_count_as_layers),
      names_(fixed_names.begin(), fixed_names.end()),
      removed_(sweep.excludes.size(), 0) {
  add_limits();
  first_rule_ = static_cast<int>(names_.size());
  for (const auto& rule : runner.rules)
    (void)add_name(rule.constraint);
}

int Judge::add_name(std::string name) {
  names_.push_back(std::move(name));
  return static_cast<int>(names_.size()) - 1;
}

void Judge::add_limits() {
  const auto add_choice = [&](const AxisInfo& axis, const std::vector<std::string>& words) {
    Limit limit{&axis, 0, {}, add_name(fmt::format("runner:{}", axis.name))};
    for (const auto& word : words) {
      if (const auto value = axis_value(axis, word)) limit.allowed.push_back(*value);
    }
    if (!limit.allowed.empty()) limits_.push_back(std::move(limit));
  };
  if (!runner_.dtypes.empty()) add_choice(*find_axis("dtype"), runner_.dtypes);
  for (const auto& [name, most] : runner_.max) {
    const auto* axis = find_axis(name);
    if (axis == nullptr || !most) continue;
    limits_.push_back({axis, *most, {}, add_name(fmt::format("runner:{}", axis->name))});
  }
  for (const auto& [name, words] : runner_.allowed) {
    if (const auto* axis = find_axis(name)) add_choice(*axis, words);
  }
}

Judge::Finding Judge::find(const GridPoint& at) {
  const auto& point = at.point;
  has_bounds_ = false;
  int found = find_structure(at);
  if (found == none) found = find_shape(point);
  if (found != none) return {found, none};
  found = find_rule_of_runner(point);
  if (found != none) return {found, none};
  if (runner_rules_ != nullptr) {
    const int rule = runner_rules_->first_match(point);
    if (rule >= 0) return {first_rule_ + rule, rule};
  }
  if (excludes_ != nullptr) {
    ++asked_excludes_;
    const int rule = excludes_->first_match(point);
    if (rule >= 0) {
      ++removed_[static_cast<std::size_t>(rule)];
      return {exclude, rule};
    }
  }
  if (const auto capacity = sweep_.cluster.memory_bytes; capacity > 0) {
    bounds_ = predictor_.bounds(model_of(point), point);
    has_bounds_ = true;
    const auto needs = predictor_.certain_memory(model_of(point), point, bounds_).total();
    if (needs > capacity) return {memory, none, needs};
  }
  return {};
}

bool Judge::breaks_rule(const GridPoint& at) const {
  return find_structure(at) != none || find_shape(at.point) != none ||
      find_rule_of_runner(at.point) != none;
}

bool Judge::adds_up(std::string_view constraint) {
  return constraint != fixed_names[gpus] && constraint != fixed_names[world] &&
      constraint != fixed_names[batch];
}

bool Judge::could_start(const GridPoint& at, const Finding& finding) {
  const auto& layout = at.point.layout;
  const bool divides = layout.dp % layout.dp_replicate == 0;
  return finding.constraint == none || (finding.constraint > stages && divides);
}

int Judge::find_structure(const GridPoint& at) const {
  const auto& point = at.point;
  const auto& layout = point.layout;
  const std::int64_t per_node = sweep_.cluster.gpus_per_node;
  if (point.nodes > 0 ? point.nodes * per_node != point.gpus : point.gpus > per_node) return gpus;
  if (at.gap == Gap::dp || layout.world() != point.gpus) return world;
  if (at.gap != Gap::none) return batch;
  if (sweep_.global_batch_samples && layout.global_batch() != *sweep_.global_batch_samples)
    return batch;
  // No product is formed, because tokens / seq_len can't overflow.
  if (sweep_.global_batch_tokens &&
      (*sweep_.global_batch_tokens % point.seq_len != 0 ||
          layout.global_batch() != *sweep_.global_batch_tokens / point.seq_len))
    return batch;
  return none;
}

int Judge::find_shape(const Point& point) const {
  const auto& model = model_of(point);
  const auto& layout = point.layout;
  if (model.heads % layout.tp != 0) return heads;
  const bool copied = copies_kv_heads_ && layout.tp % model.kv_heads == 0;
  if (model.kv_heads % layout.tp != 0 && !copied) return kv_heads;
  if (model.ffn % layout.tp != 0) return ffn;
  if (!shares_heads(model, layout)) return cp_mode;
  if (names_cp(layout.rank_order) && layout.cp == 1) return rank_order;
  if (!spreads_experts(model, layout) || is_twin(sweep_, layout)) return experts;
  if (!has_modules(model, point)) return recompute;
  if (layout.cuda_graphs && layout.recompute == Recompute::full) return cuda_graphs;
  if (layout.zero < least_zero(layout.offload)) return offload;
  const int ends =
      ends_count_ ? (layout.first_stage_layers > 0) + (layout.last_stage_layers > 0) : 0;
  if (std::int64_t{layout.pp} * layout.vpp > model.layers + ends) return layers;
  if (layout.has_uneven_stages() && !why_stages(model, layout, ends_count_).empty()) return stages;
  if (shardbench_ && layout.grad_accum < layout.pp - 1) return grad_accum;
  if (shardbench_ && layout.zero > 0 && layout.data_ranks() == 1) return zero;
  if (layout.dp % layout.dp_replicate != 0) return dp_replicate;
  const bool shards = layout.zero > 0 && layout.shard_ranks() > 1;
  if (shardbench_ && layout.dp_replicate > 1 && !shards) return dp_replicate;
  if (layout.sequence_parallel && (layout.tp == 1 || point.seq_len % layout.tp != 0))
    return sequence_parallel;
  if (shardbench_ && !unknown_to_shardbench(model).empty()) return latent;
  const auto most_nodes = sweep_.policy.max_nodes;
  if (most_nodes > 0 && point.nodes > most_nodes) return max_nodes;
  return none;
}

int Judge::find_rule_of_runner(const Point& point) const {
  for (const auto& limit : limits_) {
    const auto value = limit.axis->get(point);
    const bool refused = limit.allowed.empty()
        ? value > limit.most
        : std::find(limit.allowed.begin(), limit.allowed.end(), value) == limit.allowed.end();
    if (refused) return limit.constraint;
  }
  return none;
}

Verdict Judge::explain(const GridPoint& at, const Finding& finding) const {
  if (finding.constraint == none) return {};
  return {false, names_[static_cast<std::size_t>(finding.constraint)], why(at, finding)};
}

std::string Judge::why(const GridPoint& at, const Finding& finding) const {
  if (finding.constraint >= fixed_count) return why_runner(at.point, finding);
  switch (finding.constraint) {
    case gpus:
    case world:
      return why_structure(at, finding.constraint);
    case batch:
      return why_batch(at);
    case memory:
      return too_large(predictor_.certain_memory(model_of(at.point), at.point), sweep_.cluster);
    case exclude: {
      const auto& rule = sweep_.excludes[static_cast<std::size_t>(finding.rule)];
      if (rule.why.empty()) return fmt::format("excluded where {}", rule.when);
      return fmt::format("{} (excluded where {})", rule.why, rule.when);
    }
    default:
      return why_shape(at.point, finding.constraint);
  }
}

std::string Judge::why_structure(const GridPoint& at, int constraint) const {
  const auto& point = at.point;
  const auto& cluster = sweep_.cluster;
  if (constraint == gpus && point.nodes > 0) {
    return fmt::format("{} with {} GPUs each are {} GPUs, but gpus is {}",
        counted(point.nodes, "node"), cluster.gpus_per_node,
        std::int64_t{point.nodes} * cluster.gpus_per_node, point.gpus);
  }
  if (constraint == gpus) {
    const auto per_node = std::max(1, cluster.gpus_per_node);
    const auto advice = point.gpus % per_node == 0
        ? fmt::format("write nodes: [{}] in place of gpus", point.gpus / per_node)
        : std::string("write nodes in place of gpus for more");
    return fmt::format("gpus {} is more than the {} of one node of {}; {}", point.gpus,
        cluster.gpus_per_node, cluster.name, advice);
  }
  const auto& layout = point.layout;
  if (at.gap == Gap::dp) {
    return fmt::format("{} cannot be divided by {} = {}", counted(point.gpus, "GPU"),
        product_text(layout, false), std::int64_t{layout.tp} * layout.pp * layout.cp);
  }
  return fmt::format("{} = {}, but the point has {}", product_text(layout, true),
      counted(layout.world(), "rank"), counted(point.gpus, "GPU"));
}

std::string Judge::why_batch(const GridPoint& at) const {
  const auto& point = at.point;
  const auto& layout = point.layout;
  auto samples = sweep_.global_batch_samples.value_or(0);
  if (sweep_.global_batch_tokens) {
    const auto tokens = *sweep_.global_batch_tokens;
    if (tokens % point.seq_len != 0) {
      return fmt::format("a global batch of {} tokens is not a multiple of seq_len {}",
          grouped(tokens), point.seq_len);
    }
    samples = tokens / point.seq_len;
  }
  if (at.gap == Gap::grad_accum) {
    return fmt::format("a global batch of {} is not a multiple of dp {} x micro_batch {} = {}",
        counted(samples, "sample"), layout.dp, layout.micro_batch,
        std::int64_t{layout.dp} * layout.micro_batch);
  }
  return fmt::format("dp {} x micro_batch {} x grad_accum {} = {}, but the global batch is {}",
      layout.dp, layout.micro_batch, layout.grad_accum, counted(layout.global_batch(), "sample"),
      grouped(samples));
}

std::string Judge::why_shape(const Point& point, int constraint) const {
  const auto& model = model_of(point);
  const auto& layout = point.layout;
  const auto divides = [&](std::int64_t count, std::string_view what) {
    return fmt::format("tp {} does not divide the {} {} of {}", layout.tp, count, what, model.name);
  };
  switch (constraint) {
    case heads:
      return divides(model.heads, "heads");
    case kv_heads:
      return divides(model.kv_heads, "kv heads");
    case ffn:
      return divides(model.ffn, "ffn columns");
    case cp_mode:
      return why_heads(model, layout);
    case rank_order:
      return fmt::format("rank_order {} needs cp above 1",
          rank_order_words[static_cast<std::size_t>(layout.rank_order)]);
    case experts:
      if (spreads_experts(model, layout))
        return fmt::format(
            "expert_tp {0} with tp {0} is the same layout as expert_tp 0", layout.tp);
      return why_experts(model, layout);
    case layers:
      return fmt::format("pp {}{} is more than the {} layers of {}", layout.pp,
          layout.vpp > 1 ? fmt::format(" x vpp {}", layout.vpp) : "", model.layers, model.name);
    case stages:
      return why_stages(model, layout, ends_count_);
    case recompute:
      return why_modules(model, point);
    case cuda_graphs:
      return "CUDA graphs of layers exclude full recompute, which runs the layers again";
    case offload:
      return fmt::format("offload {} needs ZeRO {} or more",
          offload_words[static_cast<std::size_t>(layout.offload)], least_zero(layout.offload));
    case latent:
      return fmt::format(
          "shardbench has no {}, which {} has", unknown_to_shardbench(model), model.name);
    case grad_accum:
      return fmt::format("grad_accum {} is less than pp - 1 = {}; the pipeline never fills",
          layout.grad_accum, layout.pp - 1);
    case zero:
      return fmt::format("ZeRO stage {} needs dp above 1", layout.zero);
    case dp_replicate:
      return why_replicas(layout);
    case sequence_parallel:
      if (layout.tp == 1) return "sequence parallelism needs tp above 1";
      return fmt::format(
          "sequence parallelism needs tp {} to divide seq_len {}", layout.tp, point.seq_len);
    default:
      return fmt::format("{} are more than limits.max_nodes, {}", counted(point.nodes, "node"),
          sweep_.policy.max_nodes);
  }
}

std::string Judge::why_runner(const Point& point, const Finding& finding) const {
  if (finding.constraint >= first_rule_) {
    const auto& rule = runner_.rules[static_cast<std::size_t>(finding.rule)];
    return rule.why.empty() ? fmt::format("{} refuses {}", runner_name(sweep_, runner_), rule.when)
                            : rule.why;
  }
  const auto limit = std::find_if(limits_.begin(), limits_.end(),
      [&](const Limit& each) { return each.constraint == finding.constraint; });
  const auto& axis = *limit->axis;
  const auto value = axis_text(axis, axis.get(point));
  if (limit->allowed.empty()) {
    return fmt::format("{} supports {} up to {}; this point has {}", runner_name(sweep_, runner_),
        axis.name, limit->most, value);
  }
  std::string choice;
  for (const auto each : limit->allowed) {
    if (!choice.empty()) choice += ", ";
    choice += axis_text(axis, each);
  }
  return fmt::format("{} supports {} {}; this point has {}", runner_name(sweep_, runner_),
      axis.name, choice, value);
}

std::string too_large(const MemoryEstimate& bound, const ClusterSpec& cluster) {
  std::string parts;
  for (std::size_t i = 0; i < memory_class_words.size(); ++i) {
    if (bound.bytes[i] == 0) continue;
    parts += fmt::format(
        "{}{} {}", parts.empty() ? "" : ", ", memory_class_words[i], size_text(bound.bytes[i]));
  }
  return fmt::format("needs at least {} per GPU ({}), and {} has {}", size_text(bound.total()),
      parts, cluster.name, size_text(cluster.memory_bytes));
}

}  // namespace shardsweep
