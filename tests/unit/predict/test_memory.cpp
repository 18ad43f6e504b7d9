// SPDX-License-Identifier: Apache-2.0
// Values computed by hand, from the formulas in memory.hpp.
#include "predict/memory.hpp"
#include "predict/predictor.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

constexpr double memory_gib = 1024.0 * 1024 * 1024;

Point three_degrees(std::int32_t dp, std::int32_t tp, std::int32_t pp) {
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

double memory_state_gib(const MemoryEstimate& estimate) {
  return static_cast<double>(part(estimate, MemoryClass::weights) +
             part(estimate, MemoryClass::gradients) + part(estimate, MemoryClass::optimizer)) /
      memory_gib;
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
    auto point = three_degrees(8, 1, 1);
    point.layout.zero = zero;
    CHECK(memory_state_gib(estimate_8b(point)) == doctest::Approx(expected[zero]).epsilon(0.003));
  }
  const auto plain = estimate_8b(three_degrees(8, 1, 1));
  CHECK(part(plain, MemoryClass::weights) == 2 * 8'030'261'248);
  CHECK(part(plain, MemoryClass::gradients) == 4 * 8'030'261'248);
  CHECK(part(plain, MemoryClass::optimizer) == 12 * 8'030'261'248);
}

TEST_CASE("replicas shard over the ranks of one copy") {
  for (std::int32_t zero = 1; zero < 4; ++zero) {
    auto replicated = three_degrees(8, 1, 1);
    replicated.layout.zero = zero;
    replicated.layout.dp_replicate = 4;
    auto alone = three_degrees(2, 1, 1);
    alone.layout.zero = zero;
    CHECK(estimate_8b(replicated).bytes == estimate_8b(alone).bytes);
    CHECK(optimistic_memory(llama3_8b(), replicated).bytes ==
        optimistic_memory(llama3_8b(), alone).bytes);
  }
}

TEST_CASE("fp32 keeps no master copy") {
  auto point = three_degrees(1, 1, 1);
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
  const auto estimate = estimate_8b(three_degrees(8, 1, 1));
  CHECK(part(estimate, MemoryClass::activations) == 32 * layer + 2 * sbh);
  CHECK(part(estimate, MemoryClass::logits) == std::int64_t{2} * 8192 * 128256);
}

TEST_CASE("sequence parallel divides what tensor parallel leaves whole") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t lse = std::int64_t{4} * 8192 * 32;
  auto point = three_degrees(1, 8, 1);
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
      32 * (8 * sbh + (26 * sbh + lse) / 8) + 2 * sbh);
  point.layout.sequence_parallel = true;
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
      32 * (34 * sbh + lse) / 8 + 2 * sbh / 8);
}

TEST_CASE("recompute keeps less: selective saves norms and silu*up and full keeps inputs") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t lse = std::int64_t{4} * 8192 * 32;
  auto point = three_degrees(8, 1, 1);
  point.layout.recompute = Recompute::selective;
  constexpr std::int64_t saved = 4 * sbh + 7 * sbh;
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
      32 * (34 * sbh - saved + lse) + saved + 2 * sbh);
  point.layout.recompute = Recompute::full;
  CHECK(part(estimate_8b(point), MemoryClass::activations) ==
      std::int64_t{31} * 2 * sbh + 34 * sbh + lse + 2 * sbh);
}

// Per layer with flash attention: what comes in and what the last product makes, 4 sbh; queries,
// values and attention's output, 2 (1 + 1/4 + 1) sbh; the gate's output, 2 * 3.5 sbh.
TEST_CASE("torchtitan's selective recomputation keeps every other product, and attention") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t lse = std::int64_t{4} * 8192 * 32;
  auto point = three_degrees(8, 1, 1);
  point.layout.recompute = Recompute::selective;
  const auto& family = (*find_family("fsdp"))->memory;
  const auto one_again = static_cast<std::int64_t>((34 - 15.5) * sbh);
  CHECK(part(estimate_memory(llama3_8b(), point, family), MemoryClass::activations) ==
      32 * (static_cast<std::int64_t>(15.5 * sbh) + lse) + one_again + 2 * sbh);
}

