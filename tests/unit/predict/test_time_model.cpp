// SPDX-License-Identifier: Apache-2.0
#include "predict/links.hpp"
#include "predict/predictor.hpp"
#include "predict/time_model.hpp"
#include "unit/predict/points.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr std::int32_t long_sequence = 8192;

Point long_point(std::int32_t dp, std::int32_t tp, std::int32_t pp) {
  return point_of(dp, tp, pp, long_sequence);
}

// A trainer whose own code costs nothing, on hardware without memory traffic: what is left are
// products and transfers.
TimeEstimate bare(const ModelSpec& model, ClusterSpec cluster, const Point& point) {
  cluster.memory_bandwidth = 0;
  cluster.gemm_efficiency = 1;
  cluster.attention_efficiency = 1;
  cluster.intra_node_efficiency = 1;
  cluster.inter_node_efficiency = 1;
  return estimate_time(model, cluster, point, {}, shardbench_cuda_memory());
}

double speed(const Point& point, std::string_view family = "shardbench") {
  return speed_of(Predictor(h100(), **find_family(family)).guess(llama3_8b(), point).step_s, point);
}

double sum_of_parts(const TimeEstimate& time) {
  return time.compute_s + time.memory_s + time.launch_s + time.tp_s + time.pp_s + time.bubble_s +
      time.dp_s + time.update_s;
}

}  // namespace

TEST_CASE("8B at 8192 tokens costs 51.47 GFLOP per token") {
  CHECK(flops_per_token(llama3_8b(), 8192) == doctest::Approx(51.47e9).epsilon(0.0005));
}

TEST_CASE("a step is the sum of its parts and the bubble (p-1)/m of a stage") {
  for (const auto& family : families()) {
    const auto time =
        estimate_time(llama3_8b(), h100(), long_point(2, 2, 4), family.time, family.memory);
    CHECK(time.step_s == doctest::Approx(sum_of_parts(time)));
    const double stage = time.compute_s + time.memory_s + time.launch_s + time.tp_s + time.pp_s;
    CHECK(time.bubble_s == doctest::Approx(stage * 3 / 8));
    CHECK(time.tp_s > 0);
    CHECK(time.pp_s > 0);
    CHECK(time.dp_s > 0);
  }
}

TEST_CASE("virtual stages and halved backwards leave less of the bubble") {
  const auto& family = **find_family("shardbench");
  auto point = long_point(2, 2, 4);
  const auto bubble_share = [&] {
    const auto time = estimate_time(llama3_8b(), h100(), point, family.time, family.memory);
    const double stage = time.compute_s + time.memory_s + time.launch_s + time.tp_s + time.pp_s;
    return time.bubble_s / stage;
  };
  point.layout.vpp = 2;
  CHECK(bubble_share() == doctest::Approx(3.0 / 2 / 8));
  point.layout.vpp = 1;
  point.layout.schedule = Schedule::zb_h1;
  // A third is left where products are all there is: two of three equal parts fill the wait.
  CHECK(bubble_share() > 3.0 / 3 / 8);
  CHECK(bubble_share() < 0.6 * 3.0 / 8);
}

TEST_CASE("ranks that share a sequence divide its work, and pass keys under attention") {
  auto point = long_point(1, 1, 1);
  const auto alone = bare(llama3_8b(), h100(), point);
  point.layout.cp = 4;
  const auto shared = bare(llama3_8b(), h100(), point);
  CHECK(shared.compute_s == doctest::Approx(alone.compute_s / 4));
  CHECK(shared.tp_s == 0);
  // 500 times slower links are no longer hidden.
  auto slow = h100();
  slow.intra_node_bandwidth /= 500;
  CHECK(bare(llama3_8b(), slow, point).tp_s > shared.compute_s);
}

// Per token 6 per matrix parameter and 7 h s of attention (flash, backward with one product
// more) of 32 layers: 51.47 G less 6*32*4096*8192 plus 7/6 of it.
TEST_CASE("one GPU computes and does not communicate") {
  const auto time = bare(llama3_8b(), h100(), long_point(1, 1, 1));
  const double attention = 6.0 * 32 * 4096 * 8192;
  CHECK(time.compute_s ==
      doctest::Approx(8 * 8192 * (51.47e9 + attention / 6) / 989.4e12).epsilon(0.001));
  CHECK(time.step_s == doctest::Approx(time.compute_s));
}

// The trainer's own products are nothing beside a host that needs a second per layer.
TEST_CASE("a slow host sets the pace and a fast one is hidden") {
  const auto point = long_point(1, 1, 1);
  TimeFamily slow;
  slow.launch_layer_s = 1;
  const auto memory = shardbench_cuda_memory();
  const auto waits = estimate_time(llama3_8b(), h100(), point, slow, memory);
  CHECK(waits.step_s == doctest::Approx(8 * 32).epsilon(0.01));
  CHECK(waits.weights[2] == doctest::Approx(1).epsilon(0.02));
  slow.launch_layer_s = 1e-4;
  const auto runs = estimate_time(llama3_8b(), h100(), point, slow, memory);
  CHECK(runs.launch_s < 0.001 * runs.step_s);
}

