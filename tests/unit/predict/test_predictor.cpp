// SPDX-License-Identifier: Apache-2.0
#include "predict/predictor.hpp"
#include "trainer/trainer_file.hpp"
#include "unit/predict/points.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

TEST_CASE("an unknown family is a fault that lists the known ones") {
  const auto found = find_family("nemo");
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().kind == FaultKind::invalid_input);
  CHECK(found.error().what ==
      "unknown family 'nemo'; there are: megatron, nanotron, shardbench, fsdp");
  for (const auto& family : families())
    CHECK(find_family(family.name).value() == &family);
}

TEST_CASE("a runner belongs to the family that its name begins with") {
  CHECK(family_of_runner("nanotron").name == "nanotron");
  CHECK(family_of_runner("shardbench-cuda").name == "shardbench");
  CHECK(family_of_runner("train.sh").name == "other");
}

TEST_CASE("a trainer's file of a user is a family by the file's name, for whoever names the file") {
  const auto& own = *add_trainer_file("./mine.yaml",
      read_trainer_file("title: Mine\nplanner:\n  like: megatron\n  logits_bytes: 40\n"))
                         .family;
  CHECK(find_family("./mine.yaml").value() == &own);
  CHECK(&family_of_runner("./mine.yaml") == &own);
  RunnerSpec runner;
  runner.name = "mine";
  runner.trainer.words = "./mine.yaml";
  CHECK(&family_of(runner) == &own);
  CHECK_FALSE(is_built_in(own));
  CHECK(own.title == "Mine");
  const Family& megatron = **find_family("megatron");
  CHECK(own.memory.logits_bytes == 40);
  CHECK(own.memory.overhead_bytes == megatron.memory.overhead_bytes);
  CHECK(own.time.update_s == megatron.time.update_s);
  const auto logits = [](const Family& family) {
    Point point = point_of(1, 1, 1, 4096);
    point.nodes = 1;
    return Predictor(h100(), family).guess(small_model(), point).memory.estimate.total();
  };
  CHECK(logits(own) > logits(megatron));
}

TEST_CASE("questions that name no family are about the usual one of their hardware") {
  CHECK(default_family(h100()).name == "megatron");
  CHECK(default_family({}).name == "shardbench");
}

TEST_CASE("a sweep's profile gives shardbench the habits of its trainer") {
  Point point = point_of(1, 1, 1, 4096);
  point.layout.recompute = Recompute::selective;
  const auto bytes = [&](const std::string& profile) {
    RunnerSpec runner;
    runner.profile = profile;
    return Predictor(h100(), family_of(runner)).predict(small_model(), {}, point).memory_bytes;
  };
  CHECK(bytes("own") == bytes("torchtitan"));
  // Norms and the product are kept where the attention core is computed again.
  CHECK(bytes("megatron") > bytes("own"));
  CHECK(bytes("nanotron") == bytes("megatron"));
  RunnerSpec other;
  other.name = "nanotron";
  CHECK(family_of(other).name == "nanotron");
}

TEST_CASE("the kernel column says how attention keeps its probabilities") {
  CHECK(traits_of_kernel("flash_attn2.0.2 + RMS kernel").flash_attention == true);
  CHECK(traits_of_kernel("flash_attn2.0.2 + RMS kernel").fused_norm == true);
  CHECK(traits_of_kernel("torch").flash_attention == false);
  for (const auto* kernel : {"flash_attention", "flash_attention2", "Flash_Attn1.0.8", "sdpa",
           "torch sdpa", "cudnn", "te_fused"}) {
    CAPTURE(kernel);
    CHECK(traits_of_kernel(kernel).flash_attention == true);
  }
  for (const auto* kernel : {"unfused", "local", "eager", "torch + RMS kernel", "math"}) {
    CAPTURE(kernel);
    CHECK(traits_of_kernel(kernel).flash_attention == false);
  }
  // cuDNN's attention in one trainer, a softmax in another; and one that nobody has heard of.
  for (const auto* kernel : {"", "fused", "kernel_of_tomorrow"}) {
    CAPTURE(kernel);
    CHECK_FALSE(traits_of_kernel(kernel).flash_attention.has_value());
  }
  CHECK(traits_of_kernel("torch").fused_norm == false);
  CHECK_FALSE(traits_of_kernel("").fused_norm.has_value());
}

TEST_CASE("what was measured slower than predicted makes the others slower too and surer") {
  Predictor predictor(h100(), *find_family("nanotron").value());
  const auto seen = point_of(8, 1, 1);
  const auto other = point_of(4, 1, 2);
  const auto before = predictor.guess(llama3_8b(), other);
  Observation run{.model = llama3_8b(), .point = seen};
  run.step_s = 2 * predictor.guess(llama3_8b(), seen).step_s;
  auto copy = predictor;
  predictor.learn(run);
  const auto after = predictor.guess(llama3_8b(), other);
  CHECK(after.step_s > 1.1 * before.step_s);
  CHECK(after.step_s < 2 * before.step_s);
  CHECK(after.log_sigma < before.log_sigma);
  run.tokens_per_s_per_gpu = speed_of(run.step_s, seen);
  run.step_s = 0;
  copy.learn(run);
  CHECK(copy.guess(llama3_8b(), other).step_s == doctest::Approx(after.step_s));
}

TEST_CASE("a run that failed says nothing about speed") {
  Predictor predictor(h100(), *find_family("nanotron").value());
  const auto point = point_of(8, 1, 1);
  const auto before = predictor.guess(llama3_8b(), point);
  Observation run{.model = llama3_8b(), .point = point, .outcome = Outcome::oom, .step_s = 1};
  predictor.learn(run);
  CHECK(predictor.guess(llama3_8b(), point).step_s == before.step_s);
}

