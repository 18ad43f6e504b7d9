// SPDX-License-Identifier: Apache-2.0
// The planner's formulas against the runner itself: what its meta device counts, and what it
// refuses, for every way to shard.
#include "measurement/meta_run.hpp"
#include "parallel/places.hpp"
#include "plan/feasibility.hpp"
#include "predict/arena_replay.hpp"
#include "predict/family.hpp"
#include "program/rules.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

using namespace shardsweep;
using namespace shardsweep::testing;
using shardbench::i64;

namespace {

Point point_of(std::int32_t dp, std::int32_t copies, std::int32_t zero) {
  Point point;
  point.nodes = 0;
  point.gpus = dp;
  point.seq_len = 32;
  point.dtype = Dtype::bf16;
  point.layout.dp = dp;
  point.layout.dp_replicate = copies;
  point.layout.zero = zero;
  return point;
}

shardbench::Options options_of(const ModelSpec& model, const Point& point) {
  shardbench::Options options;
  options.device = "meta";
  options.dtype = shardbench::Dtype::bf16;
  options.model = {model.layers, model.hidden, model.ffn, model.heads, model.kv_heads, model.vocab,
      point.seq_len, model.tied_embeddings};
  options.layout.dp = point.layout.dp;
  options.layout.tp = point.layout.tp;
  options.layout.dp_replicate = point.layout.dp_replicate;
  options.layout.zero = point.layout.zero;
  return options;
}

i64 counted(const shardbench::RankCost& cost, shardbench::MemoryClass which) {
  return cost.peak_by_class[static_cast<std::size_t>(which)];
}

i64 estimated(const MemoryEstimate& estimate, MemoryClass which) {
  return estimate.bytes[static_cast<std::size_t>(which)];
}

/// Bytes of the two largest units that the runner may hold whole beside its shards.
i64 two_units(const ModelSpec& model, i64 element) {
  const i64 head = model.vocab * model.hidden + model.hidden;
  const i64 kv = model.kv_heads * (model.hidden / model.heads);
  const i64 layer =
      2 * model.hidden * (model.hidden + kv) + 3 * model.hidden * model.ffn + 2 * model.hidden;
  return 2 * element * std::max(head, layer);
}

/// The runner pads each unit (layers, embedding, head) to 128 elements for each shard, so that
/// every part is aligned; the planner's families of others don't.
i64 padding(const ModelSpec& model, i64 shards, i64 element) {
  constexpr i64 aligned = 128;
  return (model.layers + 2) * aligned * shards * element;
}

}  // namespace

TEST_CASE("what the planner says of sharded state is what the meta device counts") {
  const auto model = small_model();
  for (const std::int32_t dp : {2, 4, 8}) {
    for (std::int32_t copies = 1; copies < dp; copies *= 2) {
      for (const std::int32_t zero : {1, 2, 3}) {
        CAPTURE(dp);
        CAPTURE(copies);
        CAPTURE(zero);
        const auto point = point_of(dp, copies, zero);
        const auto estimate = estimate_memory(model, point, shardbench_cuda_memory());
        const auto cost = shardbench::cost_of_rank(options_of(model, point), 0);
        const i64 optimizer = estimated(estimate, MemoryClass::optimizer);
        const i64 gradients = estimated(estimate, MemoryClass::gradients);
        const i64 weights = estimated(estimate, MemoryClass::weights);
        constexpr i64 state = 12;  // fp32 masters and two moments
        CHECK(counted(cost, shardbench::MemoryClass::optimizer) >= optimizer);
        CHECK(counted(cost, shardbench::MemoryClass::optimizer) <=
            optimizer + padding(model, 1, state));
        // What is whole for a moment comes on top: the runner calls it by the class of what it
        // is, the planner counts it apart, or not.
        const i64 gradients_whole = zero >= 2 ? two_units(model, 4) : 0;
        const i64 weights_whole = zero == 3 ? two_units(model, 2) : 0;
        CHECK(counted(cost, shardbench::MemoryClass::gradients) >= gradients);
        CHECK(counted(cost, shardbench::MemoryClass::gradients) <=
            gradients + gradients_whole + padding(model, dp, 4));
        CHECK(counted(cost, shardbench::MemoryClass::parameters) >= weights);
        CHECK(counted(cost, shardbench::MemoryClass::parameters) <=
            weights + weights_whole + padding(model, dp, 2));
      }
    }
  }
}

