// SPDX-License-Identifier: Apache-2.0
#include "predict/links.hpp"
#include "predict/rates.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr double gb = 1e9;
constexpr auto fp32 = static_cast<std::size_t>(Dtype::fp32);
constexpr auto bf16 = static_cast<std::size_t>(Dtype::bf16);

/// A node without a data sheet.
ClusterSpec machine() {
  ClusterSpec cluster;
  cluster.name = "m";
  cluster.gpus_per_node = 4;
  cluster.memory_bytes = 1 << 30;
  return cluster;
}

/// Times of a ring whose messages cost `latency_s` each, `hops` of them, and `bandwidth`.
std::vector<BlockTimes::Transfer> ring(double hops, double latency_s, double bandwidth) {
  std::vector<BlockTimes::Transfer> transfers;
  for (const double bytes : {100.0, 1e4, 1e6, 1e8})
    transfers.push_back({bytes, hops * latency_s + bytes / bandwidth});
  return transfers;
}

}  // namespace

TEST_CASE("where nothing is known of the hardware what was measured is its peak") {
  const BlockTimes alone{
      .gpus = 1, .gemm_flops = 40 * gb, .gemm_peak_flops = 50 * gb, .attention_flops = 5 * gb};
  const BlockTimes full{.gpus = 4,
      .gemm_flops = 16 * gb,
      .gemm_peak_flops = 20 * gb,
      .attention_flops = 2 * gb,
      .memory_bandwidth = 3 * gb,
      .all_reduce = ring(hops_inside, 1e-5, 2 * gb)};
  // Ranks of a node share what it has: the full one counts, in whatever order they come.
  const auto cluster = calibrated(machine(), Dtype::fp32, {full, alone});
  CHECK(*cluster.peak_flops[fp32] == doctest::Approx(20 * gb));
  CHECK_FALSE(cluster.peak_flops[bf16]);
  CHECK(cluster.gemm_efficiency == doctest::Approx(0.8));
  CHECK(cluster.attention_efficiency == doctest::Approx(0.1));
  CHECK(cluster.memory_bandwidth == doctest::Approx(3 * gb));
  CHECK(cluster.intra_node_bandwidth == doctest::Approx(2 * gb));
  CHECK(cluster.intra_node_efficiency == doctest::Approx(1));
  CHECK(cluster.intra_node_latency_us == doctest::Approx(10).epsilon(0.01));
  CHECK(cluster.inter_node_bandwidth == 0);
}

TEST_CASE("a data sheet's peaks and links stay and the share that is reached is measured") {
  const auto preset = h100();
  const double peak = *preset.peak_flops[bf16];
  const BlockTimes node{.gpus = 8,
      .nodes = 1,
      .gemm_flops = 0.7 * peak,
      .gemm_peak_flops = 0.75 * peak,
      .attention_flops = 0.4 * peak,
      .all_reduce = ring(hops_inside, 2e-6, preset.intra_node_bandwidth / 2)};
  const BlockTimes nodes{.gpus = 32,
      .nodes = 4,
      .gemm_flops = 0.1 * peak,
      .all_reduce = ring(hops_between * 5, 4e-6, 200 * gb)};
  const auto cluster = calibrated(preset, Dtype::bf16, {nodes, node});
  CHECK(*cluster.peak_flops[bf16] == peak);
  CHECK(cluster.gemm_efficiency == doctest::Approx(0.7));
  CHECK(cluster.attention_efficiency == doctest::Approx(0.4));
  CHECK(cluster.intra_node_bandwidth == preset.intra_node_bandwidth);
  CHECK(cluster.intra_node_efficiency == doctest::Approx(0.5));
  CHECK(cluster.inter_node_bandwidth == preset.inter_node_bandwidth);
  CHECK(cluster.inter_node_group_bandwidth == doctest::Approx(200 * gb));
  CHECK(cluster.inter_node_latency_us == doctest::Approx(4).epsilon(0.01));
}

TEST_CASE("what was not measured stays as the preset says") {
  CHECK(calibrated(h100(), Dtype::bf16, {}) == h100());
  CHECK(calibrated(h100(), Dtype::bf16, {BlockTimes{}}) == h100());
  // A transfer that took no longer than a smaller one says nothing of bandwidth.
  BlockTimes odd{.gpus = 2, .all_reduce = {{100, 1e-3}, {1e6, 1e-3}}};
  CHECK(calibrated(h100(), Dtype::bf16, {odd}).intra_node_bandwidth == h100().intra_node_bandwidth);
}

TEST_CASE("of repeated runs the median of each rate counts") {
  const auto run = [](double gemm, double bandwidth) {
    return BlockTimes{.gpus = 4,
        .gemm_flops = gemm * gb,
        .memory_bandwidth = bandwidth * gb,
        .all_reduce = ring(hops_inside, 1e-5, bandwidth * gb)};
  };
  const BlockTimes alone{.gpus = 1, .gemm_flops = 90 * gb};
  const auto middle = medians({run(10, 0.98), alone, run(30, 5.1), run(20, 4.8)});
  REQUIRE(middle.size() == 2);
  const auto cluster = calibrated(machine(), Dtype::fp32, middle);
  CHECK(*cluster.peak_flops[fp32] == doctest::Approx(20 * gb));
  CHECK(cluster.memory_bandwidth == doctest::Approx(4.8 * gb));
  CHECK(cluster.intra_node_bandwidth == doctest::Approx(4.8 * gb));
}

TEST_CASE("measured rates that predict the measured steps worse are found out") {
  StepCheck check{.gpus = 4,
      .measured_s = 0.4,
      .fastest_s = 0.39,
      .slowest_s = 0.43,
      .before_s = 1.47,
      .after_s = 1.92};
  CHECK(predicts_worse({check}));
  CHECK(step_text(check) ==
      "Train step on 4 GPUs: 400 ms measured (390 to 430), 1,920 ms predicted, 1,470 ms with "
      "the preset.");
  check.after_s = 0.2;
  CHECK_FALSE(predicts_worse({check}));
  // A factor of two too fast is as far off as one too slow.
  check.before_s = 0.7;
  CHECK(predicts_worse({check}));
}
