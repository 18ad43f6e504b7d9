// SPDX-License-Identifier: Apache-2.0
// A machine is drawn by seed: rates of hardware, costs of the trainer's code, bytes that it
// keeps, a factor for each structural value, another that only similar layouts share, noise,
// slow networks. The planner is told nothing but the preset and the family's name.
#include "predict/predictor.hpp"
#include "tools/bench/planner_case.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

namespace shardsweep::bench {
namespace {

constexpr std::int32_t seq_len = 4096;
constexpr std::int32_t global_batch = 256;
constexpr std::size_t most_rows = 100;  // of a cell

ModelSpec drawn_model(Random& random) {
  struct Size {
    std::int64_t layers;
    std::int64_t hidden;
  };
  constexpr std::array<Size, 8> sizes{{{16, 2048}, {24, 2048}, {28, 3072}, {32, 4096}, {40, 5120},
      {48, 6144}, {60, 6656}, {80, 8192}}};
  constexpr std::array<std::int64_t, 3> vocabularies{32000, 50304, 131072};
  const auto size = sizes.at(random.index(sizes.size()));
  ModelSpec model;
  model.layers = size.layers;
  model.hidden = size.hidden;
  model.heads = size.hidden / 128;
  model.kv_heads = random.one_in(0.5) && model.heads % 8 == 0 ? 8 : model.heads;
  model.ffn = random.one_in(0.5) ? 4 * size.hidden : size.hidden * 7 / 2;
  model.vocab = vocabularies.at(random.index(vocabularies.size()));
  model.tied_embeddings = size.hidden < 3072;
  model.name = fmt::format("{:.3g}B", static_cast<double>(parameters(model)) / 1e9);
  return model;
}

ClusterSpec true_cluster(ClusterSpec cluster, Random& random) {
  cluster.gemm_efficiency *= random.factor(1.4);
  cluster.attention_efficiency *= random.factor(1.5);
  cluster.memory_bandwidth *= random.factor(1.3);
  cluster.intra_node_bandwidth *= random.factor(1.6);
  cluster.intra_node_latency_us *= random.factor(2);
  const double network = random.factor(2.5);
  cluster.inter_node_bandwidth *= network;
  cluster.inter_node_group_bandwidth *= network * random.factor(1.3);
  cluster.inter_node_latency_us *= random.factor(2);
  return cluster;
}

Family true_family(Family family, Random& random) {
  auto& time = family.time;
  for (auto* const value :
      {&time.launch_layer_s, &time.launch_layer_tp_s, &time.launch_layer_pipeline_tp_s,
          &time.launch_stage_s, &time.stage_message_s, &time.update_bytes, &time.update_s,
          &time.gather_tensor_s, &time.gather_part_s, &time.logit_bytes})
    *value *= random.factor(2);
  time.activation_passes *= random.factor(1.5);
  time.overlap = random.between(0.2, 0.95);
  time.tp_exposed = random.between(0.4, 1.1);
  // What runs near the limit lose is drawn with the runs.
  family.retries_near_the_limit = false;
  return family;
}

/// What the model of a step does not have: a factor for each value of each axis, and one that
/// layouts share which resemble each other.
class Misfit {
 public:
  explicit Misfit(Random& random) : structure_(random.between(0.02, 0.1)) {
    for (const auto* name : {"dp", "tp", "pp", "zero", "recompute", "micro_batch"}) {
      for (std::int64_t value = 0; value <= 512; value = value == 0 ? 1 : 2 * value)
        factors_[{name, value}] = structure_ * random.normal();
    }
    for (auto& wave : waves_) {
      for (auto& direction : wave)
        direction = random.normal();
    }
    small_ = random.between(0, 0.3);
  }
  /// ln of a factor on the speed.
  [[nodiscard]] double of(const Point& point) const {
    double sum = 0;
    for (const auto& [of, value] : factors_) {
      if (find_axis(of.first)->get(point) == of.second) sum += value;
    }
    const auto log2_of = [](std::int32_t value) { return std::log2(std::max(value, 1)); };
    const auto& at = point.layout;
    const std::array<double, 4> place{
        log2_of(at.tp), log2_of(at.pp), log2_of(at.micro_batch), log2_of(point.gpus)};
    for (const auto& wave : waves_) {
      double phase = wave[4];
      for (std::size_t i = 0; i < place.size(); ++i)
        phase += 0.5 * wave.at(i) * place.at(i);
      sum += local / 4 * std::sin(phase);
    }
    return sum - small_ / (1 + at.micro_batch);
  }