TEST_CASE("the memory of a layout on a CPU is what the meta device counts") {
  ModelSpec mini{.name = "mini",
      .layers = 4,
      .hidden = 128,
      .ffn = 352,
      .heads = 8,
      .kv_heads = 4,
      .vocab = 512};
  struct Degrees {
    std::int32_t dp, tp, pp, zero;
  };
  constexpr std::array<Degrees, 7> all{{{1, 1, 1, 0}, {2, 1, 1, 0}, {2, 1, 1, 1}, {4, 1, 1, 0},
      {1, 2, 1, 0}, {1, 1, 2, 0}, {1, 2, 2, 0}}};
  for (const auto& degrees : all) {
    for (const std::int32_t micro_batch : {1, 4, 16}) {
      for (const auto recompute : {Recompute::none, Recompute::full}) {
        auto point = point_of(degrees.dp, 1, degrees.zero);
        point.dtype = Dtype::fp32;
        point.layout.tp = degrees.tp;
        point.layout.pp = degrees.pp;
        point.layout.micro_batch = micro_batch;
        point.layout.grad_accum = 4;
        point.layout.recompute = recompute;
        auto options = options_of(mini, point);
        options.dtype = shardbench::Dtype::fp32;
        options.layout.pp = degrees.pp;
        options.layout.micro_batch = micro_batch;
        options.layout.grad_accum = 4;
        options.layout.recompute = recompute == Recompute::full ? shardbench::Recompute::full
                                                                : shardbench::Recompute::none;
        i64 peak = 0;
        for (i64 rank = 0; rank < i64{degrees.dp} * degrees.tp * degrees.pp; ++rank)
          peak = std::max(peak, shardbench::cost_of_rank(options, rank).peak_bytes);
        CAPTURE(degrees.dp);
        CAPTURE(degrees.tp);
        CAPTURE(degrees.pp);
        CAPTURE(degrees.zero);
        CAPTURE(micro_batch);
        CAPTURE(recompute == Recompute::full);
        const auto estimate = estimate_memory(mini, point, shardbench_cpu_memory());
        const double ratio = static_cast<double>(estimate.total()) / static_cast<double>(peak);
        CHECK(ratio > 0.9);
        CHECK(ratio < 1.15);
      }
    }
  }
}

TEST_CASE("the memory of virtual stages and of halved backwards is what the meta device counts") {
  ModelSpec mini{.name = "mini",
      .layers = 16,
      .hidden = 128,
      .ffn = 352,
      .heads = 8,
      .kv_heads = 4,
      .vocab = 512};
  struct Pipeline {
    std::int32_t pp, vpp, accum;
    Schedule schedule;
  };
  constexpr std::array<Pipeline, 10> all{
      {{2, 2, 4, Schedule::one_f_one_b}, {4, 2, 8, Schedule::one_f_one_b},
          {4, 4, 4, Schedule::one_f_one_b}, {2, 1, 4, Schedule::zb_h1}, {4, 1, 8, Schedule::zb_h1},
          {4, 1, 2, Schedule::zb_h1}, {2, 2, 4, Schedule::zb_v}, {2, 2, 1, Schedule::zb_v},
          {4, 2, 8, Schedule::zb_v}, {4, 2, 3, Schedule::zb_v}}};
  for (const auto& pipeline : all) {
    for (const std::int32_t micro_batch : {1, 16}) {
      auto point = point_of(1, 1, 0);
      point.dtype = Dtype::fp32;
      point.layout.pp = pipeline.pp;
      point.layout.vpp = pipeline.vpp;
      point.layout.schedule = pipeline.schedule;
      point.layout.micro_batch = micro_batch;
      point.layout.grad_accum = pipeline.accum;
      auto options = options_of(mini, point);
      options.dtype = shardbench::Dtype::fp32;
      options.layout.pp = pipeline.pp;
      options.layout.vpp = pipeline.vpp;
      options.layout.schedule = static_cast<shardbench::ScheduleKind>(pipeline.schedule);
      options.layout.micro_batch = micro_batch;
      options.layout.grad_accum = pipeline.accum;
      i64 peak = 0;
      for (i64 rank = 0; rank < pipeline.pp; ++rank)
        peak = std::max(peak, shardbench::cost_of_rank(options, rank).peak_bytes);
      CAPTURE(pipeline.pp);
      CAPTURE(pipeline.vpp);
      CAPTURE(pipeline.accum);
      CAPTURE(micro_batch);
      const auto estimate = estimate_memory(mini, point, shardbench_cpu_memory());
      const double ratio = static_cast<double>(estimate.total()) / static_cast<double>(peak);
      CHECK(ratio > 0.9);
      CHECK(ratio < 1.15);
    }
  }
}