// Two ranks of a node over NVLink, sequence parallel: 10 rows of 2 * 8192 * 4096 bytes, half of
// which are sent, per layer and micro-batch; 10 operations of 5 latencies.
TEST_CASE("TP's transfers are ten half rows per layer") {
  auto point = long_point(1, 2, 1);
  point.layout.sequence_parallel = true;
  const auto time = bare(llama3_8b(), h100(), point);
  CHECK(time.tp_s == doctest::Approx(8 * 32 * (10 * 33554432.0 * 2 / 2 / 450e9 + 10 * 5 * 5e-6)));
}

TEST_CASE("a ring between nodes uses the adapters of its members on a node") {
  auto cluster = h100();
  cluster.inter_node_efficiency = 0.5;
  cluster.intra_node_efficiency = 0.8;
  const auto shard = [&](std::int32_t dp, std::int32_t tp) {
    return links_of(cluster, long_point(dp, tp, 1).layout).shard;
  };
  CHECK(shard(16, 8).bandwidth == 25e9);
  CHECK(shard(16, 2).bandwidth == 100e9);
  CHECK(shard(16, 1).bandwidth == 200e9);
  CHECK(shard(16, 1).crosses);
  CHECK(shard(4, 2).bandwidth == 360e9);
  CHECK_FALSE(shard(4, 2).crosses);
  cluster.inter_node_group_bandwidth = 150e9;
  CHECK(shard(16, 1).bandwidth == 150e9);
  CHECK(shard(16, 2).bandwidth == 100e9);
  CHECK(links_of(cluster, long_point(8, 2, 2).layout).pp.bandwidth == 25e9);
}

