// SPDX-License-Identifier: Apache-2.0
#include "domain/predict/time_model.hpp"
#include "unit/domain/sweep_fixture.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

Point point_of(std::int32_t dp, std::int32_t tp, std::int32_t pp) {
  Point point;
  point.nodes = (dp * tp * pp + 7) / 8;
  point.gpus = dp * tp * pp;
  point.seq_len = 8192;
  point.layout.dp = dp;
  point.layout.tp = tp;
  point.layout.pp = pp;
  point.layout.grad_accum = 8;
  return point;
}

double speed(const Point& point) {
  return tokens_per_s_per_gpu(estimate_time(llama3_8b(), h100(), point), point);
}

}  // namespace

TEST_CASE("8B at 8192 tokens costs 51.47 GFLOP per token") {
  CHECK(flops_per_token(llama3_8b(), 8192) == doctest::Approx(51.47e9).epsilon(0.0005));
}

TEST_CASE("a step is the sum of its parts and the bubble (p-1)/m of a stage") {
  const auto time = estimate_time(llama3_8b(), h100(), point_of(2, 2, 4));
  CHECK(time.step_s ==
        doctest::Approx(time.compute_s + time.bubble_s + time.tp_s + time.pp_s + time.dp_s));
  CHECK(time.bubble_s == doctest::Approx((time.compute_s + time.tp_s) * 3 / 8));
  CHECK(time.tp_s > 0);
  CHECK(time.pp_s > 0);
}

TEST_CASE("one GPU computes and does not communicate") {
  const auto time = estimate_time(llama3_8b(), h100(), point_of(1, 1, 1));
  CHECK(time.step_s == time.compute_s);
  CHECK(time.compute_s ==
        doctest::Approx(8 * 8192 * 51.47e9 / (989.4e12 * 0.55)).epsilon(0.001));
}

TEST_CASE("what costs more is slower") {
  const auto base = point_of(8, 1, 1);
  auto other = base;
  other.layout.recompute = Recompute::full;
  CHECK(speed(other) < speed(base));
  other = base;
  other.layout.zero = 3;
  CHECK(speed(other) <= speed(base));
  CHECK(speed(point_of(1, 16, 1)) < speed(point_of(2, 8, 1)));  // TP across nodes
  other = point_of(2, 8, 1);
  other.layout.rank_order = RankOrder::dp_tp_pp;
  CHECK(speed(other) < speed(point_of(2, 8, 1)));
}

TEST_CASE("shards that stay within a node are fetched faster and replicas are summed once") {
  auto everywhere = point_of(16, 1, 1);
  everywhere.layout.zero = 3;
  everywhere.layout.overlap = false;
  auto within = everywhere;
  within.layout.dp_replicate = 2;
  CHECK(speed(within) > speed(everywhere));
  // Half of 8.03e9 / 8 fp32 gradients, twice, between two nodes; a message for each layer.
  auto alone = everywhere;
  alone.layout.dp = 8;
  const auto dp_s = [](const Point& point) {
    return estimate_time(llama3_8b(), h100(), point).dp_s;
  };
  CHECK(dp_s(within) - dp_s(alone) ==
        doctest::Approx(4 * 8.030261248e9 / 8 / 50e9 + 32 * 15e-6));
}

TEST_CASE("without a peak the speed is unknown and the time an estimate") {
  auto cluster = h100();
  cluster.peak_flops = {};
  cluster.this_machine = true;
  auto point = point_of(2, 1, 1);
  point.seq_len = 128;
  const auto prediction = predict(small_model(), cluster, {}, point);
  CHECK(prediction.tokens_per_s_per_gpu == 0);
  CHECK(prediction.train_step_s == 0);
  CHECK(prediction.attempt_s > 0.5);
  CHECK(prediction.attempt_s < 600);
  CHECK(prediction.memory_bytes > 0);
}

TEST_CASE("a trial holds whole nodes or the GPUs it asks for") {
  auto point = point_of(2, 8, 1);
  CHECK(gpus_held(h100(), point) == 16);
  point.nodes = 0;
  point.gpus = 3;
  CHECK(gpus_held(h100(), point) == 3);
}