TEST_CASE("the memory of ranks that share sequences is what the meta device counts") {
  ModelSpec mini{.name = "mini",
      .layers = 4,
      .hidden = 128,
      .ffn = 352,
      .heads = 8,
      .kv_heads = 4,
      .vocab = 512};
  for (const std::int32_t cp : {2, 4}) {
    for (const std::int32_t dp : {1, 2}) {
      for (const std::int32_t zero : {0, 1, 2}) {
        auto point = point_of(dp, 1, zero);
        point.gpus = dp * cp;
        point.dtype = Dtype::fp32;
        point.layout.cp = cp;
        point.layout.micro_batch = 16;
        auto options = options_of(mini, point);
        options.dtype = shardbench::Dtype::fp32;
        options.layout.cp = cp;
        options.layout.micro_batch = 16;
        CAPTURE(cp);
        CAPTURE(dp);
        CAPTURE(zero);
        const auto estimate = estimate_memory(mini, point, shardbench_cpu_memory());
        const auto peak = shardbench::cost_of_rank(options, 0).peak_bytes;
        const double ratio = static_cast<double>(estimate.total()) / static_cast<double>(peak);
        CHECK(ratio > 0.85);
        CHECK(ratio < 1.2);
      }
    }
  }
}

TEST_CASE("the planner leaves out the replicas that the runner refuses") {
  auto sweep = sweep_of(small_model(), {});
  sweep.cluster.memory_bytes = 0;
  const auto runner = any_runner();
  Judge judge(sweep, runner, nullptr, nullptr);
  for (std::int32_t dp = 1; dp <= 8; ++dp) {
    for (std::int32_t copies = 1; copies <= 9; ++copies) {
      for (std::int32_t zero = 0; zero <= 3; ++zero) {
        CAPTURE(dp);
        CAPTURE(copies);
        CAPTURE(zero);
        GridPoint at;
        at.point = point_of(dp, copies, zero);
        const auto options = options_of(sweep.models[0], at.point);
        const bool refused = shardbench::layout_refusal(options.layout, options.model).has_value();
        CHECK(judge.judge(at).feasible == !refused);
      }
    }
  }
}

namespace {

/// The same draws on every machine.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::int32_t below(std::int32_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int32_t>((state_ >> 33U) % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint64_t state_;
};

shardbench::Options drawn_options(const ModelSpec& model, const Point& point) {
  auto options = options_of(model, point);
  const auto& layout = point.layout;
  options.layout.pp = layout.pp;
  options.layout.micro_batch = layout.micro_batch;
  options.layout.grad_accum = layout.grad_accum;
  options.layout.sequence_parallel = layout.sequence_parallel;
  options.layout.recompute = static_cast<shardbench::Recompute>(layout.recompute);
  options.layout.overlap = layout.overlap;
  if (layout.schedule == Schedule::afab) options.layout.schedule = shardbench::ScheduleKind::afab;
  return options;
}

