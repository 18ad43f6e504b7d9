// SPDX-License-Identifier: Apache-2.0
#include "unit/search/simulated_machine.hpp"

#include "predict/rates.hpp"

#include <shardsweep/axis_table.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace shardsweep::testing {
namespace {

/// The same numbers for the same seed on every platform.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {
    for (int i = 0; i < 8; ++i)
      (void)uniform();
  }
  /// Between 0 and 1.
  double uniform() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    auto mixed = state_;
    mixed ^= mixed >> 33;
    mixed *= 0xff51afd7ed558ccdULL;
    mixed ^= mixed >> 33;
    return static_cast<double>(mixed >> 11) * 0x1p-53;
  }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard deviation 1; a sum of twelve (Irwin-Hall).
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += uniform();
    return sum;
  }
  /// Within `most` times either way.
  double factor(double most) { return std::exp(std::log(most) * between(-1, 1)); }

 private:
  std::uint64_t state_;
};

constexpr int slots = 4;
constexpr int global_batch = 64;

ModelSpec mini() {
  return {.name = "mini",
      .layers = 4,
      .hidden = 128,
      .ffn = 352,
      .heads = 8,
      .kv_heads = 4,
      .vocab = 512};
}

ClusterSpec unknown_cluster() {
  ClusterSpec cluster;
  cluster.name = "this-machine";
  cluster.gpus_per_node = slots;
  cluster.this_machine = true;
  cluster.memory_bytes = 12 << 20;
  return cluster;
}

ClusterSpec true_cluster(Dice& dice, double most) {
  auto cluster = with_nominal_rates(unknown_cluster());
  const double rate = nominal_flops * dice.factor(most);
  cluster.peak_flops.fill(rate);
  cluster.gemm_efficiency = 1;
  cluster.attention_efficiency = std::min(1.0, dice.factor(most));
  cluster.memory_bandwidth *= dice.factor(most);
  cluster.intra_node_bandwidth *= dice.factor(most);
  cluster.intra_node_latency_us *= dice.factor(most);
  return cluster;
}

Family true_family(Dice& dice, const Family& assumed, double most) {
  auto family = assumed;
  auto& time = family.time;
  time.launch_layer_s *= dice.factor(most);
  time.launch_layer_tp_s *= dice.factor(most);
  time.stage_message_s *= dice.factor(most);
  time.update_s *= dice.factor(most);
  time.update_bytes *= dice.factor(most);
  time.logit_bytes *= dice.factor(most);
  time.overlap = dice.uniform();
  time.tp_exposed = dice.between(0.3, 1.2);
  time.recomputed_again = dice.between(0.5, 1.5);
  return family;
}

/// Axes whose values cost something on these machines. In this order the dice are thrown: an
/// axis that is new to the program leaves the machines as they are.
constexpr std::array<std::string_view, 14> costly_axes{"dp", "tp", "pp", "cp", "ep", "vpp",
    "dp_replicate", "zero", "recompute", "sequence_parallel", "schedule", "rank_order", "overlap",
    "cp_mode"};
static_assert(names_axes(costly_axes));

/// What the model of a step does not have: one factor for each value of each axis.
class Structural {
 public:
  Structural(Dice& dice, double sigma) : dice_(dice), sigma_(sigma) {
    half_batch_ = dice.factor(6) / 4;
  }

  double of(const Point& point) {
    double sum = 0;
    for (const auto name : costly_axes) {
      const auto value = find_axis(name)->get(point);
      const auto [found, fresh] = factors_.try_emplace({name, value}, 0);
      if (fresh) found->second = sigma_ * dice_.normal();
      sum += found->second;
    }
    const double micro_batch = point.layout.micro_batch;
    return std::exp(sum) * micro_batch / (micro_batch + half_batch_);
  }

 private:
  Dice& dice_;
  double sigma_;
  double half_batch_;  // micro-batch at which products reach half of their rate
  std::map<std::pair<std::string_view, std::int64_t>, double> factors_;
};

/// Bytes that runs need: each class by a factor of its own.
class TrueMemory {
 public:
  explicit TrueMemory(Dice& dice) {
    for (auto& factor : factors_)
      factor = std::exp(0.1 * dice.normal());
  }
  [[nodiscard]] double of(const MemoryEstimate& estimate) const {
    double sum = 0;
    for (std::size_t i = 0; i < factors_.size(); ++i)
      sum += factors_.at(i) * static_cast<double>(estimate.bytes.at(i));
    return sum;
  }

