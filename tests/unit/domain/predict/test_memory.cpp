// SPDX-License-Identifier: Apache-2.0
// Values computed by hand, from the formulas in memory.hpp.
#include "domain/predict/memory.hpp"
#include "unit/domain/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

Point point_of(std::int32_t dp, std::int32_t tp, std::int32_t pp) {
  Point point;
  point.gpus = dp * tp * pp;
  point.seq_len = 8192;
  point.layout.dp = dp;
  point.layout.tp = tp;
  point.layout.pp = pp;
  point.layout.grad_accum = 8;
  return point;
}

std::int64_t part(const MemoryEstimate& estimate, MemoryClass which) {
  return estimate.bytes[static_cast<std::size_t>(which)];
}

MemoryEstimate estimate_8b(const Point& point) {
  return estimate_memory(llama3_8b(), point, shardbench_cuda_memory());
}

double state_gib(const MemoryEstimate& estimate) {
  return static_cast<double>(part(estimate, MemoryClass::weights) +
                             part(estimate, MemoryClass::gradients) +
                             part(estimate, MemoryClass::optimizer)) /
         gib;
}

}  // namespace

TEST_CASE("Llama 3 8B has 8030261248 parameters") {
  CHECK(parameters(llama3_8b()) == 8'030'261'248);
  auto tied = llama3_8b();
  tied.tied_embeddings = true;
  CHECK(parameters(tied) == 8'030'261'248 - std::int64_t{128256} * 4096);
}

TEST_CASE("weights and gradients and optimizer of 8B at dp 8 for ZeRO 0 to 3") {
  const double expected[] = {134.6, 56.1, 29.9, 16.8};
  for (std::int32_t zero = 0; zero < 4; ++zero) {
    auto point = point_of(8, 1, 1);
    point.layout.zero = zero;
    CHECK(state_gib(estimate_8b(point)) == doctest::Approx(expected[zero]).epsilon(0.003));
  }
  const auto plain = estimate_8b(point_of(8, 1, 1));
  CHECK(part(plain, MemoryClass::weights) == 2 * 8'030'261'248);
  CHECK(part(plain, MemoryClass::gradients) == 4 * 8'030'261'248);
  CHECK(part(plain, MemoryClass::optimizer) == 12 * 8'030'261'248);
}

TEST_CASE("replicas shard over the ranks of one copy") {
  for (std::int32_t zero = 1; zero < 4; ++zero) {
    auto replicated = point_of(8, 1, 1);
    replicated.layout.zero = zero;
    replicated.layout.dp_replicate = 4;
    auto alone = point_of(2, 1, 1);
    alone.layout.zero = zero;
    CHECK(estimate_8b(replicated).bytes == estimate_8b(alone).bytes);
    CHECK(optimistic_memory(llama3_8b(), replicated).bytes ==
          optimistic_memory(llama3_8b(), alone).bytes);
  }
}

TEST_CASE("fp32 keeps no master copy") {
  auto point = point_of(1, 1, 1);
  point.dtype = Dtype::fp32;
  const auto estimate = estimate_8b(point);
  CHECK(part(estimate, MemoryClass::weights) == 4 * 8'030'261'248);
  CHECK(part(estimate, MemoryClass::gradients) == 4 * 8'030'261'248);
  CHECK(part(estimate, MemoryClass::optimizer) == 8 * 8'030'261'248);
}

// sbh = 8192 * 4096 = 2^25. Per layer 12 + 4/4 = 13 sbh, 6 * 3.5 = 21 sbh, lse 4 * 8192 * 32 B.
TEST_CASE("activations of 8B at 8192 tokens are 34 sbh per layer") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t layer = 34 * sbh + std::int64_t{4} * 8192 * 32;
  const auto estimate = estimate_8b(point_of(8, 1, 1));
  CHECK(part(estimate, MemoryClass::activations) == 32 * layer + 2 * sbh);
  CHECK(part(estimate, MemoryClass::logits) == std::int64_t{2} * 8192 * 128256);
}

TEST_CASE("sequence parallel divides what tensor parallel leaves whole") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t lse = std::int64_t{4} * 8192 * 32;
  auto point = point_of(1, 8, 1);
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
        32 * (8 * sbh + (26 * sbh + lse) / 8) + 2 * sbh);
  point.layout.sequence_parallel = true;
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
        32 * (34 * sbh + lse) / 8 + 2 * sbh / 8);
}

TEST_CASE("recompute keeps less: selective saves norms and silu*up and full keeps inputs") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t lse = std::int64_t{4} * 8192 * 32;
  auto point = point_of(8, 1, 1);
  point.layout.recompute = Recompute::selective;
  constexpr std::int64_t saved = 4 * sbh + 7 * sbh;
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
        32 * (34 * sbh - saved + lse) + saved + 2 * sbh);
  point.layout.recompute = Recompute::full;
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
        31 * 2 * sbh + 34 * sbh + lse + 2 * sbh);
}

TEST_CASE("1F1B holds at most p micro-batches and AFAB all of them") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t layer = 34 * sbh + std::int64_t{4} * 8192 * 32;
  auto point = point_of(1, 1, 4);
  const auto first = estimate_8b(point);
  CHECK(first.stage == 0);
  CHECK(part(first, MemoryClass::activations) == 4 * 8 * layer);
  point.layout.grad_accum = 3;
  CHECK(part(estimate_8b(point), MemoryClass::activations) == 3 * 8 * layer);
  point.layout.grad_accum = 8;
  point.layout.schedule = Schedule::afab;
  const auto all = estimate_8b(point);
  CHECK(all.stage == 3);  // as many in flight as on the first stage, and the head
  CHECK(part(all, MemoryClass::activations) == 8 * 8 * layer + 2 * sbh);
}

