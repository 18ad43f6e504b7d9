// SPDX-License-Identifier: Apache-2.0
// What a schedule gains, and how fast whole pipelines are, against published figures.
#include "predict/family.hpp"
#include "predict/time_model.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

using namespace shardsweep;

namespace {

/// As the preset a100-80gb-8x.
ClusterSpec a100_nodes() {
  ClusterSpec cluster;
  cluster.name = "a100";
  cluster.gpu = "A100";
  cluster.gpus_per_node = 8;
  cluster.memory_bytes = std::int64_t{80} << 30;
  cluster.peak_flops[0] = 312e12;
  cluster.memory_bandwidth = 2.039e12;
  cluster.gemm_efficiency = 0.75;
  cluster.attention_efficiency = 0.45;
  cluster.intra_node_bandwidth = 300e9;
  cluster.inter_node_bandwidth = 25e9;
  cluster.intra_node_latency_us = 3;
  cluster.inter_node_latency_us = 8;
  return cluster;
}

ModelSpec gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab) {
  return {.name = "gpt",
      .layers = layers,
      .hidden = hidden,
      .ffn = 4 * hidden,
      .heads = heads,
      .kv_heads = heads,
      .vocab = vocab,
      .tied_embeddings = true};
}

Point pipeline_of(
    std::int32_t pp, std::int32_t micro_batch, std::int32_t grad_accum, std::int32_t seq_len) {
  Point point;
  point.nodes = (pp + 7) / 8;
  point.gpus = pp;
  point.seq_len = seq_len;
  point.layout.pp = pp;
  point.layout.micro_batch = micro_batch;
  point.layout.grad_accum = grad_accum;
  return point;
}

double step_of(const ModelSpec& model, const Point& point, const RunTraits& traits = {}) {
  // Megatron-LM of 2021 to 2023, of which these figures are, read and wrote weights' gradients
  // beside its products.
  Family family = **find_family("megatron");
  family.time.parameter_bytes = 14;
  return estimate_time(model, a100_nodes(), point, family.time, family.memory, traits).step_s;
}

double deviation(double predicted, double published) {
  return predicted / published - 1;
}

}  // namespace

// Table 4 of arXiv 2401.10241 (Megatron-LM, A100, 1,024 tokens): samples per GPU and second of
// 1F1B, interleaved 1F1B with one layer per chunk, and ZB-1p, which has ZB-H1's memory. Their
// first and last stages have a layer less, beside embedding and head: 22, 30, 46 and 62 layers.
struct ZeroBubbleRow {
  std::int64_t layers, hidden, heads;
  std::int32_t pp, micro_batch;
  std::array<std::int32_t, 3> grad_accum;
  std::array<double, 3> plain, interleaved, zero_bubble;
};

TEST_CASE("gains of schedules over 1F1B are within 6 % of the published ones") {
  const std::array<ZeroBubbleRow, 4> table{{
      {24, 2304, 24, 8, 6, {24, 32, 64}, {11.8, 12.5, 13.6}, {13.1, 13.4, 13.9},
          {12.9, 13.4, 14.2}},
      {32, 4096, 32, 8, 3, {24, 32, 64}, {3.50, 3.70, 4.03}, {4.01, 4.08, 4.19},
          {3.88, 4.00, 4.20}},
      {48, 5120, 40, 16, 1, {48, 64, 128}, {1.40, 1.49, 1.64}, {1.54, 1.59, 1.66},
          {1.61, 1.67, 1.76}},
      {64, 6144, 48, 32, 1, {96, 128, 256}, {0.76, 0.80, 0.88}, {0.82, 0.85, 0.90},
          {0.87, 0.90, 0.96}},
  }};
  for (const auto& row : table) {
    const auto model = gpt(row.layers, row.hidden, row.heads, 50304);
    for (std::size_t i = 0; i < row.grad_accum.size(); ++i) {
      auto point = pipeline_of(row.pp, row.micro_batch, row.grad_accum.at(i), 1024);
      const double plain = step_of(model, point);
      point.layout.vpp = static_cast<std::int32_t>(row.layers / row.pp);
      const double interleaved = plain / step_of(model, point);
      point.layout.vpp = 1;
      point.layout.schedule = Schedule::zb_h1;
      const double zero_bubble = plain / step_of(model, point);
      const double interleaved_published = row.interleaved.at(i) / row.plain.at(i);
      const double zero_bubble_published = row.zero_bubble.at(i) / row.plain.at(i);
      MESSAGE("p " << row.pp << " m " << row.grad_accum.at(i) << ": interleaved " << interleaved
                   << ", published " << interleaved_published << "; zero bubble " << zero_bubble
                   << ", published " << zero_bubble_published);
      CHECK(std::abs(deviation(interleaved, interleaved_published)) < 0.06);
      CHECK(std::abs(deviation(zero_bubble, zero_bubble_published)) < 0.06);
    }
  }
}

