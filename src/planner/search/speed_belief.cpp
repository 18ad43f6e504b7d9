// SPDX-License-Identifier: Apache-2.0
#include "search/speed_belief.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace shardsweep {
namespace {

double log2_of(std::int64_t value) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(value, 1)));
}

bool tp_leaves_node(const Layout& layout, const ClusterSpec& cluster) {
  return cluster.gpus_per_node > 0 && layout.tp > cluster.gpus_per_node;
}

/// Lengths over which errors of predictions resemble each other are about a doubling of a
/// degree; what switches a mechanism on is as far away as that.
Features features_of(const SearchPoint& at, const ClusterSpec& cluster) {
  const auto& layout = at.point.layout;
  constexpr double degree = 0.7;
  constexpr double size = 0.5;
  return {degree * log2_of(layout.tp), degree * log2_of(layout.pp),
      size * log2_of(layout.micro_batch), size * log2_of(layout.grad_accum),
      degree * (layout.zero > 0 ? 1.0 : 0.0) + 0.3 * layout.zero,
      degree * static_cast<double>(layout.recompute),
      (layout.sequence_parallel ? 0.5 : 0.0) + (tp_leaves_node(layout, cluster) ? 1.0 : 0.0),
      (layout.pp > 1 ? 1.0 : 0.0),
      (at.traits.flash_attention.value_or(true) ? 0.0 : 1.0) +
          (at.traits.fused_norm.value_or(false) ? 0.5 : 0.0),
      0.3 * log2_of(at.point.gpus), 0.3 * log2_of(parameters(at.model))};
}

// Indices into Parts. A group of tensor-parallel ranks that leaves its node waits for another
// network, and errors of one network say nothing of the other.
constexpr std::size_t tp_inside_node = 3;
constexpr std::size_t tp_between_nodes = part_count - 1;

/// Shares that the parts have of a step, in the order of TimeEstimate::weights. Those weights say
/// what a small change does: for a half-hidden transfer even more than its share. Errors are not
/// small, and shares add up to one.
Parts shares_of(const TimeEstimate& time, bool between_nodes) {
  const double slot = time.compute_s + time.memory_s + time.launch_s + time.tp_s + time.pp_s;
  const double each = (slot > 0 ? (slot + time.bubble_s) / slot : 1) / time.step_s;
  Parts parts{each * time.compute_s, each * time.memory_s, each * time.launch_s, each * time.tp_s,
      time.dp_s / time.step_s, each * time.pp_s, time.update_s / time.step_s, 0};
  if (between_nodes) std::swap(parts[tp_inside_node], parts[tp_between_nodes]);
  return parts;
}

/// Jobs of one published table reached 13 or 178 GB/s between their nodes: ln(178 / 13) / 2.6.
constexpr double tp_between_nodes_sigma = 1;
/// Bound as long as one run alone has shown the network, which may have been in a bad state. For
/// good the bound would cost 11.1 % of the published table's hours, in place of 7.0 (bench_planner,
/// as it is).
constexpr double tp_between_nodes_once_sigma = 0.3;
/// Share of a step from which on a run shows a part, and how many runs are to show it.
constexpr double telling_share = 0.1;
constexpr std::size_t twice = 2;
/// A factor of four either way, uniform in its logarithm.
constexpr double unknown_rate_sigma = 0.8;
/// Scale of a machine of which nothing is known: twice as far off.
constexpr double unknown_scale_sigma = 1.6;
/// Errors of a family's habits on hardware that it was never fitted on: of all its layouts, and of
/// those with one value of a structural axis.
constexpr double unknown_own_sigma = 0.3;
constexpr double unknown_structure_sigma = 0.25;
/// Error that layouts with one value share if rates are known. Measured on published tables and on
/// made-up ones (tests/tools/bench/planner).
constexpr double of_value_sigma = 0.07;
/// Rates of a CPU were measured in an hour of its own: processes share it.
constexpr double shared_cpu_scale_sigma = 0.7;
/// Noise of one run, if others share the machine or nothing is known of it. On GPUs of a known kind
/// runs repeat within a few percent (ResidualPrior::noise).
constexpr double noise_of_unknown = 0.07;

ResidualPrior residual_prior(const UnknownRates& unknown, bool on_cpu, bool seen_twice) {
  ResidualPrior prior;
  std::copy_n(part_sigmas().begin(), part_count - 1, prior.parts.begin());
  prior.parts[tp_between_nodes] = seen_twice ? tp_between_nodes_sigma : tp_between_nodes_once_sigma;
  if (on_cpu) prior.scale = shared_cpu_scale_sigma;
  if (on_cpu || unknown.compute) prior.noise = noise_of_unknown;
  const double of_compute = unknown.compute ? unknown_rate_sigma : 0;
  const double of_memory = unknown.compute || unknown.memory ? unknown_rate_sigma : 0;
  const double of_links =
      unknown.compute || unknown.inside || unknown.between ? unknown_rate_sigma : 0;
  prior.unknown = {
      of_compute, of_memory, of_compute, of_links, of_links, of_links, of_memory, of_links};
  if (unknown.compute) {
    prior.scale = unknown_scale_sigma;
    prior.own = unknown_own_sigma;
    prior.structure = unknown_structure_sigma;
  } else {
    prior.of_value = of_value_sigma;
  }
  return prior;
}

}  // namespace

