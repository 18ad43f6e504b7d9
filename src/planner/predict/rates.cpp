// SPDX-License-Identifier: Apache-2.0
#include "predict/rates.hpp"

#include "predict/links.hpp"
#include "predict/units.hpp"
#include "text/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace shardsweep {
namespace {

/// Ratios of rates for one kind of hardware.
struct Proportions {
  double flops_per_byte;     ///< FLOP per byte of memory traffic
  double memory_per_inside;  ///< memory traffic per byte over a link inside a node
  double memory_per_between;
  double inside_latency_us;
  double between_latency_us;
};

// Data sheets of A100, H100 and H200 with the shares that collectives reach.
constexpr Proportions of_gpus{150, 14, 120, 5, 10};
// Processes on a CPU send through sockets.
constexpr Proportions of_processes{1, 4, 8, 20, 50};

double reached_flops(const ClusterSpec& cluster) {
  double best = 0;
  for (const auto dtype : {Dtype::bf16, Dtype::fp32, Dtype::fp64})
    best = std::max(best, cluster.peak(dtype).value_or(0));
  return best > 0 ? best * cluster.gemm_efficiency : nominal_flops;
}

/// `efficiency` is the share of `bandwidth` that collectives reach.
void fill_link(
    double reached, double latency_us, double efficiency, double& bandwidth, double& latency) {
  if (bandwidth > 0) return;
  bandwidth = efficiency > 0 ? reached / efficiency : reached;
  if (latency <= 0) latency = latency_us;
}

}  // namespace

UnknownRates unknown_rates(const ClusterSpec& cluster, Dtype dtype) {
  return {.compute = !cluster.peak(dtype),
      .memory = cluster.memory_bandwidth <= 0,
      .inside = cluster.intra_node_bandwidth <= 0,
      .between = cluster.inter_node_bandwidth <= 0};
}

ClusterSpec with_nominal_rates(ClusterSpec cluster) {
  const auto& kind = cluster.gpu.empty() ? of_processes : of_gpus;
  if (cluster.memory_bandwidth <= 0)
    cluster.memory_bandwidth = reached_flops(cluster) / kind.flops_per_byte;
  const double memory = cluster.memory_bandwidth;
  fill_link(memory / kind.memory_per_inside, kind.inside_latency_us, cluster.intra_node_efficiency,
      cluster.intra_node_bandwidth, cluster.intra_node_latency_us);
  fill_link(memory / kind.memory_per_between, kind.between_latency_us,
      cluster.inter_node_efficiency, cluster.inter_node_bandwidth, cluster.inter_node_latency_us);
  return cluster;
}

// A measured rate outweighs a file's, and the whole of an efficiency is never below the measured
// rate: an efficiency is at most one. Of a ring, the smallest message says what waiting costs, the
// largest what sending costs beyond it. The largest world stands for its kind of link, as jobs are
// large.

