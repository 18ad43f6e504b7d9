// SPDX-License-Identifier: Apache-2.0
// Models whose layers are not all as Llama's: what differs, in parameters, FLOPs and memory.
#include "predict/family.hpp"
#include "predict/predictor.hpp"
#include "sweep/model_shape.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

Point on_one_gpu() {
  Point point;
  point.gpus = 1;
  point.seq_len = 4096;
  point.dtype = Dtype::bf16;
  return point;
}

std::string mistake(const ModelSpec& model) {
  const auto found = shape_mistakes(model);
  return found.empty() ? "" : found.front().what;
}

}  // namespace

TEST_CASE("without a gate a third of the feed-forward part is not there: FLOPs, memory, time") {
  const auto gated = llama3_8b();
  auto plain = gated;
  plain.ffn_matrices = 2;
  const auto third = gated.layers * gated.hidden * gated.ffn;
  CHECK(parameters(gated) - parameters(plain) == third);
  CHECK(flops_per_token(gated, 4096) - flops_per_token(plain, 4096) ==
      6 * static_cast<double>(third));
  const Predictor predictor(h100(), **find_family("megatron"));
  const auto with = predictor.guess(gated, on_one_gpu());
  const auto without = predictor.guess(plain, on_one_gpu());
  CHECK(without.step_s < with.step_s);
  CHECK(without.memory.estimate.total() < with.memory.estimate.total());
  // The same width with all of its matrices: two thirds of the width with three.
  auto narrow = gated;
  narrow.ffn = gated.ffn * 2 / 3 / 2 * 2;
  CHECK(without.time.compute_s ==
      doctest::Approx(predictor.guess(narrow, on_one_gpu()).time.compute_s).epsilon(0.001));
}

TEST_CASE("layers without experts lie between those with experts, on each stage") {
  auto all = llama3_8b();
  all.experts = 8;
  all.experts_per_token = 2;
  all.expert_ffn = all.ffn;
  auto half = all;
  half.expert_layers = all.layers / 2;
  const auto expert_part = 3 * all.hidden * all.expert_ffn * all.experts + all.hidden * all.experts;
  CHECK(parameters(all) - parameters(half) ==
      all.layers / 2 * (expert_part - 3 * all.hidden * all.ffn));
  Layout layout;
  layout.pp = 4;
  for (int stage = 0; stage < 4; ++stage)
    CHECK(dense_layers_of_stage(half, layout, StageSplit::even, stage) == 4);
  CHECK(sparse_stage(half, layout, StageSplit::even) == 0);
}

TEST_CASE("a window leaves pairs of tokens out, in the layers that have it") {
  auto model = llama3_8b();
  const double full = flops_per_token(model, 8192);
  model.window = 8192;
  CHECK(flops_per_token(model, 8192) == full);
  model.window = 1024;
  const double windowed = flops_per_token(model, 8192);
  CHECK(windowed < full);
  model.window_layers = model.layers / 2;
  CHECK(flops_per_token(model, 8192) == doctest::Approx((full + windowed) / 2));
}

TEST_CASE("what no formula knows is counted, and neither its memory nor its time is stated") {
  auto hybrid = llama3_8b();
  hybrid.state_layers = 28;
  hybrid.state_width = 8192;
  hybrid.state_keys = 128;
  CHECK(mistake(hybrid).empty());
  CHECK(hybrid.with_attention() == 4);
  CHECK(!hybrid.unpredicted().empty());
  const Predictor predictor(h100(), **find_family("megatron"));
  const auto prediction = predictor.predict(hybrid, {}, on_one_gpu());
  CHECK(prediction.memory_bytes == 0);
  CHECK(prediction.train_step_s == 0);
  CHECK(predictor.certain_memory(hybrid, on_one_gpu()).total() == 0);
  CHECK(predictor.guess_memory(hybrid, on_one_gpu()).fit == Fit::fits);
}

TEST_CASE("numbers of kinds that do not belong together") {
  const auto with = [](std::int64_t ModelSpec::*member, std::int64_t value) {
    auto model = llama3_8b();
    model.*member = value;
    return mistake(model);
  };
  CHECK(with(&ModelSpec::ffn_matrices, 3).find("write 2") != std::string::npos);
  CHECK(with(&ModelSpec::expert_layers, 4).find("needs 'experts'") != std::string::npos);
  CHECK(with(&ModelSpec::window_layers, 4).find("needs 'window'") != std::string::npos);
  CHECK(with(&ModelSpec::state_layers, 4).find("needs 'state_width'") != std::string::npos);
  CHECK(with(&ModelSpec::state_width, 4).find("needs 'state_layers'") != std::string::npos);
  CHECK(with(&ModelSpec::ffn_layers, 33).find("more than 'layers'") != std::string::npos);
}