std::string drawn_words(const ModelSpec& model, const Point& point) {
  const auto& layout = point.layout;
  return "L" + std::to_string(model.layers) + " dp" + std::to_string(layout.dp) + "/" +
      std::to_string(layout.dp_replicate) + " tp" + std::to_string(layout.tp) + " pp" +
      std::to_string(layout.pp) + " mb" + std::to_string(layout.micro_batch) + " ga" +
      std::to_string(layout.grad_accum) + " z" + std::to_string(layout.zero) + " r" +
      std::to_string(static_cast<int>(layout.recompute)) + " sp" +
      std::to_string(layout.sequence_parallel ? 1 : 0) +
      (layout.schedule == Schedule::afab ? " afab" : "") + (layout.overlap ? "" : " alone") +
      (model.tied_embeddings ? " tied" : "") + " s" + std::to_string(point.seq_len);
}

/// What the planner says of the arenas, in parts of what the meta device counts: of the rank
/// that needs most.
double said_of_counted(const ModelSpec& model, const Point& point,
    const shardbench::Options& options, const MemoryFamily& family) {
  i64 most = 0;
  for (i64 rank = 0; rank < point.layout.world(); ++rank) {
    const auto arenas = shardbench::cost_of_rank(options, rank).arenas;
    most = std::max(most, std::accumulate(arenas.begin(), arenas.end(), i64{0}));
  }
  const auto estimate = estimate_memory(model, point, family).total();
  return static_cast<double>(estimate) / static_cast<double>(most);
}

/// What the runner has outside its arenas, no meta device counts.
MemoryFamily arenas_alone() {
  auto family = find_family("shardbench").value()->memory;
  family.overhead_bytes = 0;
  return family;
}

}  // namespace

TEST_CASE("the planner says what the meta device counts on 200 layouts of bf16") {
  const auto family = arenas_alone();
  Draws draws(17);
  ModelSpec model{.name = "drawn",
      .layers = 32,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 128256};
  std::string off;
  for (int i = 0; i < 200; ++i) {
    auto point = point_of(1 << draws.below(4), 1, 0);
    point.seq_len = 512 << draws.below(3);
    auto& layout = point.layout;
    layout.tp = 1 << draws.below(3);
    layout.pp = 1 << draws.below(3);
    layout.micro_batch = 1 << draws.below(4);
    layout.grad_accum = layout.pp * (1 + draws.below(3));
    layout.zero = layout.dp > 1 ? draws.below(layout.pp > 1 ? 2 : 4) : 0;
    layout.recompute = static_cast<Recompute>(draws.below(3));
    layout.sequence_parallel = layout.tp > 1 && draws.below(2) == 1;
    model.tied_embeddings = i % 2 == 1;
    model.vocab = i % 3 == 0 ? 50257 : 128256;
    const double ratio = said_of_counted(model, point, drawn_options(model, point), family);
    if (std::abs(ratio - 1) <= 0.01) continue;
    off += drawn_words(model, point) + ": " + std::to_string(ratio) + "\n";
  }
  CAPTURE(off);
  CHECK(off.empty());
}

TEST_CASE("it says so of layouts in FP8") {
  const auto family = arenas_alone();
  Draws draws(8);
  ModelSpec model{.name = "drawn",
      .layers = 16,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 32000};
  std::string off;
  int larger = 0;
  for (int i = 0; i < 100; ++i) {
    auto point = point_of(1 << draws.below(3), 1, 0);
    point.seq_len = 512 << draws.below(4);
    point.dtype = i % 2 == 0 ? Dtype::fp8 : Dtype::fp8_delayed;
    auto& layout = point.layout;
    layout.tp = 1 << draws.below(4);
    layout.pp = 1 << draws.below(3);
    layout.micro_batch = 1 << draws.below(3);
    layout.grad_accum = layout.pp * (1 + draws.below(2));
    layout.recompute = static_cast<Recompute>(draws.below(3));
    layout.sequence_parallel = layout.tp > 1 && draws.below(2) == 1;
    auto options = drawn_options(model, point);
    options.layout.fp8 = i % 2 == 0 ? shardbench::Scaling::current : shardbench::Scaling::delayed;
    auto in_bf16 = point;
    in_bf16.dtype = Dtype::bf16;
    larger += estimate_memory(model, point, family).total() >
            estimate_memory(model, in_bf16, family).total()
        ? 1
        : 0;
    const double ratio = said_of_counted(model, point, options, family);
    if (std::abs(ratio - 1) <= 0.02) continue;
    off += drawn_words(model, point) + ": " + std::to_string(ratio) + "\n";
  }
  CAPTURE(off);
  CHECK(off.empty());
  CHECK(larger > 50);
}