// Of a layer's 34 sbh two norms and silu*up are read by products: 4 and 7. In 8 bits they are half
// of that, and the output projection keeps a copy of what attention keeps: 1.
TEST_CASE("Transformer Engine keeps the inputs of FP8 products in 8 bits") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  auto point = three_degrees(8, 1, 1);
  const auto& family = (*find_family("megatron"))->memory;
  const auto activations = [&](Dtype dtype) {
    point.dtype = dtype;
    return part(estimate_memory(llama3_8b(), point, family), MemoryClass::activations);
  };
  const auto saved = static_cast<std::int64_t>((2 + 3.5 - 1) * sbh);
  CHECK(activations(Dtype::bf16) - activations(Dtype::fp8) == 32 * saved);
  // The layer that is computed again keeps them for its own backward.
  point.layout.recompute = Recompute::full;
  CHECK(activations(Dtype::bf16) - activations(Dtype::fp8) == saved);
}

TEST_CASE("full recompute takes several layers at a time, or some of a stage's alone") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t layer = 34 * sbh + std::int64_t{4} * 8192 * 32;
  auto point = three_degrees(8, 1, 1);
  point.layout.recompute = Recompute::full;
  const auto activations = [&](std::int32_t layers, bool by_block) {
    return part(estimate_memory(llama3_8b(), point, shardbench_cuda_memory(),
                    {.recompute_layers = layers, .recompute_by_block = by_block}),
        MemoryClass::activations);
  };
  CHECK(activations(1, false) == activations(0, false));
  CHECK(activations(4, false) == std::int64_t{8} * 2 * sbh + 4 * layer - 2 * sbh + 2 * sbh);
  CHECK(activations(5, false) == std::int64_t{7} * 2 * sbh + 5 * layer - 2 * sbh + 2 * sbh);
  CHECK(
      activations(12, true) == std::int64_t{12} * 2 * sbh + 20 * layer + layer - 2 * sbh + 2 * sbh);
  CHECK(activations(40, true) == activations(1, false));
  // What no trainer needs less than holds for several layers at a time too.
  CHECK(optimistic_memory(llama3_8b(), point, {.recompute_layers = 8}).total() <
      optimistic_memory(llama3_8b(), point).total());
}

TEST_CASE("1F1B holds at most p micro-batches and AFAB all of them") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t layer = 34 * sbh + std::int64_t{4} * 8192 * 32;
  auto point = three_degrees(1, 1, 4);
  const auto first = estimate_8b(point);
  CHECK(first.stage == 0);
  CHECK(part(first, MemoryClass::activations) == std::int64_t{4} * 8 * layer);
  point.layout.grad_accum = 3;
  CHECK(part(estimate_8b(point), MemoryClass::activations) == std::int64_t{3} * 8 * layer);
  point.layout.grad_accum = 8;
  point.layout.schedule = Schedule::afab;
  const auto all = estimate_8b(point);
  CHECK(all.stage == 3);  // as many in flight as on the first stage, and the head
  CHECK(part(all, MemoryClass::activations) == std::int64_t{8} * 8 * layer + 2 * sbh);
}

TEST_CASE("communication is a bucket and pipeline buffers and what ZeRO 3 gathers") {
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  constexpr std::int64_t mib = 1 << 20;
  auto point = three_degrees(2, 1, 4);
  CHECK(part(estimate_8b(point), MemoryClass::communication) == 25 * mib + 4 * sbh);
  point.layout.zero = 3;
  CHECK(part(estimate_8b(point), MemoryClass::communication) ==
      25 * mib + 4 * sbh + std::int64_t{4} * 128256 * 4096);
  point = three_degrees(2, 1, 1);
  point.seq_len = 128;
  point.layout.bucket_mb = 100;
  const auto small = small_model();
  CHECK(part(estimate_memory(small, point, shardbench_cuda_memory()), MemoryClass::communication) ==
      4 * parameters(small));
}

