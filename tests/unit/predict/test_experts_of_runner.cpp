// SPDX-License-Identifier: Apache-2.0
// Memory of experts and of exchanged heads as the runner's meta device counts it.
#include "measurement/meta_run.hpp"
#include "predict/memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

using namespace shardsweep;

namespace {

ModelSpec small_mixture() {
  return {.name = "small",
      .layers = 4,
      .hidden = 128,
      .ffn = 352,
      .heads = 8,
      .kv_heads = 8,
      .vocab = 512,
      .head_dim = 32,
      .experts = 8,
      .experts_per_token = 2,
      .expert_ffn = 96};
}

Point expert_point(std::int32_t dp, std::int32_t tp) {
  Point point;
  point.nodes = 0;
  point.gpus = dp * tp;
  point.seq_len = 64;
  point.dtype = Dtype::fp32;
  point.layout.dp = dp;
  point.layout.tp = tp;
  point.layout.micro_batch = 4;
  return point;
}

shardbench::Options expert_options(const ModelSpec& model, const Point& point) {
  const auto& layout = point.layout;
  shardbench::Options options;
  options.device = "meta";
  options.dtype = shardbench::Dtype::fp32;
  options.model = {.layers = model.layers,
      .hidden = model.hidden,
      .ffn = model.ffn,
      .heads = model.heads,
      .kv_heads = model.kv_heads,
      .vocab = model.vocab,
      .seq_len = point.seq_len,
      .head_values = model.head_dim,
      .experts = model.experts,
      .experts_per_token = model.experts_per_token,
      .expert_ffn = model.expert_ffn,
      .shared_experts = model.shared_experts,
      .dense_layers = model.dense_layers};
  options.layout.dp = layout.dp;
  options.layout.tp = layout.tp;
  options.layout.pp = layout.pp;
  options.layout.cp = layout.cp;
  options.layout.cp_mode = static_cast<shardbench::ContextMode>(layout.cp_mode);
  options.layout.ep = layout.ep;
  options.layout.zero = layout.zero;
  options.layout.micro_batch = layout.micro_batch;
  options.layout.grad_accum = layout.grad_accum;
  options.layout.recompute = static_cast<shardbench::Recompute>(layout.recompute);
  options.layout.moe_routing = shardbench::MoeRouting::balanced;
  return options;
}

/// Predicted over counted.
double ratio(const ModelSpec& model, const Point& point) {
  const auto cost = shardbench::cost_of_rank(expert_options(model, point), 0);
  const auto estimate = estimate_memory(model, point, shardbench_cpu_memory());
  return static_cast<double>(estimate.total()) / static_cast<double>(cost.peak_bytes);
}

}  // namespace

TEST_CASE("the memory of experts is what the meta device counts") {
  double least = 1;
  double most = 1;
  // Each combination of shared experts, a dense layer, tp, ep, ZeRO and recomputation.
  constexpr std::array<std::int32_t, 6> values{2, 2, 2, 3, 3, 3};
  for (std::int32_t number = 0; number < 2 * 2 * 2 * 3 * 3 * 3; ++number) {
    std::array<std::int32_t, values.size()> at{};
    std::int32_t rest = number;
    for (std::size_t i = 0; i < values.size(); ++i) {
      at.at(i) = rest % values.at(i);
      rest /= values.at(i);
    }
    auto model = small_mixture();
    model.shared_experts = at[0];
    model.dense_layers = at[1];
    auto point = expert_point(4, 1 + at[2]);
    point.layout.ep = 1 << at[3];
    point.layout.zero = at[4];
    point.layout.recompute = static_cast<Recompute>(at[5]);
    const double found = ratio(model, point);
    CAPTURE(number);
    CHECK(found > 0.85);
    CHECK(found < 1.2);
    least = std::min(least, found);
    most = std::max(most, found);
  }
  MESSAGE("predicted over counted: " << least << " to " << most);
}

TEST_CASE("the memory of heads that are exchanged for tokens is what the meta device counts") {
  auto model = small_mixture();
  model.experts = model.experts_per_token = model.expert_ffn = 0;
  for (const auto mode : {ContextMode::ring, ContextMode::ulysses}) {
    for (const std::int32_t cp : {2, 4}) {
      auto point = expert_point(2, 1);
      point.gpus = 2 * cp;
      point.layout.cp = cp;
      point.layout.cp_mode = mode;
      const double found = ratio(model, point);
      CAPTURE(mode);
      CAPTURE(cp);
      CHECK(found > 0.85);
      CHECK(found < 1.2);
    }
  }
}