 private:
  std::array<double, std::tuple_size_v<decltype(MemoryEstimate::bytes)>> factors_{};
};

/// Layout `i` of all degrees that make four, ZeRO 0 and 1, every recompute and micro-batches of
/// 1 to 8; none where there is no such layout.
std::optional<Point> layout(int i) {
  Point point;
  point.nodes = 0;
  point.gpus = slots;
  point.seq_len = 32;
  point.dtype = Dtype::fp32;
  auto& at = point.layout;
  at.micro_batch = 1 << (i % 4);
  at.recompute = static_cast<Recompute>(i / 4 % 3);
  at.zero = i / 12 % 2;
  at.pp = 1 << (i / 24 % 3);
  at.tp = 1 << (i / 72 % 3);
  if (at.tp * at.pp > slots) return std::nullopt;
  at.dp = slots / at.tp / at.pp;
  if (at.zero > 0 && at.dp == 1) return std::nullopt;
  at.grad_accum = global_batch / at.dp / at.micro_batch;
  return point;
}

SimulatedRun run_of(const Point& point, const Predictor& truth, Structural& structural,
    const TrueMemory& memory, Dice& dice, const Misfit& misfit) {
  SimulatedRun run;
  run.point = {.model = mini(), .point = point, .traits = {}};
  const auto guess = truth.guess(run.point.model, point);
  const double bytes = memory.of(guess.memory.estimate);
  const double speed = speed_of(guess.step_s, point) * structural.of(point);
  const bool slow = dice.uniform() < misfit.slow_runs;
  const double noise = std::exp(misfit.noise * dice.normal()) * (slow ? dice.between(0.4, 0.8) : 1);
  if (bytes > static_cast<double>(unknown_cluster().memory_bytes)) return run;
  run.speed = speed;
  run.measured = speed * noise;
  return run;
}

double fastest(const SimulatedMachine& machine, const std::vector<bool>& left_out) {
  double best = 0;
  for (std::size_t i = 0; i < machine.runs.size(); ++i) {
    if (!left_out.at(i)) best = std::max(best, machine.runs[i].speed);
  }
  return best;
}

}  // namespace

SimulatedMachine simulated_machine(std::uint64_t seed, const Misfit& misfit) {
  Dice dice(seed);
  SimulatedMachine machine;
  machine.cluster = unknown_cluster();
  machine.family = *find_family("shardbench");
  const auto family = true_family(dice, *machine.family, misfit.rates);
  const Predictor truth(true_cluster(dice, misfit.rates), family);
  Structural structural(dice, misfit.structure);
  const TrueMemory memory(dice);
  constexpr int layouts = 216;
  for (int i = 0; i < layouts; ++i) {
    if (const auto point = layout(i))
      machine.runs.push_back(run_of(*point, truth, structural, memory, dice, misfit));
  }
  return machine;
}

SearchScore search(const SimulatedMachine& machine, const SearchSettings& settings) {
  CellSearch cell(settings, machine.cluster, Predictor(machine.cluster, *machine.family));
  for (const auto& run : machine.runs)
    cell.add(run.point);
  std::vector<bool> launched(machine.runs.size(), false);
  SearchScore score;
  score.points = machine.runs.size();
  double best = 0;
  double chosen = 0;
  while (!cell.enough(0)) {
    const auto order = cell.order();
    if (order.empty()) break;
    const auto next = order.front();
    if (cell.ruled_out_by(next)) {
      cell.end(next, {Outcome::skipped, 0, 0});
      continue;
    }
    const auto& run = machine.runs[next];
    cell.start(next);
    cell.end(next, {run.speed > 0 ? Outcome::completed : Outcome::oom, run.measured, 0});
    launched[next] = true;
    ++score.launched;
    if (run.measured <= best) continue;
    best = run.measured;
    chosen = run.speed;
  }
  score.stopped = cell.enough(0).has_value() && !cell.order().empty();
  const double most = fastest(machine, std::vector<bool>(machine.runs.size(), false));
  score.regret = chosen > 0 ? most / chosen - 1 : 0;
  score.left_over = best > 0 ? fastest(machine, launched) / best - 1 : 0;
  return score;
}

}  // namespace shardsweep::testing