TEST_CASE("a CPU keeps attention probabilities: s times a per token more") {
  auto point = three_degrees(1, 1, 1);
  point.seq_len = 128;
  point.dtype = Dtype::fp32;
  const auto model = small_model();
  const auto flash = estimate_memory(model, point, shardbench_cuda_memory());
  const auto kept = estimate_memory(model, point, shardbench_cpu_memory());
  CHECK(part(kept, MemoryClass::activations) - part(flash, MemoryClass::activations) ==
      8 * (std::int64_t{4} * 8 * 128 * 128 - std::int64_t{4} * 8 * 128));
}

TEST_CASE("memory grows with the micro-batch and the bound stays below the estimate") {
  for (const auto& [model, dtype] : {std::pair(llama3_8b(), Dtype::bf16),
           {small_model(), Dtype::bf16}, {llama3_8b(), Dtype::fp8}}) {
    for (std::int32_t shape = 0; shape < 1296; ++shape) {
      std::int32_t rest = shape;
      const auto digit = [&](std::int32_t radix) {
        const auto value = rest % radix;
        rest /= radix;
        return value;
      };
      auto point = three_degrees(1 << digit(3), 1 << digit(3), 1 << digit(3));
      point.dtype = dtype;
      point.layout.zero = digit(4);
      point.layout.recompute = static_cast<Recompute>(digit(3));
      point.layout.sequence_parallel = digit(2) == 1;
      point.layout.schedule = static_cast<Schedule>(digit(2));
      std::int64_t before = 0;
      std::int64_t bound_before = 0;
      for (std::int32_t micro_batch = 1; micro_batch <= 64; micro_batch *= 2) {
        point.layout.micro_batch = micro_batch;
        const auto bound = optimistic_memory(model, point).total();
        CHECK(bound <= estimate_memory(model, point, shardbench_cpu_memory()).total());
        for (const auto& family : families())
          CHECK(bound <= estimate_memory(model, point, family.memory).total());
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
  const auto bound = optimistic_memory(llama3_8b(), three_degrees(1, 1, 1));
  // Norm weights (a few MB) and log-sum-exp are left out.
  constexpr std::int64_t norms = std::int64_t{65} * 4096;
  CHECK(bound.total() == 16 * (8'030'261'248 - norms) + std::int64_t{32} * 34 * sbh);
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

namespace {

ModelSpec nanotron_9b() {
  return {.name = "8.86B",
      .layers = 32,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 32,
      .vocab = 131072};
}

const Family& family(std::string_view name) {
  return **find_family(name);
}

Point nanotron_point(std::int32_t dp, std::int32_t tp, std::int32_t pp, std::int32_t zero) {
  auto point = three_degrees(dp, tp, pp);
  point.seq_len = 4096;
  point.layout.zero = zero;
  point.layout.sequence_parallel = tp > 1;
  point.layout.grad_accum = 256 / dp;
  return point;
}

}  // namespace

// A layer costs 4*4096^2 + 3*4096*14336 = 243269632, the head 131072*4096, 2.207 layers: of
// 34.207 a half is 17.1, so 18 layers; a quarter 8.55, so 9.
TEST_CASE("nanotron's stages cost the same and the head counts") {
  const auto layers = [&](std::int32_t pp, std::int32_t stage) {
    return layers_of_stage(
        nanotron_9b(), three_degrees(1, 1, pp).layout, StageSplit::by_cost, stage);
  };
  CHECK(layers(1, 0) == 32);
  CHECK(layers(2, 0) == 18);
  CHECK(layers(2, 1) == 14);
  CHECK(layers(4, 0) == 9);
  double all = 0;
  for (std::int32_t stage = 0; stage < 16; ++stage)
    all += layers(16, stage);
  CHECK(all == 32);
  CHECK(layers_of_stage(nanotron_9b(), three_degrees(1, 1, 3).layout, StageSplit::even, 0) == 11);
}

// "Local Params" of the Ultra-Scale Playbook's table: 4.92G at pp 2, 2.73G at pp 4; 16 layers
// of 2048 with a head of 4 layers' cost: exactly on the border, 11 on the first of 2 stages.
TEST_CASE("the first stage of nanotron has the parameters that its log says") {
  const auto local = [](const ModelSpec& model, std::int32_t pp) {
    const auto memory =
        estimate_stage(model, nanotron_point(1, 1, pp, 0), family("nanotron").memory, {}, 0);
    return static_cast<double>(part(memory, MemoryClass::weights)) / 2 / 1e9;
  };
  CHECK(local(nanotron_9b(), 2) == doctest::Approx(4.92).epsilon(0.002));
  CHECK(local(nanotron_9b(), 4) == doctest::Approx(2.73).epsilon(0.002));
  ModelSpec small = nanotron_9b();
  small.layers = 16;
  small.hidden = 2048;
  small.ffn = 8192;
  small.tied_embeddings = true;
  CHECK(local(small, 2) == doctest::Approx(1.01).epsilon(0.005));
}

// Allocated around the update, of the same table (GiB): 18 bytes per parameter alone, 20 with
// buckets, 10 + 14/d with ZeRO-1.
TEST_CASE("what nanotron holds around its update is what its log says") {
  const auto held = [](std::int32_t dp, std::int32_t tp, std::int32_t pp, std::int32_t zero) {
    return static_cast<double>(update_bytes(
               nanotron_9b(), nanotron_point(dp, tp, pp, zero), family("nanotron").memory)) /
        memory_gib;
  };
  CHECK(held(1, 1, 8, 0) == doctest::Approx(29.46).epsilon(0.01));
  CHECK(held(2, 4, 1, 0) == doctest::Approx(41.41).epsilon(0.01));
  CHECK(held(16, 1, 2, 1) == doctest::Approx(49.87).epsilon(0.01));
  CHECK(held(4, 4, 1, 1) == doctest::Approx(28.0).epsilon(0.01));
}

// Reserved at the peak, of the same table.
TEST_CASE("nanotron's peak on the first stage is near what its log says") {
  const Predictor predictor(h100(), family("nanotron"));
  const auto peak = [&](std::int32_t dp, std::int32_t tp, std::int32_t pp, std::int32_t zero) {
    return static_cast<double>(
               predictor.reported_peak_bytes(nanotron_9b(), nanotron_point(dp, tp, pp, zero))) /
        memory_gib;
  };
  CHECK(peak(16, 1, 2, 1) == doctest::Approx(61.1).epsilon(0.05));
  CHECK(peak(1, 1, 8, 0) == doctest::Approx(62.45).epsilon(0.05));
  CHECK(peak(2, 4, 1, 0) == doctest::Approx(51.35).epsilon(0.05));
}

// Figure 1 of arXiv 2205.05198: activations of GPT in GiB, without recomputation (TP alone)
// and with selective recomputation under sequence parallelism; 175B interleaved by 3.
TEST_CASE("GPT's activations are those of the paper on selective recomputation") {
  struct Row {
    std::int64_t layers, hidden, heads;
    std::int32_t pp, accum, batch, vpp;
    double none, selective;
  };
  for (const Row& row : {Row{48, 6144, 64, 1, 1, 4, 1, 59.25, 9.5625},
           Row{96, 12288, 96, 8, 64, 1, 3, 66.84375, 12.3515625},
           Row{128, 25600, 160, 64, 512, 1, 1, 131.25, 26.5625}}) {
    ModelSpec gpt{.name = "gpt",
        .layers = row.layers,
        .hidden = row.hidden,
        .ffn = 4 * row.hidden,
        .heads = row.heads,
        .kv_heads = row.heads,
        .vocab = 51200};
    auto point = three_degrees(1, 8, row.pp);
    point.seq_len = 2048;
    point.layout.micro_batch = row.batch;
    point.layout.grad_accum = row.accum;
    point.layout.vpp = row.vpp;
    const auto activations = [&] {
      const RunTraits unfused{.flash_attention = false};
      const auto memory = estimate_stage(gpt, point, family("megatron").memory, unfused, 0);
      return static_cast<double>(part(memory, MemoryClass::activations)) / memory_gib;
    };
    CHECK(activations() == doctest::Approx(row.none).epsilon(0.002));
    point.layout.recompute = Recompute::selective;
    point.layout.sequence_parallel = true;
    // One layer's attention is whole while it is computed again.
    CHECK(activations() == doctest::Approx(row.selective).epsilon(0.07));
    CHECK(activations() >= row.selective);
  }
}

TEST_CASE("traits change what attention and norms keep") {
  const auto llama = llama3_8b();
  const auto& megatron = family("megatron").memory;
  const auto point = three_degrees(8, 1, 1);
  const auto activations = [&](const RunTraits& traits) {
    return part(estimate_memory(llama, point, megatron, traits), MemoryClass::activations);
  };
  constexpr std::int64_t sbh = std::int64_t{1} << 25;
  // Probabilities of 4 bytes in place of a log-sum-exp of 4.
  CHECK(activations({.flash_attention = false, .fused_norm = true}) -
          activations({.flash_attention = true, .fused_norm = true}) ==
      std::int64_t{32} * 4 * 8192 * 32 * (8192 - 1));
  // Two norms, 8 bytes per element of their rows.
  CHECK(activations({.flash_attention = true, .fused_norm = false}) -
          activations({.flash_attention = true, .fused_norm = true}) ==
      std::int64_t{32} * 16 * sbh);
}

namespace {

void check_bounds_grow(
    const Predictor& predictor, std::int32_t tp, std::int32_t pp, std::int32_t zero) {
  std::int64_t before = 0;
  for (std::int32_t micro_batch = 1; micro_batch <= 32; micro_batch *= 2) {
    auto point = nanotron_point(4, tp, pp, zero);
    point.layout.micro_batch = micro_batch;
    const auto memory = predictor.guess_memory(nanotron_9b(), point);
    CHECK(memory.lower_bytes <= memory.estimate.total());
    CHECK(memory.lower_bytes > before);
    before = memory.lower_bytes;
  }
}

}  // namespace

TEST_CASE("every family's bound is below its estimate and grows with the micro-batch") {
  for (const auto& each : families()) {
    const Predictor predictor(h100(), each);
    for (const std::int32_t tp : {1, 4}) {
      for (const std::int32_t pp : {1, 2, 8}) {
        for (const std::int32_t zero : {0, 1, 3})
          check_bounds_grow(predictor, tp, pp, zero);
      }
    }
  }
}

TEST_CASE("FSDP holds a stage's weights and gradients whole until the last micro-batch") {
  const auto model = llama3_8b();
  const auto& family = (*find_family("fsdp"))->memory;
  auto sharded = family;
  sharded.whole_in_pipeline = false;
  const auto state = [&](std::int32_t pp, const MemoryFamily& of) {
    auto point = three_degrees(8, 1, pp);
    point.layout.zero = 3;
    const auto bytes = estimate_memory(model, point, of).bytes;
    return std::pair(bytes[static_cast<std::size_t>(MemoryClass::weights)],
        bytes[static_cast<std::size_t>(MemoryClass::gradients)]);
  };
  CHECK(state(1, family) == state(1, sharded));
  const auto [weights, gradients] = state(2, family);
  const auto [parts, sums] = state(2, sharded);
  // Of 16-bit shards of an eighth: weights once more whole, gradients in fp32.
  CHECK(weights == doctest::Approx(9.0 * static_cast<double>(parts)));
  CHECK(gradients == doctest::Approx(16.0 * static_cast<double>(sums)));
}
