// SPDX-License-Identifier: Apache-2.0
// Axes of today's trainers: what each moves of memory and time, by hand or against the layout
// without it.
#include "predict/family.hpp"
#include "predict/memory.hpp"
#include "predict/time_model.hpp"
#include "unit/predict/points.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string_view>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

const Family& megatron_family() {
  return **find_family("megatron");
}

ModelSpec with_experts() {
  auto model = llama3_8b();
  model.name = "with experts";
  model.experts = 64;
  model.experts_per_token = 4;
  model.expert_ffn = 2048;
  model.dense_layers = 2;
  return model;
}

Recompute recompute_called(std::string_view word) {
  const auto* found = std::find(recompute_words.begin(), recompute_words.end(), word);
  REQUIRE(found != recompute_words.end());
  return static_cast<Recompute>(found - recompute_words.begin());
}

Point with(Point point, const std::function<void(Layout&)>& change) {
  change(point.layout);
  return point;
}

std::int64_t class_bytes(
    const ModelSpec& model, const Point& point, MemoryClass part, std::int32_t stage = 0) {
  const auto estimate = estimate_stage(model, point, megatron_family().memory, {}, stage);
  return estimate.bytes[static_cast<std::size_t>(part)];
}

TimeEstimate megatron_step(const ModelSpec& model, const Point& point) {
  return estimate_time(model, h100(), point, megatron_family().time, megatron_family().memory);
}

}  // namespace

TEST_CASE("a stage has the layers that it is told, and the fullest one is found") {
  const auto model = llama3_8b();  // 32 layers
  const auto even = point_of(1, 1, 4);
  const auto uneven = with(even, [](Layout& layout) {
    layout.first_stage_layers = 7;
    layout.last_stage_layers = 5;
  });
  double all = 0;
  for (std::int32_t stage = 0; stage < 4; ++stage)
    all += layers_of_stage(model, uneven.layout, StageSplit::even, stage);
  CHECK(all == 32);
  CHECK(layers_of_stage(model, uneven.layout, StageSplit::even, 0) == 7);
  CHECK(layers_of_stage(model, uneven.layout, StageSplit::even, 1) == 10);
  CHECK(layers_of_stage(model, uneven.layout, StageSplit::by_cost, 3) == 5);
  // Ten layers between outweigh the head and what the first stage has in flight.
  const auto light = with(even, [](Layout& layout) {
    layout.first_stage_layers = 1;
    layout.last_stage_layers = 1;
  });
  CHECK(estimate_memory(model, light, megatron_family().memory).stage == 1);
  CHECK(megatron_step(model, light).step_s > 1.3 * megatron_step(model, even).step_s);
  // The head costs as much as more than two layers: with fewer layers beside it the slowest
  // stage is faster.
  const auto relieved = with(even, [](Layout& layout) {
    layout.first_stage_layers = 8;
    layout.last_stage_layers = 6;
  });
  CHECK(megatron_step(model, relieved).compute_s < megatron_step(model, even).compute_s);
  const auto last_even = estimate_stage(model, even, megatron_family().memory, {}, 3).total();
  CHECK(estimate_stage(model, relieved, megatron_family().memory, {}, 3).total() < last_even);
}

TEST_CASE("whole experts beside tp are spread over its ranks, and narrow products are wider") {
  const auto model = with_experts();
  auto split = point_of(8, 4, 1);
  split.layout.sequence_parallel = true;
  split.layout.ep = 8;
  const auto whole = with(split, [](Layout& layout) {
    layout.ep = 32;
    layout.expert_tp = 1;
  });
  CHECK(split.layout.expert_shards() == 4);
  CHECK(whole.layout.expert_shards() == 1);
  CHECK(whole.layout.expert_replicas() == 1);
  // The same bytes: a quarter of each of eight experts, or two whole ones.
  CHECK(class_bytes(model, whole, MemoryClass::weights) ==
      class_bytes(model, split, MemoryClass::weights));
  CHECK(megatron_step(model, whole).compute_s < megatron_step(model, split).compute_s);
  const auto replicated = with(split, [](Layout& layout) { layout.expert_tp = 1; });
  CHECK(replicated.layout.expert_replicas() == 4);
  CHECK(class_bytes(model, replicated, MemoryClass::weights) >
      2 * class_bytes(model, split, MemoryClass::weights));
}

