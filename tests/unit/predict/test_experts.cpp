// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: parameters, memory and time against published figures and by hand.
#include "predict/family.hpp"
#include "predict/memory.hpp"
#include "predict/time_model.hpp"
#include "unit/predict/megatron_on_h100.hpp"
#include "unit/predict/points.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

using namespace shardsweep;
using testing::gib;
using testing::state_gib;
using testing::time_of;

namespace {

ModelSpec mixtral() {
  return {.name = "mixtral-8x7b",
      .layers = 32,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 32000,
      .experts = 8,
      .experts_per_token = 2,
      .expert_ffn = 14336};
}

/// With grouped-query attention of as many parameters as its latent attention.
ModelSpec deepseek_v3_like() {
  return {.name = "deepseek-v3-like",
      .layers = 61,
      .hidden = 7168,
      .ffn = 18432,
      .heads = 96,
      .kv_heads = 8,
      .vocab = 129280,
      .head_dim = 128,
      .experts = 256,
      .experts_per_token = 8,
      .expert_ffn = 2048,
      .shared_experts = 1,
      .dense_layers = 3};
}

}  // namespace

TEST_CASE("parameters of mixtures of experts are the published ones") {
  CHECK(parameters(mixtral()) == 46'702'792'704);         // Hugging Face, its checkpoint
  CHECK(active_parameters(mixtral()) == 12'879'925'248);  // "12.9B", arXiv 2401.04088
  CHECK(static_cast<double>(parameters(deepseek_v3_like())) ==
      doctest::Approx(671e9).epsilon(0.005));  // arXiv 2412.19437
  CHECK(static_cast<double>(active_parameters(deepseek_v3_like())) ==
      doctest::Approx(37e9).epsilon(0.03));
}

// Megatron-LM's theoretical_memory_usage.py (weights, gradients and optimizer of the most
// loaded shard, which it counts without expert parallelism), run with these arguments. dp 0:
// without the distributed optimizer.
struct Published {
  ModelSpec model;
  std::int32_t tp, pp, dp;
  double gib;
};

TEST_CASE("memory of experts is within 10 % of Megatron-LM's own estimator") {
  const std::array<Published, 9> table{{{mixtral(), 1, 1, 0, 782.899}, {mixtral(), 2, 4, 0, 98.412},
      {mixtral(), 2, 4, 8, 41.005}, {mixtral(), 8, 1, 4, 48.931}, {mixtral(), 4, 8, 2, 16.585},
      {mixtral(), 1, 8, 16, 37.316}, {deepseek_v3_like(), 1, 16, 64, 246.311},
      {deepseek_v3_like(), 2, 8, 64, 243.641}, {deepseek_v3_like(), 8, 16, 8, 37.320}}};
  const auto& family = (*find_family("megatron"))->memory;
  for (const auto& row : table) {
    CAPTURE(row.model.name);
    CAPTURE(row.tp);
    CAPTURE(row.pp);
    CAPTURE(row.dp);
    auto point = testing::point_of(std::max(row.dp, 1), row.tp, row.pp);
    point.layout.zero = row.dp > 0 ? 1 : 0;
    const double predicted = state_gib(estimate_memory(row.model, point, family));
    MESSAGE(row.model.name << " tp " << row.tp << " pp " << row.pp << " dp " << row.dp << ": "
                           << predicted << " GiB, published " << row.gib << ", "
                           << 100 * (predicted / row.gib - 1) << " %");
    // The estimator shares 61 layers out evenly; a stage has 4 of them on 16 stages, or 8 on 8.
    CHECK(predicted == doctest::Approx(row.gib).epsilon(0.1));
  }
}

TEST_CASE("ep spreads experts alone, and ZeRO shards them over ranks with the same ones") {
  const auto model = mixtral();
  const auto& family = (*find_family("megatron"))->memory;
  const double experts = 32 * 8 * 3 * 4096.0 * 14336;
  const double shared = static_cast<double>(parameters(model)) - experts;
  for (const std::int32_t ep : {1, 2, 8}) {
    for (const std::int32_t zero : {0, 1, 2}) {
      auto point = testing::point_of(8, 1, 1);
      point.layout.ep = ep;
      point.layout.zero = zero;
      const double whole = zero == 0 ? 18 : zero == 1 ? 6 : 2;
      const double cut = 18 - whole;
      const double wanted = shared * (whole + cut / 8) + experts / ep * (whole + cut / (8.0 / ep));
      CAPTURE(ep);
      CAPTURE(zero);
      CHECK(state_gib(estimate_memory(model, point, family)) ==
          doctest::Approx(wanted / gib).epsilon(1e-3));
    }
  }
}

// Megatron spreads experts over tp too: 32 ranks of ep beside 16 of dp. A table may hold such a
// run; a dense model with that ep is refused by a sweep, and predicted all the same.
TEST_CASE("more ranks of ep than of dp and cp leave a finite prediction") {
  auto point = testing::point_of(2, 2, 1);
  point.layout.ep = 4;
  point.layout.zero = 1;
  auto dense = mixtral();
  dense.experts = dense.experts_per_token = dense.expert_ffn = 0;
  const auto& family = (*find_family("megatron"))->memory;
  for (const auto& model : {mixtral(), dense}) {
    const auto memory = estimate_memory(model, point, family).total();
    CHECK(memory > 0);
    CHECK(memory < std::int64_t{1} << 40);
    const double step_s = time_of(model, point).step_s;
    CHECK(step_s > 0);
    CHECK(step_s < 1e3);
  }
}

TEST_CASE("a token pays for the experts that it takes, and for its way to them") {
  const auto model = mixtral();
  auto dense = model;
  dense.experts = dense.experts_per_token = dense.expert_ffn = 0;
  dense.ffn = 2 * model.ffn;
  auto family = (*find_family("megatron"))->time;
  family.once_per_node = false;
  auto point = testing::point_of(8, 1, 1);
  // As a dense layer twice as wide, but for the router, if narrow products cost no more.
  auto even = family;
  even.narrow_columns = 0;
  CHECK(time_of(model, point, even).compute_s ==
      doctest::Approx(time_of(dense, point, even).compute_s).epsilon(0.001));
  CHECK(time_of(model, point, family).compute_s > 1.01 * time_of(dense, point).compute_s);
  CHECK(time_of(model, point, family).tp_s == 0);
  CHECK(
      flops_per_token(model, 4096) == doctest::Approx(flops_per_token(dense, 4096)).epsilon(0.001));
  // Two rows of a token leave and come back, and so do gradients: of 8 ranks 7 are others.
  point.layout.ep = 8;
  const double row = 2.0 * 4096 * 4096;
  const double rows = 2 * row;
  const double inside = 450e9 * 0.7;
  const double exchanges = 4 * 32 * 8;
  CHECK(time_of(model, point, family).tp_s ==
      doctest::Approx(exchanges * (rows * 7 / 8 / inside + 5 * 3e-6)));
  // Over two nodes half of the ranks are elsewhere, and the adapter carries their rows.
  auto wide = model;
  wide.experts = 16;
  auto two_nodes = testing::point_of(16, 1, 1);
  two_nodes.layout.ep = 16;
  const double outside = 50e9 * 0.8;
  const double waits = 2 * 4 * 8e-6;
  CHECK(time_of(wide, two_nodes, family).tp_s ==
      doctest::Approx(exchanges * (rows / 2 / outside + waits)));
  // Once per node: of two rows one at most goes there, and in one of four cases none.
  family.once_per_node = true;
  CHECK(time_of(wide, two_nodes, family).tp_s ==
      doctest::Approx(exchanges * (row * 3 / 4 / outside + waits)));
  // With ep fewer ranks reduce the gradients of an expert.
  CHECK(time_of(model, point).dp_s < time_of(model, testing::point_of(8, 1, 1)).dp_s);
}

TEST_CASE("with sequence parallelism a rank sends the rows of its own part to experts") {
  const auto model = mixtral();
  auto point = testing::point_of(4, 2, 1);
  point.layout.sequence_parallel = true;
  const double without = time_of(model, point).tp_s;
  point.layout.ep = 4;
  auto whole = (*find_family("megatron"))->time;
  whole.sends_parts = false;
  const double latency = 4 * 32 * 8 * 5 * 3e-6;
  const double parts_s = time_of(model, point).tp_s - without - latency;
  const double whole_s = time_of(model, point, whole).tp_s - without - latency;
  CHECK(parts_s == doctest::Approx(whole_s / 2));
}

TEST_CASE("experts that are spread over tp are whole on their rank, and need no other rows") {
  auto model = mixtral();
  model.experts = 16;
  auto point = testing::point_of(8, 2, 1);
  point.layout.sequence_parallel = true;
  point.layout.ep = 8;
  CHECK(point.layout.expert_shards() == 2);
  const auto& memory = (*find_family("megatron"))->memory;
  const double split = state_gib(estimate_memory(model, point, memory));
  const double with_tp = time_of(model, point).tp_s;
  point.layout.ep = 16;
  CHECK(point.layout.expert_shards() == 1);
  CHECK(point.layout.expert_replicas() == 1);
  // One expert in place of halves of two.
  CHECK(state_gib(estimate_memory(model, point, memory)) == doctest::Approx(split));
  CHECK(time_of(model, point).tp_s < with_tp);
}

TEST_CASE("heads that are exchanged for tokens cost four messages, and no ring") {
  const auto model = mixtral();
  auto point = testing::point_of(2, 1, 1, 32768);
  point.gpus = 8;
  point.layout.cp = 4;
  point.layout.cp_mode = ContextMode::ulysses;
  const double query = 2.0 * 32768 / 4 * 4096;
  const double sent = 2 * (query * 1.5 + query) * 3 / 4;  // queries, keys, values; output
  CHECK(time_of(model, point).tp_s ==
      doctest::Approx(32 * 8 * (sent / (450e9 * 0.7) + 4 * 5 * 3e-6)));
}