SpeedBelief::SpeedBelief(const ClusterSpec& cluster)
    : cluster_(cluster), residuals_(residual_prior({}, cluster.gpu.empty(), false)) {}

ResidualInput SpeedBelief::input_of(const SearchPoint& point, const TimeEstimate& time) const {
  return {features_of(point, cluster_),
      shares_of(time, tp_leaves_node(point.point.layout, cluster_)), structure_of(point.point),
      point.point.layout.micro_batch, own_cell};
}

ResidualPrior SpeedBelief::kernel_prior() const {
  auto prior = residual_prior(unknown_, cluster_.gpu.empty(), shown_between_ >= twice);
  prior.varies = varies_;
  return prior;
}

void SpeedBelief::widen(const Point& point, const Structure& structure, const Structure* first) {
  // Rates that the point needs.
  auto rates = unknown_rates(cluster_, point.dtype);
  rates.inside &= point.layout.world() > 1;
  rates.between &= point.nodes > 1;
  const UnknownRates wider{unknown_.compute || rates.compute, unknown_.memory || rates.memory,
      unknown_.inside || rates.inside, unknown_.between || rates.between};
  auto varies = varies_;
  for (std::size_t i = 0; i < varies.size() && first != nullptr; ++i)
    varies.at(i) |= structure.at(i) != first->at(i);
  if (wider == unknown_ && varies == varies_) return;
  unknown_ = wider;
  varies_ = varies;
  residuals_ = ResidualModel(kernel_prior());
  outdated_ = true;
}

std::int32_t SpeedBelief::cell_of(const SearchPoint& point, bool remembered) {
  const auto& at = point.point;
  const auto next = static_cast<std::int32_t>(others_.size()) + 1;
  return others_
      .try_emplace(
          {parameters(point.model), at.seq_len, at.nodes, at.gpus, remembered ? 1 : 0}, next)
      .first->second;
}

bool SpeedBelief::observe(const ResidualInput& input, double speed, double predicted) {
  measured_.push_back({input, speed - predicted, speed});
  const bool own = input.cell == own_cell;
  if (!own) ++other_runs_;
  // One run on a network in a bad state must not condemn all layouts that need the network.
  const bool shown = input.parts[tp_between_nodes] >= telling_share && ++shown_between_ == twice;
  if (shown || other_runs_ > other_runs_taken_ + other_runs_taken_ / 10) {
    other_runs_taken_ = other_runs_;
    build_by_ = measured_.size();
    outdated_ = true;
  }
  if (own && !outdated_) residuals_.add(input, speed - predicted);
  return own || outdated_;
}

/// Takes in the last runs of other cells that were about as fast as their cell's best. Reasons why
/// layouts are slow there need not be known here: with all runs the published table takes 5.7 % of
/// its runs to come within 1 %, in place of 3.0 (bench_planner, as it is and for an unknown
/// trainer).
void SpeedBelief::add_others() {
  constexpr double about = 0.7;
  constexpr std::size_t most = 60;
  const std::span<const SpeedSample> known(measured_.data(), build_by_);
  std::map<std::int32_t, double> best;
  for (const auto& one : known) {
    const auto [found, first] = best.try_emplace(one.input.cell, one.speed);
    if (!first) found->second = std::max(found->second, one.speed);
  }
  std::size_t count = 0;
  for (auto one = known.rbegin(); one != known.rend() && count < most; ++one) {
    if (one->input.cell == own_cell) continue;
    if (one->speed < best.at(one->input.cell) + std::log(about)) continue;
    residuals_.add(one->input, one->off);
    ++count;
  }
}

void SpeedBelief::rebuild() {
  residuals_ = ResidualModel(kernel_prior());
  add_others();
  for (std::size_t i = 0; i < measured_.size(); ++i) {
    if (i == build_by_) residuals_.calibrate_by_all();
    if (measured_[i].input.cell == own_cell) residuals_.add(measured_[i].input, measured_[i].off);
  }
  if (build_by_ == measured_.size()) residuals_.calibrate_by_all();
}

void SpeedBelief::learn() {
  if (std::exchange(outdated_, false)) rebuild();
  residuals_.fit();
}

}  // namespace shardsweep
