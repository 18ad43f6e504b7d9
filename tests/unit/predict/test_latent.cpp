// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (MLA) and layers that predict later tokens (MTP): parameters and
// activations counted by hand, DeepSeek-V3's published figures, and what the two change.
#include "predict/family.hpp"
#include "predict/memory.hpp"
#include "predict/time_model.hpp"
#include "unit/predict/latent_models.hpp"
#include "unit/predict/megatron_on_h100.hpp"
#include "unit/predict/points.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

using namespace shardsweep;
using testing::deepseek_v3;
using testing::small_latent;
using testing::time_of;

namespace {

const MemoryFamily& megatron() {
  return (*find_family("megatron"))->memory;
}

double bytes_of(const MemoryEstimate& estimate, MemoryClass part) {
  return static_cast<double>(estimate.bytes[static_cast<std::size_t>(part)]);
}

constexpr RunTraits fused{.fused_norm = true};

double layer_bytes(const ModelSpec& model, const Point& point, const RunTraits& traits = fused) {
  return layer_activation_bytes(model, point, megatron(), traits);
}

double kept_bytes(const ModelSpec& model, const Point& point) {
  return layer_bytes(model, point) - layer_dropped_bytes(model, point, megatron(), fused);
}

/// The modules `mla_up_proj`.
Recompute heads_again() {
  const auto* const word = std::find(recompute_words.begin(), recompute_words.end(), "mla_up_proj");
  return static_cast<Recompute>(word - recompute_words.begin());
}

/// FLOP/s that products of a layer and of the head reach.
constexpr double product_rate = 989e12 * 0.7;

}  // namespace