TEST_CASE("ranks beyond those of tp that split experts send each other the rows of all") {
  const auto model = with_experts();
  auto whole = point_of(8, 1, 1);
  whole.layout.ep = 2;
  const auto split = with(whole, [](Layout& layout) { layout.expert_tp = 2; });
  auto slow = h100();
  slow.intra_node_bandwidth /= 2;
  const auto sending_s = [&](const ClusterSpec& cluster, const Point& point) {
    return estimate_time(model, cluster, point, megatron_family().time, megatron_family().memory)
        .tp_s;
  };
  const auto slower_s = [&](const Point& point) {
    return sending_s(slow, point) - sending_s(h100(), point);
  };
  // Four tokens' rows in bf16 for each of a layer, gathered and summed, forward and backward.
  const double bytes = 30 * 4 * 4 * 4096.0 * 4096 * 2 * whole.layout.grad_accum;
  const double bandwidth = h100().intra_node_bandwidth * h100().intra_node_efficiency *
      megatron_family().time.links.inside;
  CHECK(slower_s(split) - slower_s(whole) == doctest::Approx(bytes / bandwidth));
}

TEST_CASE("modules that are computed again keep less and cost their products") {
  const auto dense = llama3_8b();
  const auto none = point_of(8, 1, 1);
  const auto kept = [&](const ModelSpec& model, std::string_view word) {
    const auto point =
        with(none, [&](Layout& layout) { layout.recompute = recompute_called(word); });
    return class_bytes(model, point, MemoryClass::activations);
  };
  const double rows = 4096.0;  // one sample
  // Outputs of two norms in bf16; gate, up and their product.
  CHECK(kept(dense, "none") - kept(dense, "layernorm") ==
      doctest::Approx(31 * 2 * 2 * rows * 4096).epsilon(0.001));
  CHECK(kept(dense, "none") - kept(dense, "mlp") ==
      doctest::Approx(31 * 3 * 2 * rows * 14336).epsilon(0.001));
  CHECK(kept(dense, "none") - kept(dense, "layernorm+mlp") ==
      doctest::Approx(31 * 2 * rows * (2 * 4096 + 3 * 14336)).epsilon(0.001));
  const auto sparse = with_experts();
  CHECK(kept(sparse, "moe") < kept(sparse, "moe_act"));
  CHECK(kept(sparse, "layernorm+moe_act") < kept(sparse, "moe_act"));
  CHECK(kept(sparse, "full") < kept(sparse, "moe"));
  const auto compute = [&](const ModelSpec& model, std::string_view word) {
    return megatron_step(model, with(none, [&](Layout& layout) {
      layout.recompute = recompute_called(word);
    })).compute_s;
  };
  CHECK(compute(dense, "layernorm") == doctest::Approx(compute(dense, "none")));
  CHECK(compute(dense, "mlp") > 1.2 * compute(dense, "none"));
  CHECK(compute(dense, "mlp") < compute(dense, "full"));
  CHECK(compute(sparse, "moe") > compute(sparse, "moe_act"));
}

TEST_CASE("graphs of layers take the host out of the step, and keep inputs and outputs") {
  const auto small = small_model();
  const auto plain = point_of(8, 1, 1);
  const auto graphs = with(plain, [](Layout& layout) { layout.cuda_graphs = true; });
  CHECK(megatron_step(small, plain).launch_s > 0.005);
  CHECK(megatron_step(small, graphs).step_s < megatron_step(small, plain).step_s / 4);
  CHECK(class_bytes(small, graphs, MemoryClass::activations) >
      class_bytes(small, plain, MemoryClass::activations));
  const auto sparse = with_experts();
  const auto part = megatron_step(sparse, graphs).launch_s;
  CHECK(part < megatron_step(sparse, plain).launch_s);
}

TEST_CASE("what lies in the host's memory is not on the device, and its update waits for it") {
  const auto model = llama3_8b();
  auto zero1 = point_of(8, 1, 1);
  zero1.layout.zero = 1;
  const auto offloaded = with(zero1, [](Layout& layout) { layout.offload = Offload::optimizer; });
  CHECK(class_bytes(model, zero1, MemoryClass::optimizer) > 0);
  CHECK(class_bytes(model, offloaded, MemoryClass::optimizer) == 0);
  CHECK(class_bytes(model, offloaded, MemoryClass::gradients) ==
      class_bytes(model, zero1, MemoryClass::gradients));
  // Of a rank's eighth of the parameters: 28 bytes by the host, gradients and weights by PCIe.
  const double parts = static_cast<double>(parameters(model)) / 8;
  CHECK(megatron_step(model, offloaded).update_s ==
      doctest::Approx(megatron_family().time.update_s + parts * (28 + 4 + 2) / 25e9).epsilon(0.1));
  auto zero3 = zero1;
  zero3.layout.zero = 3;
  const auto all = with(zero3, [](Layout& layout) { layout.offload = Offload::all; });
  CHECK(class_bytes(model, all, MemoryClass::weights) == 0);
  CHECK(class_bytes(model, all, MemoryClass::gradients) == 0);
  CHECK(optimistic_memory(model, all).total() <
      estimate_memory(model, all, megatron_family().memory).total());
  CHECK(megatron_step(model, all).update_s > megatron_step(model, offloaded).update_s);
}