 private:
  static constexpr double local = 0.3;
  double structure_;
  double small_ = 0;  // what micro-batches of few samples lose
  std::map<std::pair<std::string, std::int64_t>, double> factors_;
  std::array<std::array<double, 5>, 4> waves_{};
};

/// Bytes that runs need: each class by a factor of its own, a layout by another.
class TrueMemory {
 public:
  explicit TrueMemory(Random& random) {
    for (auto& factor : factors_)
      factor = std::exp(0.1 * random.normal());
    // Some trainers keep less for each parameter than any of our families.
    const auto optimizer = std::find(
        memory_class_words.begin(), memory_class_words.end(), std::string_view("optimizer"));
    if (random.one_in(0.25))
      factors_.at(static_cast<std::size_t>(optimizer - memory_class_words.begin())) = 0.6;
    own_ = random.between(0.01, 0.04);
    reported_ = random.between(0.92, 1);
  }
  [[nodiscard]] double of(const MemoryEstimate& estimate, Random& random) const {
    double sum = 0;
    for (std::size_t i = 0; i < factors_.size(); ++i)
      sum += factors_.at(i) * static_cast<double>(estimate.bytes.at(i));
    return sum * std::exp(own_ * random.normal());
  }
  /// The part of what a run needs that its trainer reports.
  [[nodiscard]] double reported() const { return reported_; }

 private:
  std::array<double, memory_class_words.size()> factors_{};
  double own_ = 0;
  double reported_ = 1;
};

/// All layouts of one cell that a trainer may be asked for.
std::vector<Point> layouts(std::int32_t nodes, std::int32_t gpus_per_node, std::string_view family,
    const ModelSpec& model) {
  std::vector<Point> points;
  const auto gpus = nodes * gpus_per_node;
  const auto add = [&](std::int32_t tp, std::int32_t pp, std::int32_t micro_batch,
                       std::int32_t zero, Recompute recompute) {
    if (model.heads % tp != 0 || model.kv_heads % tp != 0 || pp > model.layers) return;
    Point point{.nodes = nodes, .gpus = gpus, .seq_len = seq_len};
    auto& at = point.layout;
    at.tp = tp;
    at.pp = pp;
    at.dp = gpus / tp / pp;
    at.micro_batch = micro_batch;
    if (at.dp * micro_batch > global_batch || global_batch % (at.dp * micro_batch) != 0) return;
    at.grad_accum = global_batch / at.dp / micro_batch;
    at.zero = zero;
    if (at.dp == 1 && zero > 0) return;
    at.recompute = recompute;
    at.sequence_parallel = tp > 1;
    points.push_back(point);
  };
  const bool sharded = family == "fsdp";
  const std::int32_t most_pp = sharded ? 1 : std::min(16, gpus);
  const auto add_all = [&](std::int32_t tp, std::int32_t pp, std::int32_t micro_batch) {
    for (const auto zero : sharded ? std::array{2, 3} : std::array{0, 1}) {
      for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (family == "nanotron" && recompute != Recompute::none) continue;
        add(tp, pp, micro_batch, zero, recompute);
      }
    }
  };
  for (std::int32_t tp = 1; tp <= gpus_per_node; tp *= 2) {
    for (std::int32_t pp = 1; pp <= most_pp && tp * pp <= gpus; pp *= 2) {
      for (std::int32_t micro_batch = 1; micro_batch <= 16; micro_batch *= 2)
        add_all(tp, pp, micro_batch);
    }
  }
  return points;
}

/// Measures rows on one machine.
class Machine {
 public:
  /// `fills`: its trainer fails unless the micro-batches fill the pipeline, which its family
  /// does not say.
  Machine(const Case& told, Random& random, bool fills)
      : random_(random),
        cluster_(true_cluster(told.cluster, random)),
        family_(true_family(told.family, random)),
        truth_(cluster_, family_),
        misfit_(random),
        memory_(random),
        noise_(random.between(0.01, 0.04)),
        fills_(fills) {}