TEST_CASE("weights say how the step moves when one of its parts does") {
  TimeFamily family = find_family("nanotron").value()->time;
  const auto& memory = find_family("nanotron").value()->memory;
  auto point = long_point(16, 2, 2);
  point.seq_len = 4096;
  point.layout.zero = 1;
  point.layout.sequence_parallel = true;
  const auto step = [&](const ClusterSpec& cluster) {
    return estimate_time(llama3_8b(), cluster, point, family, memory);
  };
  const auto before = step(h100());
  constexpr double by = 0.01;
  const auto moved = [&](const ClusterSpec& cluster) {
    return (step(cluster).step_s / before.step_s - 1) / by;
  };
  auto cluster = h100();
  cluster.gemm_efficiency /= 1 + by;
  cluster.attention_efficiency /= 1 + by;
  // A slower product also hides more of DP's transfers: that part of its weight is left out.
  CHECK(moved(cluster) == doctest::Approx(before.weights[0]).epsilon(0.1));
  family.launch_layer_tp_s *= 1 + by;
  family.launch_layer_pipeline_tp_s *= 1 + by;
  family.launch_stage_s *= 1 + by;
  CHECK(moved(h100()) == doctest::Approx(before.weights[2]).epsilon(0.1));
  double all = 0;
  for (const double weight : before.weights)
    all += weight;
  CHECK(all == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("what costs more is slower") {
  const auto base = long_point(8, 1, 1);
  auto other = base;
  other.layout.recompute = Recompute::full;
  CHECK(speed(other) < speed(base));
  other = base;
  other.layout.zero = 3;
  other.layout.overlap = false;
  CHECK(speed(other) < speed(base));
  CHECK(speed(long_point(1, 16, 1)) < speed(long_point(2, 8, 1)));  // TP across nodes
  other = long_point(2, 8, 1);
  other.layout.rank_order = RankOrder::dp_tp_pp;
  CHECK(speed(other) < speed(long_point(2, 8, 1)));
}

TEST_CASE("shards that stay within a node are fetched faster and replicas are summed once") {
  auto everywhere = long_point(16, 1, 1);
  everywhere.layout.zero = 3;
  everywhere.layout.overlap = false;
  auto within = everywhere;
  within.layout.dp_replicate = 2;
  CHECK(speed(within) > speed(everywhere));
  // Two nodes' all-reduce of an eighth of the fp32 gradients, a message for each layer: the
  // ring of two has one member on each node, and its adapter.
  auto alone = everywhere;
  alone.layout.dp = 8;
  const auto dp_s = [](const Point& point) { return bare(llama3_8b(), h100(), point).dp_s; };
  const double matrices = 32 * (2.0 * 4096 * 4096 * 1.25 + 3.0 * 4096 * 14336);
  CHECK(dp_s(within) - dp_s(alone) ==
      doctest::Approx(4 * (matrices + 128256.0 * 4096) / 8 / 50e9 + 32 * 15e-6));
}

TEST_CASE("transfers that hide cost what they take from the products that hide them") {
  auto point = long_point(8, 1, 1);
  point.layout.zero = 3;
  TimeFamily family;
  const auto time = [&](double contention) {
    family.contention = contention;
    return estimate_time(llama3_8b(), h100(), point, family, shardbench_cuda_memory(), {});
  };
  const auto hidden = time(0);
  const auto half = time(0.5);
  const auto whole = time(1);
  CHECK(half.step_s - hidden.step_s > 0);
  CHECK(whole.step_s - hidden.step_s == doctest::Approx(2 * (half.step_s - hidden.step_s)));
  // Contention 1 costs as much as no overlap.
  point.layout.overlap = false;
  CHECK(time(0).step_s == doctest::Approx(time(1).step_s));
  CHECK(time(0).step_s == doctest::Approx(whole.step_s));
}

TEST_CASE("attention of an older GPU is as fast on a newer one") {
  const auto model = llama3_8b();
  const auto point = long_point(1, 1, 1);
  TimeFamily family;
  const auto compute_s = [&](double rate, const ClusterSpec& cluster) {
    family.attention_flops = rate;
    return estimate_time(model, cluster, point, family, shardbench_cuda_memory(), {}).compute_s;
  };
  auto faster = h100();
  faster.peak_flops[peak_index(Dtype::bf16)] = 2e15;
  // Backward has two and a half times forward's products, half of whose tokens come later.
  const double products = 32 * 7.0 * 4096 * 8192 * 8192 * point.layout.grad_accum;
  const auto attention_s = [&](const ClusterSpec& cluster) {
    return compute_s(100e12, cluster) - compute_s(200e12, cluster);
  };
  CHECK(attention_s(h100()) == doctest::Approx(products / 200e12));
  CHECK(attention_s(faster) == doctest::Approx(products / 200e12));
  CHECK(compute_s(0, h100()) == compute_s(1e18, h100()));
}

// Of the Ultra-Scale Playbook's sweep (8.86B, 4096 tokens, 256 samples), seconds per step: one
// that computes, one that Python holds up (64 micro-batches of one sample over TP 8), and one
// with TP between nodes.
TEST_CASE("nanotron's steps are near the published ones whatever holds them up") {
  const ModelSpec model{.name = "8.86B",
      .layers = 32,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 32,
      .vocab = 131072};
  auto cluster = h100();
  cluster.intra_node_latency_us = 3;
  cluster.inter_node_latency_us = 8;
  cluster.inter_node_group_bandwidth = 156e9;
  const Predictor predictor(cluster, **find_family("nanotron"));
  const auto step = [&](std::int32_t dp, std::int32_t tp, std::int32_t pp,
                        std::int32_t micro_batch) {
    auto point = long_point(dp, tp, pp);
    point.seq_len = 4096;
    point.layout.zero = dp > 1 ? 1 : 0;
    point.layout.sequence_parallel = tp > 1;
    point.layout.micro_batch = micro_batch;
    point.layout.grad_accum = 256 / dp / micro_batch;
    return predictor.guess(model, point).step_s;
  };
  CHECK(step(16, 1, 2, 1) == doctest::Approx(4.56).epsilon(0.15));
  CHECK(step(4, 8, 1, 1) == doctest::Approx(9.45).epsilon(0.15));
  CHECK(step(4, 4, 2, 1) == doctest::Approx(14.66).epsilon(0.2));
  CHECK(step(2, 16, 1, 1) == doctest::Approx(34.5).epsilon(0.2));
}

TEST_CASE("without a peak the speed is unknown and the time an estimate") {
  auto cluster = h100();
  cluster.peak_flops = {};
  cluster.this_machine = true;
  auto point = long_point(2, 1, 1);
  point.seq_len = 128;
  const auto prediction =
      Predictor(cluster, **find_family("shardbench")).predict(small_model(), {}, point);
  CHECK(prediction.tokens_per_s_per_gpu == 0);
  CHECK(prediction.train_step_s == 0);
  CHECK(prediction.attempt_s > 0.5);
  CHECK(prediction.attempt_s < 600);
  CHECK(prediction.memory_bytes > 0);
}

TEST_CASE("a trial holds whole nodes or the GPUs it asks for") {
  auto point = long_point(2, 8, 1);
  CHECK(gpus_held(h100(), point) == 16);
  point.nodes = 0;
  point.gpus = 3;
  CHECK(gpus_held(h100(), point) == 3);
}

TEST_CASE("in FP8 a layer's products take half the time, and all else what it takes in bf16") {
  auto cluster = h100();
  cluster.peak_flops[peak_index(Dtype::fp8)] = 1978.8e12;
  const Predictor predictor(cluster, **find_family("shardbench"));
  const auto model = llama3_8b();
  auto point = long_point(1, 1, 1);
  const auto guess = [&](Dtype dtype) {
    point.dtype = dtype;
    return predictor.guess(model, point).time;
  };
  const auto bf16 = guess(Dtype::bf16);
  const auto current = guess(Dtype::fp8);
  const auto delayed = guess(Dtype::fp8_delayed);
  CHECK_FALSE(current.nominal);
  CHECK(current.compute_s < bf16.compute_s);
  // Attention and the head are in bf16.
  CHECK(current.compute_s > 0.5 * bf16.compute_s);
  CHECK(current.compute_s == delayed.compute_s);
  // Operands are written; current scaling reads them twice.
  CHECK(current.memory_s > delayed.memory_s);
  CHECK(delayed.memory_s > bf16.memory_s);
  CHECK(current.update_s == bf16.update_s);
}