TEST_CASE("it says so of any schedule, sharding and size, and of other trainers' habits") {
  const std::array<ModelSpec, 3> models{{{.name = "tiny",
                                             .layers = 5,
                                             .hidden = 512,
                                             .ffn = 1536,
                                             .heads = 8,
                                             .kv_heads = 8,
                                             .vocab = 32000},
      {.name = "small",
          .layers = 16,
          .hidden = 2048,
          .ffn = 8192,
          .heads = 32,
          .kv_heads = 8,
          .vocab = 128256},
      {.name = "odd",
          .layers = 27,
          .hidden = 1536,
          .ffn = 4096,
          .heads = 12,
          .kv_heads = 4,
          .vocab = 50257}}};
  Draws draws(5);
  std::string off;
  for (int i = 0; i < 300; ++i) {
    auto model = models[static_cast<std::size_t>(draws.below(3))];
    model.tied_embeddings = draws.below(2) == 1;
    auto point = point_of(1 << draws.below(4), 1, 0);
    point.seq_len = 512 << draws.below(4);
    auto& layout = point.layout;
    layout.tp = 1 << draws.below(3);
    layout.pp = 1 << draws.below(3);
    layout.micro_batch = 1 + draws.below(8);
    layout.grad_accum = std::max(1, layout.pp - 1) + draws.below(9);
    layout.zero = layout.dp > 1 ? draws.below(4) : 0;
    if (layout.zero > 0 && layout.dp > 2 && draws.below(3) == 0) layout.dp_replicate = 2;
    layout.recompute = static_cast<Recompute>(draws.below(3));
    layout.sequence_parallel = layout.tp > 1 && draws.below(2) == 1;
    layout.overlap = draws.below(3) > 0;
    if (draws.below(3) == 0) layout.schedule = Schedule::afab;
    auto family = arenas_alone();
    auto options = drawn_options(model, point);
    if (draws.below(3) == 0) {
      family.selective = Selective::attention;
      family.vocab_multiple = 1;
      options.layout.habits = {.vocab_multiple = 1,
          .selective = shardbench::Selective::attention,
          .gather_overlap = false,
          .tp_overlap = false};
    }
    const double ratio = said_of_counted(model, point, options, family);
    if (std::abs(ratio - 1) <= 0.01) continue;
    off += drawn_words(model, point) + ": " + std::to_string(ratio) + "\n";
  }
  CAPTURE(off);
  CHECK(off.empty());
}

TEST_CASE("the planner gives places in an arena as the runner does") {
  Draws draws(3);
  shardbench::Places runner(i64{1} << 40);
  FirstFit planner;
  std::vector<FirstFit::Place> held;
  for (int i = 0; i < 20'000; ++i) {
    if (held.size() < 40 && draws.below(2) == 0) {
      const i64 bytes = shardbench::place_alignment * (1 + draws.below(50));
      held.push_back(planner.take(bytes));
      CHECK(runner.take(bytes).value() == held.back().from);
    } else if (!held.empty()) {
      const auto at = held.begin() + draws.below(static_cast<std::int32_t>(held.size()));
      runner.give(at->from);
      planner.give(*at);
      held.erase(at);
    }
  }
  CHECK(planner.extent() == runner.extent());
}