// Table 1 of arXiv 2104.04473 (A100, 2,048 tokens, full recomputation, interleaved where there
// are stages): TFLOP/s per GPU by its FLOPs, 96 B s l h^2 (1 + s / 6h + V / 16lh).
struct WeakScalingRow {
  std::int64_t heads, hidden, layers;
  std::int32_t tp, pp, gpus, batch;
  double tflops;
};

TEST_CASE("pipelines of up to 3,072 GPUs are within 13 % of Megatron's") {
  const std::array<WeakScalingRow, 10> table{
      {{24, 2304, 24, 1, 1, 32, 512, 137}, {32, 3072, 30, 2, 1, 64, 512, 138},
          {32, 4096, 36, 4, 1, 128, 512, 142}, {48, 6144, 40, 8, 1, 256, 1024, 135},
          {64, 8192, 48, 8, 2, 512, 1536, 138}, {80, 10240, 60, 8, 4, 1024, 1792, 140},
          {96, 12288, 80, 8, 8, 1536, 2304, 148}, {128, 16384, 96, 8, 16, 1920, 2160, 155},
          {128, 20480, 105, 8, 35, 2520, 2520, 163}, {160, 25600, 128, 8, 64, 3072, 3072, 163}}};
  constexpr double vocab = 51200;
  constexpr double tokens = 2048;
  for (const auto& row : table) {
    const auto model = gpt(row.layers, row.hidden, row.heads, 51200);
    Point point = pipeline_of(row.pp, 1, 1, 2048);
    point.gpus = row.gpus;
    point.nodes = row.gpus / 8;
    point.layout.tp = row.tp;
    point.layout.dp = row.gpus / row.tp / row.pp;
    point.layout.recompute = Recompute::full;
    const auto hidden = static_cast<double>(row.hidden);
    const auto layers = static_cast<double>(row.layers);
    const double flops = 96.0 * row.batch * tokens * layers * hidden * hidden *
        (1 + tokens / (6 * hidden) + vocab / (16 * layers * hidden));
    // Micro-batches and chunks are not published: the best of the likely ones.
    double best = 0;
    for (const std::int32_t micro_batch : {1, 2, 4, 8}) {
      for (const std::int32_t vpp : {1, 2, 3, 4}) {
        if (row.pp == 1 && vpp > 1) continue;
        if (row.layers % (std::int64_t{row.pp} * vpp) != 0) continue;
        if (row.batch % (point.layout.dp * micro_batch) != 0) continue;
        point.layout.micro_batch = micro_batch;
        point.layout.vpp = vpp;
        point.layout.grad_accum = row.batch / point.layout.dp / micro_batch;
        if (point.layout.grad_accum < row.pp) continue;
        const double step = step_of(model, point, {.flash_attention = false});
        best = std::max(best, flops / step / row.gpus / 1e12);
      }
    }
    MESSAGE("tp " << row.tp << " pp " << row.pp << " on " << row.gpus << " GPUs: " << best
                  << " TFLOP/s, published " << row.tflops << ", "
                  << 100 * deviation(best, row.tflops) << " %");
    // Without stages no schedule is at work; the smallest models are predicted too fast.
    CHECK(std::abs(deviation(best, row.tflops)) < (row.pp > 1 ? 0.13 : 0.18));
  }
}