  void measure(const ModelSpec& model, RecordedRun& run) {
    const auto traits = traits_of_kernel(run.kernel);
    const auto guess = truth_.guess(model, run.point, traits);
    const double bytes = memory_.of(guess.memory.estimate, random_);
    const double filled = bytes / static_cast<double>(cluster_.memory_bytes);
    constexpr double failing = 0.02;
    const bool crashes = random_.one_in(
        fills_ && run.point.layout.grad_accum < run.point.layout.pp - 1 ? 0.9 : failing);
    run.outcome = filled > 1 ? Outcome::oom : crashes ? Outcome::crashed : Outcome::completed;
    if (run.outcome != Outcome::completed) return;
    const double share = static_cast<double>(truth_.reported_peak_bytes(model, run.point, traits)) /
        static_cast<double>(guess.memory.estimate.total());
    run.peak_memory_bytes = static_cast<std::int64_t>(bytes * share * memory_.reported());
    double speed = std::log(speed_of(guess.step_s, run.point)) + misfit_.of(run.point) +
        noise_ * random_.normal();
    constexpr double slow_networks = 0.05;
    if (run.nodes > 1 && random_.one_in(slow_networks))
      speed += std::log(random_.between(0.4, 0.9));
    constexpr double nearly_full = 0.96;
    // Whether the planner expects it of this trainer or not.
    if (filled > nearly_full) {
      run.oom_error = true;
      speed += std::log(random_.between(0.25, 0.8));
    }
    run.tokens_per_s_per_gpu = std::exp(speed);
  }

 private:
  Random& random_;
  ClusterSpec cluster_;
  Family family_;
  Predictor truth_;
  Misfit misfit_;
  TrueMemory memory_;
  double noise_;
  bool fills_;
};

template <typename Value>
Value must(Result<Value> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "{}\n", result.error().what);
  std::exit(1);
}

}  // namespace

Case made_table(std::uint64_t seed, const std::filesystem::path& presets) {
  constexpr std::array<const char*, 3> trainers{"nanotron", "megatron", "fsdp"};
  constexpr std::array<const char*, 3> clusters{"h100-8x", "a100-80gb-8x", "a100-40gb-8x"};
  Random random(seed + 1000);
  const auto* family = must(find_family(trainers.at(seed % trainers.size())));
  Case made{.name = "made",
      .sweep = {.file = "made"},
      .cluster = must(load_cluster(clusters.at(seed / 3 % clusters.size()), presets)),
      .family = *family};
  // Drawn apart: what is drawn of machines stays as it was.
  Random habits(seed + 5000);
  Machine machine(made, random, habits.one_in(0.5));
  std::vector<const char*> kernels{"flash_attn2"};
  if (random.one_in(0.4)) kernels.push_back("torch");
  int line = 1;
  const auto measure = [&](const ModelSpec& model, const Point& point) {
    for (const auto* kernel : kernels) {
      RecordedRun run{.point = point, .nodes = point.nodes, .kernel = kernel, .line = ++line};
      run.point.model = static_cast<std::int32_t>(made.sweep.models.size()) - 1;
      machine.measure(model, run);
      made.sweep.runs.push_back(std::move(run));
    }
  };
  for (std::int32_t number = 0; number < 2; ++number) {
    auto model = drawn_model(random);
    if (number == 1 && model == made.sweep.models.front()) break;
    made.sweep.models.push_back(model);
    for (const std::int32_t nodes : {1, 4, 16}) {
      auto points = layouts(nodes, made.cluster.gpus_per_node, family->name, model);
      shuffle(points, random);
      points.resize(std::min(points.size(), most_rows / kernels.size()));
      for (const auto& point : points)
        measure(model, point);
    }
  }
  return made;
}

}  // namespace shardsweep::bench