TEST_CASE("communication is a bucket and pipeline buffers and what ZeRO 3 gathers") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t mib = 1 << 20;
  auto point = point_of(2, 1, 4);
  CHECK(part(estimate_8b(point), MemoryClass::communication) == 25 * mib + 4 * sbh);
  point.layout.zero = 3;
  CHECK(part(estimate_8b(point), MemoryClass::communication) ==
        25 * mib + 4 * sbh + std::int64_t{4} * 128256 * 4096);
  point = point_of(2, 1, 1);
  point.seq_len = 128;
  point.layout.bucket_mb = 100;
  const auto small = small_model();
  CHECK(part(estimate_memory(small, point, shardbench_cuda_memory()),
             MemoryClass::communication) == 4 * parameters(small));
}

TEST_CASE("a CPU keeps attention probabilities: s times a per token more") {
  auto point = point_of(1, 1, 1);
  point.seq_len = 128;
  point.dtype = Dtype::fp32;
  const auto model = small_model();
  const auto flash = estimate_memory(model, point, shardbench_cuda_memory());
  const auto kept = estimate_memory(model, point, shardbench_cpu_memory());
  CHECK(part(kept, MemoryClass::activations) - part(flash, MemoryClass::activations) ==
        8 * (std::int64_t{4} * 8 * 128 * 128 - std::int64_t{4} * 8 * 128));
}

TEST_CASE("memory grows with the micro-batch and the bound stays below the estimate") {
  for (const auto& model : {llama3_8b(), small_model()}) {
    for (std::int32_t shape = 0; shape < 1296; ++shape) {
      std::int32_t rest = shape;
      const auto digit = [&](std::int32_t radix) {
        const auto value = rest % radix;
        rest /= radix;
        return value;
      };
      auto point = point_of(1 << digit(3), 1 << digit(3), 1 << digit(3));
      point.layout.zero = digit(4);
      point.layout.recompute = static_cast<Recompute>(digit(3));
      point.layout.sequence_parallel = digit(2) == 1;
      point.layout.schedule = static_cast<Schedule>(digit(2));
      std::int64_t before = 0;
      std::int64_t bound_before = 0;
      for (std::int32_t micro_batch = 1; micro_batch <= 64; micro_batch *= 2) {
        point.layout.micro_batch = micro_batch;
        const auto bound = optimistic_memory(model, point).total();
        for (const auto* family : {&shardbench_cuda_memory(), &shardbench_cpu_memory()})
          CHECK(bound <= estimate_memory(model, point, *family).total());
        const auto now = estimate_memory(model, point, shardbench_cuda_memory()).total();
        CHECK(now > before);
        CHECK(bound > bound_before);
        before = now;
        bound_before = bound;
      }
    }
  }
}

TEST_CASE("the bound is 16 bytes per parameter and one micro-batch") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  const auto bound = optimistic_memory(llama3_8b(), point_of(1, 1, 1));
  // Norm weights (a few MB) and log-sum-exp are left out.
  constexpr std::int64_t norms = std::int64_t{65} * 4096;
  CHECK(bound.total() == 16 * (8'030'261'248 - norms) + 32 * 34 * sbh);
}

TEST_CASE("the largest values of every axis do not overflow") {
  Point point;
  for (const auto& axis : axes()) {
    if (axis.kind != AxisKind::model) axis.set(point, axis.maximum);
  }
  point.layout.tp = 1;
  point.layout.pp = 1;
  CHECK(optimistic_memory(llama3_8b(), point).total() > 0);
  CHECK(estimate_8b(point).bytes[static_cast<std::size_t>(MemoryClass::activations)] > 0);
}