TEST_CASE("the bounds of memory enclose the estimate and decide the verdict") {
  auto cluster = h100();
  const auto& family = *find_family("shardbench").value();
  const auto point = point_of(8, 1, 1);
  const auto memory = Predictor(cluster, family).guess(llama3_8b(), point).memory;
  CHECK(memory.lower_bytes <= memory.estimate.total());
  CHECK(memory.upper_bytes >= memory.estimate.total());
  const auto fit_of = [&](std::int64_t bytes) {
    cluster.memory_bytes = bytes;
    return Predictor(cluster, family).guess(llama3_8b(), point).memory.fit;
  };
  CHECK(fit_of(memory.lower_bytes - 1) == Fit::never);
  CHECK(fit_of(memory.lower_bytes) == Fit::doubtful);
  CHECK(fit_of(memory.upper_bytes) == Fit::fits);
  CHECK(fit_of(0) == Fit::fits);
}

// Ten runs whose every transfer over TP took twice what the model says, none of it elsewhere:
// another point with TP is predicted slower by about its share of that, one without is not.
TEST_CASE("what is learnt of one part of a step does not move the others") {
  auto cluster = h100();
  const auto& family = **find_family("megatron");
  Predictor predictor(cluster, family);
  cluster.intra_node_efficiency /= 2;
  const Predictor truth(cluster, family);
  auto with_tp = point_of(1, 8, 1);
  with_tp.layout.sequence_parallel = true;
  const auto without = point_of(1, 1, 8);
  const auto gap = [&](const Point& point) {
    return truth.guess(llama3_8b(), point).step_s / predictor.guess(llama3_8b(), point).step_s;
  };
  const double before = gap(with_tp);
  REQUIRE(before > 1.1);
  for (std::int32_t micro_batch = 1; micro_batch <= 16; micro_batch *= 2) {
    for (const std::int32_t tp : {2, 4}) {
      auto point = point_of(8 / tp, tp, 1);
      point.layout.sequence_parallel = true;
      point.layout.micro_batch = micro_batch;
      Observation run{.model = llama3_8b(), .point = point};
      run.step_s = truth.guess(llama3_8b(), point).step_s;
      predictor.learn(run);
    }
  }
  CHECK(gap(with_tp) < 1 + (before - 1) * 2 / 3);
  CHECK(gap(without) == doctest::Approx(1).epsilon(0.05));
}

TEST_CASE("one run that is wildly off counts less than its distance") {
  const auto& family = **find_family("nanotron");
  const auto point = point_of(8, 1, 1);
  const auto after = [&](double factor) {
    Predictor predictor(h100(), family);
    const double before = predictor.guess(llama3_8b(), point).step_s;
    Observation run{.model = llama3_8b(), .point = point};
    run.step_s = factor * before;
    predictor.learn(run);
    return predictor.guess(llama3_8b(), point).step_s / before;
  };
  CHECK(after(1.2) > 1);
  CHECK(after(2) > after(1.2));
  CHECK(after(1000) < after(2) * 1.5);
}

TEST_CASE("a run that nearly fills its device is slow") {
  auto cluster = h100();
  const auto& family = **find_family("nanotron");
  const auto point = point_of(8, 1, 1);
  cluster.memory_bytes = std::int64_t{1} << 50;
  const auto roomy = Predictor(cluster, family).guess(llama3_8b(), point);
  cluster.memory_bytes = roomy.memory.lower_bytes;
  CHECK(Predictor(cluster, family).guess(llama3_8b(), point).step_s ==
      doctest::Approx(4 * roomy.step_s));
  cluster.memory_bytes = roomy.memory.lower_bytes * 10 / 9 + 1;
  CHECK(
      Predictor(cluster, family).guess(llama3_8b(), point).step_s == doctest::Approx(roomy.step_s));
}

TEST_CASE("a reported peak is of the stage that the table names") {
  const Predictor predictor(h100(), **find_family("nanotron"));
  const auto model = llama3_8b();
  const auto point = point_of(2, 2, 4);
  const auto peak = [&](std::optional<std::int32_t> stage) {
    return predictor.reported_peak_bytes(model, point, {.peak_stage = stage});
  };
  const auto& family = (*find_family("nanotron"))->memory;
  for (const std::int32_t stage : {0, 1, 3})
    CHECK(peak(stage) ==
        estimate_stage(model, point, family, {}, stage).total() -
            static_cast<std::int64_t>(family.overhead_bytes));
  CHECK(peak({}) == peak(0));
  CHECK(peak(3) != peak(0));
  CHECK(peak(-1) == std::max(peak(0), peak(3)));
}

TEST_CASE("a search learns from sweeps of its hardware with trainers of its family alone") {
  SweepSpec a;
  a.cluster = h100();
  SweepSpec b = a;
  CHECK(is_kin(a, b));
  b.runner.name = "megatron";
  CHECK_FALSE(is_kin(a, b));
  a.runner.name = "megatron-core";
  CHECK(is_kin(a, b));
  // Of no known family: each is its own.
  a.runner.name = "mine";
  b.runner.name = "yours";
  CHECK_FALSE(is_kin(a, b));
  b.runner.name = "mine";
  CHECK(is_kin(a, b));
  b.cluster.memory_bytes /= 2;
  CHECK_FALSE(is_kin(a, b));
}