namespace {

constexpr double milli = 1e-3;
bool on_one_node(const BlockTimes& run) {
  return run.nodes <= 1;
}

/// The largest world for which `fits` holds; null: none.
template <class Fits>
const BlockTimes* largest(const std::vector<BlockTimes>& runs, Fits fits) {
  const BlockTimes* found = nullptr;
  for (const auto& run : runs) {
    if (fits(run) && (found == nullptr || run.gpus > found->gpus)) found = &run;
  }
  return found;
}

/// Sets the efficiency reached of `whole`; an unknown or too low `whole` becomes the measured rate.
void set_share(double seen, double& whole, double& efficiency) {
  if (seen <= 0) return;
  whole = std::max(whole, seen);
  efficiency = seen / whole;
}

void set_rates(const BlockTimes& run, Dtype dtype, ClusterSpec& into) {
  auto& peak = into.peak_flops.at(peak_index(dtype));
  if (run.gemm_flops > 0) {
    const double best = std::max(run.gemm_peak_flops, run.gemm_flops);
    if (!peak || *peak < run.gemm_flops) peak = best;
    into.gemm_efficiency = run.gemm_flops / *peak;
  }
  if (peak && run.attention_flops > 0)
    into.attention_efficiency = std::min(1.0, run.attention_flops / *peak);
  if (run.memory_bandwidth > 0) into.memory_bandwidth = run.memory_bandwidth;
}

struct Ring {
  double latency_us = 0;  ///< latency of one of `hops` messages
  double bandwidth = 0;   ///< bytes/s that a rank sends
};

/// Fits a ring: the smallest vector gives the time of waiting, the largest the time of sending
/// beyond that.
Ring ring_of(const BlockTimes& run, double hops) {
  Ring ring;
  if (run.all_reduce.empty()) return ring;
  const auto& small = run.all_reduce.front();
  const auto& large = run.all_reduce.back();
  ring.latency_us = small.seconds / hops / micro;
  const double seconds = large.seconds - small.seconds;
  if (seconds > 0) ring.bandwidth = (large.sent_bytes - small.sent_bytes) / seconds;
  return ring;
}

void set_inside(const BlockTimes& run, ClusterSpec& into) {
  const auto ring = ring_of(run, hops_inside);
  if (ring.latency_us > 0) into.intra_node_latency_us = ring.latency_us;
  set_share(ring.bandwidth, into.intra_node_bandwidth, into.intra_node_efficiency);
}

void set_between(const BlockTimes& run, ClusterSpec& into) {
  const auto ring = ring_of(run, hops_between * std::log2(static_cast<double>(run.gpus)));
  if (ring.latency_us > 0) into.inter_node_latency_us = ring.latency_us;
  if (ring.bandwidth <= 0) return;
  // A ring over whole nodes has all their adapters.
  into.inter_node_group_bandwidth = ring.bandwidth;
  if (into.inter_node_bandwidth <= 0)
    set_share(
        ring.bandwidth / into.gpus_per_node, into.inter_node_bandwidth, into.inter_node_efficiency);
}

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

BlockTimes median_of(const std::vector<const BlockTimes*>& repeats) {
  BlockTimes middle = *repeats.front();
  const auto take = [&](const auto& of) {
    std::vector<double> values;
    values.reserve(repeats.size());
    for (const auto* run : repeats)
      values.push_back(of(*run));
    return middle_of(std::move(values));
  };
  for (const auto member : {&BlockTimes::gemm_flops, &BlockTimes::gemm_peak_flops,
           &BlockTimes::attention_flops, &BlockTimes::memory_bandwidth})
    middle.*member = take([&](const BlockTimes& run) { return run.*member; });
  for (std::size_t i = 0; i < middle.all_reduce.size(); ++i) {
    middle.all_reduce[i].seconds = take([&](const BlockTimes& run) {
      return i < run.all_reduce.size() ? run.all_reduce[i].seconds : middle.all_reduce[i].seconds;
    });
  }
  return middle;
}

}  // namespace

std::vector<BlockTimes> medians(const std::vector<BlockTimes>& runs) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<const BlockTimes*>> worlds;
  for (const auto& run : runs)
    worlds[{run.nodes, run.gpus}].push_back(&run);
  std::vector<BlockTimes> all;
  all.reserve(worlds.size());
  for (const auto& [world, repeats] : worlds)
    all.push_back(median_of(repeats));
  return all;
}

bool predicts_worse(const std::vector<StepCheck>& checks) {
  const auto far = [](double predicted_s, double measured_s) {
    return std::abs(std::log(predicted_s / measured_s));
  };
  double before = 0;
  double after = 0;
  for (const auto& check : checks) {
    before += far(check.before_s, check.measured_s);
    after += far(check.after_s, check.measured_s);
  }
  return after > before;
}

std::string step_text(const StepCheck& check) {
  const auto ms = [](double seconds) { return amount_text(seconds / milli); };
  return fmt::format(
      "Train step on {}: {} ms measured ({} to {}), {} ms predicted, {} ms with the preset.",
      counted(check.gpus, "GPU"), ms(check.measured_s), ms(check.fastest_s), ms(check.slowest_s),
      ms(check.after_s), ms(check.before_s));
}

ClusterSpec calibrated(
    const ClusterSpec& preset, Dtype dtype, const std::vector<BlockTimes>& runs) {
  ClusterSpec cluster = preset;
  if (const auto* node = largest(runs, on_one_node)) {
    set_rates(*node, dtype, cluster);
  } else if (const auto* any = largest(runs, [](const BlockTimes&) { return true; })) {
    set_rates(*any, dtype, cluster);
  }
  const auto talks = [](const BlockTimes& run) { return run.gpus > 1; };
  if (const auto* node =
          largest(runs, [&](const BlockTimes& run) { return on_one_node(run) && talks(run); }))
    set_inside(*node, cluster);
  if (const auto* nodes = largest(runs, [&](const BlockTimes& run) { return run.nodes > 1; }))
    set_between(*nodes, cluster);
  return cluster;
}

}  // namespace shardsweep