TEST_CASE("parameters of a small model with latent attention, counted by hand") {
  auto model = small_latent();
  constexpr std::int64_t h = 64;
  // Queries 48 (64 + 4 x 24) + 48, keys and values 32 (64 + 4 (16 + 20)) + 32, the shared key
  // 64 x 8, output 4 x 20 x 64.
  constexpr std::int64_t attention = 7728 + 6688 + 512 + 5120;
  constexpr std::int64_t layer = attention + 3 * h * 96 + 2 * h;
  constexpr std::int64_t ends = 200 * h + h;
  CHECK(parameters(model) == 2 * layer + ends);
  CHECK(parameters(model) == 90'080);
  CHECK(active_parameters(model) == 90'080);
  // Queries straight from the row: 64 x 96.
  model.q_lora_rank = 0;
  CHECK(parameters(model) == 2 * (layer - 7728 + 6144) + ends);
  // Values as wide as queries unless said otherwise: 4 more of each head, from a latent of 32.
  model.q_lora_rank = 48;
  model.v_head_dim = 0;
  CHECK(parameters(model) == 2 * (layer + 512 + 16 * h) + ends);
  // A layer that predicts the token after next: one more, a projection of two rows to one, and
  // three norms. Embedding and head are those that are there.
  model = small_latent();
  model.mtp_layers = 2;
  CHECK(parameters(model) == 90'080 + 2 * (layer + 2 * h * h + 3 * h));
  model.kv_lora_rank = model.q_lora_rank = model.qk_rope_head_dim = model.v_head_dim = 0;
  constexpr std::int64_t plain = 2 * h * (96 + 96) + 3 * h * 96 + 2 * h;
  CHECK(parameters(model) == 4 * plain + 2 * (2 * h * h + 3 * h) + ends);
  // With experts it has some too, of which a token takes as many.
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_ffn = 32;
  constexpr std::int64_t expert = 3 * h * 32;
  CHECK(parameters(model) - active_parameters(model) == expert * 4 * 6);
}

TEST_CASE("DeepSeek-V3 has the parameters of its report") {
  auto model = deepseek_v3();
  // 671 B (arXiv 2412.19437); its files' README: 11.5 B more of MTP.
  CHECK(static_cast<double>(parameters(model)) == doctest::Approx(671e9 + 11.5e9).epsilon(0.001));
  model.mtp_layers = 0;
  CHECK(static_cast<double>(parameters(model)) == doctest::Approx(671.0e9).epsilon(0.001));
  // The same README: 36.7 B active. So many are ours without the embedding, which multiplies
  // nothing.
  const double embedding = 129280.0 * 7168;
  CHECK(static_cast<double>(active_parameters(model)) - embedding ==
      doctest::Approx(36.7e9).epsilon(0.005));
}

// NVIDIA's performance summary of Megatron-Bridge says TFLOP/s and tokens/s of each row, with
// sequences of 4,096 tokens: their quotient is what Megatron-LM counts per token.
TEST_CASE("FLOPs of a token are those that Megatron-LM counts") {
  auto model = deepseek_v3();
  CHECK(flops_per_token(model, 4096) == doctest::Approx(557e12 / 2139).epsilon(0.005));
  CHECK(flops_per_token(model, 4096) == doctest::Approx(1635e12 / 6288).epsilon(0.005));
  model.mtp_layers = 0;
  CHECK(flops_per_token(model, 4096) == doctest::Approx(961e12 / 3848).epsilon(0.005));
  CHECK(
      flops_per_token(testing::kimi_k2(), 4096) == doctest::Approx(1099e12 / 5372).epsilon(0.005));
}

TEST_CASE("activations of a layer with latent attention, tensor by tensor") {
  const auto model = small_latent();
  const auto point = testing::point_of(1, 1, 1, 512);
  const double tokens = 512;
  // Two residuals and two norms; two latents, normed and not, and the shared key.
  const double between = 4 * 64 + 2 * (48 + 32) + 8;
  // Queries and keys of 4 x 24, values and output of 4 x 20; gate, up and their product.
  const double heads = 2 * 96 + 2 * 80;
  const double sums = 4.0 * 4 * tokens;  // log-sum-exp in fp32
  const double whole = 2 * tokens * (between + heads + 3 * 96) + sums;
  CHECK(layer_bytes(model, point) == doctest::Approx(whole));
  CHECK(kept_bytes(model, point) == doctest::Approx(whole));
  // Heads from latents: the output stays, and what latents are made of heads from.
  auto again = point;
  again.layout.recompute = heads_again();
  CHECK(layer_bytes(model, again) == doctest::Approx(whole));
  CHECK(layer_bytes(model, again) - kept_bytes(model, again) ==
      doctest::Approx(2 * tokens * (2 * 96 + 80 + 48 + 32)));
  // Norms that are not fused compute in fp32.
  CHECK(layer_bytes(model, point, {.fused_norm = false}) ==
      doctest::Approx(whole + 8 * tokens * (2 * 64 + 48 + 32)));
  // tp divides heads alone; with sequence parallelism latents too.
  auto split = testing::point_of(1, 2, 1, 512);
  CHECK(layer_bytes(model, split) ==
      doctest::Approx(2 * tokens * (between + (heads + 3 * 96) / 2) + sums / 2));
  split.layout.sequence_parallel = true;
  CHECK(layer_bytes(model, split) == doctest::Approx(whole / 2));
  // Full recomputation keeps the row alone.
  again.layout.recompute = Recompute::full;
  CHECK(kept_bytes(model, again) == doctest::Approx(2 * tokens * 64));
}

TEST_CASE("a rank of tp has all of what makes latents, and its part of the heads") {
  const auto model = small_latent();
  auto point = testing::point_of(1, 2, 1, 512);
  const double down = 64 * (48 + 32 + 8);
  const double divided = 48 * 96 + 32 * (4 * (16 + 20)) + 5120 + 3 * 64 * 96;
  const double norms = 48 + 32 + 2 * 64;
  const double ends = 256 * 64 + 64;  // half of both: 100 entries are padded to 2 x 128
  const double count = 2 * (divided / 2 + down + norms) + ends;
  const auto estimate = estimate_memory(model, point, megatron());
  CHECK(bytes_of(estimate, MemoryClass::weights) == doctest::Approx(2 * count));
  CHECK(bytes_of(estimate, MemoryClass::optimizer) == doctest::Approx(12 * count));
  // ZeRO 3 gathers a layer at a time, and the next one.
  point.layout.dp = 2;
  point.layout.zero = 3;
  const double gradients = 4 * count;
  CHECK(bytes_of(estimate_memory(model, point, megatron()), MemoryClass::communication) ==
      doctest::Approx(gradients + 2 * 2 * (divided / 2 + down + norms)));
}

TEST_CASE("rings of cp carry keys and values of all heads") {
  const auto model = small_latent();
  auto point = testing::point_of(1, 1, 1, 512);
  point.layout.cp = 2;
  point.gpus = 2;
  const double keys_and_values = 2 * 256.0 * (96 + 80);
  const double buckets = 4.0 * 90'080 + 4.0 * 28 * 64 * 2;  // the padded vocabulary's
  CHECK(bytes_of(estimate_memory(model, point, megatron()), MemoryClass::communication) ==
      doctest::Approx(buckets + 3 * keys_and_values));
  point.layout.cp_mode = ContextMode::ulysses;
  CHECK(bytes_of(estimate_memory(model, point, megatron()), MemoryClass::communication) ==
      doctest::Approx(buckets + 2 * (keys_and_values + 2 * 256.0 * 96)));
  // Of 128 heads each rank sends half of its queries, keys and values, then of the output.
  auto wide = deepseek_v3();
  wide.experts = wide.experts_per_token = wide.expert_ffn = 0;
  wide.shared_experts = wide.dense_layers = wide.mtp_layers = 0;
  auto rows = testing::point_of(1, 1, 1, 4096);
  rows.layout.cp = 2;
  rows.layout.cp_mode = ContextMode::ulysses;
  rows.gpus = 2;
  const double values = 2.0 * 2048 * 128 * 128;
  const double queries = 2.0 * 2048 * 128 * 192;
  const double sent = 2 * (2 * queries + values + values) / 2;
  CHECK(
      time_of(wide, rows).tp_s == doctest::Approx(61 * 8 * (sent / (450e9 * 0.7) + 4 * 5 * 3e-6)));
}

TEST_CASE("MTP lies on the stage of the head: a layer, its projection, embedding and logits") {
  auto model = small_latent();
  model.layers = 4;
  auto point = testing::point_of(1, 1, 2, 512);
  const auto first = estimate_stage(model, point, megatron(), {}, 0);
  const auto last = estimate_stage(model, point, megatron(), {}, 1);
  model.mtp_layers = 1;
  const auto first_beside = estimate_stage(model, point, megatron(), {}, 0);
  const auto more = estimate_stage(model, point, megatron(), {}, 1);
  CHECK(first_beside.bytes == first.bytes);
  const double layer = 20'048 + 3 * 64 * 96 + 2 * 64;
  const double added = layer + 2 * 64 * 64 + 3 * 64 + 128 * 64;
  const auto gain = [&](MemoryClass part) { return bytes_of(more, part) - bytes_of(last, part); };
  CHECK(gain(MemoryClass::weights) == doctest::Approx(2 * added));
  CHECK(gain(MemoryClass::gradients) == doctest::Approx(4 * added));
  CHECK(gain(MemoryClass::logits) == doctest::Approx(bytes_of(last, MemoryClass::logits)));
  const double row = 2 * 512.0 * 64;
  CHECK(gain(MemoryClass::activations) == doctest::Approx(layer_bytes(model, point, {}) + 6 * row));
  CHECK(estimate_memory(model, point, megatron()).stage == 1);
  // With one embedding for both ends it is there already; so it is on the only stage.
  model.tied_embeddings = true;
  const auto tied = estimate_stage(model, point, megatron(), {}, 1);
  CHECK(bytes_of(more, MemoryClass::weights) - bytes_of(tied, MemoryClass::weights) ==
      doctest::Approx(2 * 128 * 64));
  // All of it is computed again from what comes, and its output is kept.
  model.tied_embeddings = false;
  point.layout.recompute = Recompute::full;
  auto without = model;
  without.mtp_layers = 0;
  CHECK(bytes_of(estimate_stage(model, point, megatron(), {}, 1), MemoryClass::activations) -
          bytes_of(estimate_stage(without, point, megatron(), {}, 1), MemoryClass::activations) ==
      doctest::Approx(4 * row));
}

TEST_CASE("MTP costs a layer, a projection and a pass through the head") {
  auto model = testing::dense_latent();
  const auto point = testing::point_of(1, 1, 1, 4096);
  const auto without = time_of(model, point);
  model.mtp_layers = 1;
  const auto with = time_of(model, point);
  auto longer = model;
  longer.mtp_layers = 0;
  longer.layers += 1;
  const double layer = time_of(longer, point).compute_s - without.compute_s;
  const double tokens = 8 * 4096.0;
  const double beside = 6 * tokens * (2.0 * 4096 * 4096 + 32768.0 * 4096) / product_rate;
  CHECK(with.compute_s - without.compute_s == doctest::Approx(layer + beside));
  CHECK(with.memory_s > time_of(longer, point).memory_s);
  CHECK(with.update_s > time_of(longer, point).update_s);
  // Ranks of tp sum gradients of the projection's two rows and gather the one that it makes:
  // 5 rows beside the 8 of a layer. With sequence parallelism it gathers two rows twice too.
  auto split_in_two = testing::point_of(1, 2, 1, 4096);
  const double row_s = 8 * 2 * 4096.0 * 4096 / 2 / (450e9 * 0.7);
  const double latency_s = 8 * 5 * 3e-6;
  CHECK(time_of(model, split_in_two).tp_s - time_of(longer, split_in_two).tp_s ==
      doctest::Approx(5 * row_s + 2 * latency_s));
  split_in_two.layout.sequence_parallel = true;
  CHECK(time_of(model, split_in_two).tp_s - time_of(longer, split_in_two).tp_s ==
      doctest::Approx(7 * row_s + 4 * latency_s));
  // In a pipeline the stage of the head is the longest, and all wait for it.
  auto stages = testing::point_of(1, 1, 4, 4096);
  auto split = model;
  split.mtp_layers = 0;
  CHECK(time_of(model, stages).step_s > 1.1 * time_of(split, stages).step_s);
  // With replicas it is the one whose gradients are the most.
  stages.layout.dp = 4;
  stages.layout.overlap = false;
  CHECK(time_of(model, stages).dp_s > 1.1 * time_of(split, stages).dp_s);
}

TEST_CASE("attention multiplies scores by queries' width and values by their own") {
  auto model = testing::dense_latent();
  auto point = testing::point_of(1, 1, 1, 4096);
  const double tokens = 8 * 4096.0;
  const double attention_rate = 989e12 * 0.55;
  // Forward and backward 2 + 5 products, of which four are as wide as queries.
  const double heads = 32 * (4 * 192 + 3 * 128.0);
  const double matrices = 32.0 *
          (4096 * (1536 + 512 + 64) + 1536 * 32 * 192 + 512 * 32 * (128 + 128) + 32 * 128 * 4096 +
              3 * 4096 * 12288.0) +
      32768.0 * 4096;
  CHECK(time_of(model, point).compute_s ==
      doctest::Approx(
          6 * tokens * matrices / product_rate + 32 * tokens * heads * 4096 / attention_rate));
  // Computed again, heads cost their products once more.
  const double before = time_of(model, point).compute_s;
  point.layout.recompute = heads_again();
  const double up = 1536 * 32 * 192 + 512 * 32 * (128.0 + 128);
  CHECK(time_of(model, point).compute_s - before ==
      doctest::Approx(32 * 2 * tokens * up / product_rate));
  // Queries without a latent come from rows.
  model.q_lora_rank = 0;
  const double straight = time_of(model, point).compute_s;
  point.layout.recompute = Recompute::none;
  CHECK(straight - time_of(model, point).compute_s ==
      doctest::Approx(32 * 2 * tokens * (4096 * 32 * 192.0 + 512 * 32 * 256.0) / product_rate));
}

TEST_CASE("tp multiplies rows for latents on every rank, and sends latents in place of rows") {
  const auto model = testing::dense_latent();
  auto plain = model;
  plain.kv_lora_rank = plain.q_lora_rank = plain.qk_rope_head_dim = plain.v_head_dim = 0;
  auto point = testing::point_of(1, 2, 1, 4096);
  const double tokens = 8 * 4096.0;
  const double down = 32 * 4096.0 * (1536 + 512 + 64);
  const double without = time_of(model, point).compute_s;
  point.layout.sequence_parallel = true;
  CHECK(without - time_of(model, point).compute_s ==
      doctest::Approx(6 * tokens * down / 2 / product_rate));
  // 10 rows of all transfers, of which 3 go into attention.
  const double saved = 3 * (1 - (1536 + 512 + 64) / 4096.0) / 10;
  const double latency = 32 * 8 * 10 * 5 * 3e-6;
  CHECK((time_of(model, point).tp_s - latency) / (time_of(plain, point).tp_s - latency) ==
      doctest::Approx(1 - saved));
}

TEST_CASE("FP8 writes latents and heads in 8 bits as products read and make them") {
  const auto model = testing::dense_latent();
  auto point = testing::point_of(1, 1, 1, 4096);
  const double in_16_bits = time_of(model, point).memory_s;
  point.dtype = Dtype::fp8;
  const double tokens = 4096;
  // Two normed rows and two latents; attention's output and SwiGLU's.
  const double into = 2 * 4096 + 1536 + 512;
  const double inputs = tokens * (into + 32 * 128 + 12288);
  // Gradients: of the same, of queries, of keys without the shared one, which is one, and
  // values.
  const double gradients = tokens * (into + 32 * (192 + 128 + 128.0) + 64) + tokens * 2 * 12288;
  const double weights = 4096 * (1536 + 512 + 64) + 1536 * 32 * 192 + 512 * 32 * (128 + 128) +
      32 * 128 * 4096 + 3 * 4096 * 12288.0;
  // Inputs in two orders. What it is made of is read twice, and of weights once for 8 times.
  const double moved = 2 * (inputs + 5 * weights / 8) + 4 * gradients;
  CHECK(time_of(model, point).memory_s - in_16_bits == doctest::Approx(32 * 8 * moved / 3.35e12));
}

TEST_CASE("of a rank's pieces one has MTP, and keeps it for the micro-batch that comes back") {
  auto model = small_latent();
  model.layers = 8;
  const auto gain = [&](const Point& point) {
    auto more = model;
    more.mtp_layers = 1;
    return bytes_of(estimate_stage(more, point, megatron(), {}, 1), MemoryClass::activations) -
        bytes_of(estimate_stage(model, point, megatron(), {}, 1), MemoryClass::activations);
  };
  auto point = testing::point_of(1, 1, 2, 512);
  const double one = layer_bytes(model, point, {}) + 6 * 2 * 512.0 * 64;
  CHECK(gain(point) == doctest::Approx(one));
  point.layout.vpp = 2;
  CHECK(gain(point) == doctest::Approx(one));
  // All forward passes come first: eight micro-batches.
  point.layout.vpp = 1;
  point.layout.schedule = Schedule::afab;
  CHECK(gain(point) == doctest::Approx(8 * one));
}

namespace {

std::vector<Point> splits_and_recomputations(std::int32_t ep) {
  std::vector<Point> points;
  for (const auto& [tp, pp] : {std::pair(1, 1), {2, 1}, {4, 1}, {1, 2}, {4, 2}}) {
    for (const auto recompute : {Recompute::none, heads_again(), Recompute::full}) {
      auto& point = points.emplace_back(testing::point_of(8, tp, pp));
      point.layout.zero = 1;
      point.layout.ep = ep;
      point.layout.recompute = recompute;
    }
  }
  return points;
}

/// More of one thing, and what that does to memory and time.
void hold_monotonic(const ModelSpec& model, const Point& point) {
  const auto last_stage = point.layout.pp - 1;
  const auto memory = estimate_memory(model, point, megatron()).total();
  const auto time = time_of(model, point).step_s;
  CHECK(optimistic_memory(model, point).total() < memory);
  auto more = model;
  ++more.mtp_layers;
  const auto last = estimate_stage(model, point, megatron(), {}, last_stage).total();
  CHECK(estimate_stage(more, point, megatron(), {}, last_stage).total() > last);
  CHECK(optimistic_memory(more, point).total() >= optimistic_memory(model, point).total());
  CHECK(time_of(more, point).step_s > time);
  more = model;
  more.kv_lora_rank *= 2;
  CHECK(estimate_memory(more, point, megatron()).total() > memory);
  CHECK(time_of(more, point).step_s > time);
  more = model;
  more.v_head_dim *= 2;
  CHECK(time_of(more, point).step_s > time);
  if (point.layout.recompute != Recompute::none) return;
  auto again = point;
  again.layout.recompute = heads_again();
  CHECK(estimate_memory(model, again, megatron()).total() < memory);
  CHECK(time_of(model, again).compute_s > time_of(model, point).compute_s);
}

}  // namespace

TEST_CASE("more of a latent model needs more, and bounds hold of it") {
  for (auto model : {small_latent(), deepseek_v3(), testing::dense_latent()}) {
    for (model.mtp_layers = 0; model.mtp_layers < 3; ++model.mtp_layers) {
      for (const auto& point : splits_and_recomputations(model.experts > 0 ? 8 : 1)) {
        CAPTURE(model.name);
        CAPTURE(model.mtp_layers);
        CAPTURE(point.layout.tp);
        CAPTURE(point.layout.pp);
        hold_monotonic(model, point);
      }
    }
  }
}
