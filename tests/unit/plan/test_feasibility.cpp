// SPDX-License-Identifier: Apache-2.0
#include "plan/feasibility.hpp"
#include "predict/predictor.hpp"
#include "unit/sweep_fixture.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

class FunctionFilter : public PointFilter {
 public:
  explicit FunctionFilter(std::function<int(const Point&)> match) : match_(std::move(match)) {}
  int first_match(const Point& point) override { return match_(point); }

 private:
  std::function<int(const Point&)> match_;
};

// A whole node, dp 8, batch 64: feasible.
GridPoint good() {
  GridPoint at;
  at.point.nodes = 1;
  at.point.gpus = 8;
  at.point.seq_len = 1024;
  at.point.layout.dp = 8;
  at.point.layout.grad_accum = 8;
  return at;
}

SweepSpec sweep_64() {
  auto sweep = sweep_of(small_model(), {});
  sweep.global_batch_samples = 64;
  return sweep;
}

std::string verdict(
    const SweepSpec& sweep, const GridPoint& at, const Capabilities& runner = any_runner()) {
  const auto found = Judge(sweep, runner, nullptr, nullptr).judge(at);
  if (found.feasible) {
    CHECK(found.constraint.empty());
    return "feasible";
  }
  return found.constraint + ": " + found.why;
}

GridPoint changed(const std::function<void(Point&)>& change) {
  auto at = good();
  change(at.point);
  return at;
}

// Layout dp x tp x pp on its own world, batch 64 filled.
GridPoint laid_out(std::int32_t dp, std::int32_t tp, std::int32_t pp) {
  return changed([&](Point& point) {
    point.nodes = dp * tp * pp / 8;
    point.gpus = dp * tp * pp;
    point.layout.dp = dp;
    point.layout.tp = tp;
    point.layout.pp = pp;
    point.layout.grad_accum = 64 / dp;
  });
}

}  // namespace

TEST_CASE("a layout that breaks nothing is feasible") {
  CHECK(verdict(sweep_64(), good()) == "feasible");
  CHECK(verdict(sweep_64(), laid_out(2, 4, 2)) == "feasible");
}

TEST_CASE("a tp beyond the GPUs of a node is slow and not infeasible") {
  auto sweep = sweep_64();
  sweep.models[0].heads = 16;
  sweep.models[0].kv_heads = 16;
  CHECK(verdict(sweep, laid_out(1, 16, 1)) == "feasible");
}

TEST_CASE("each broken constraint is named with its numbers") {
  const auto sweep = sweep_64();
  CHECK(verdict(sweep, changed([](Point& p) { p.nodes = 0, p.gpus = 16; })) ==
      "gpus: gpus 16 is more than the 8 of one node of h100-8x; write nodes: [2] in "
      "place of gpus");
  CHECK(verdict(sweep, changed([](Point& p) { p.nodes = 2; })) ==
      "gpus: 2 nodes with 8 GPUs each are 16 GPUs, but gpus is 8");
  CHECK(verdict(sweep, changed([](Point& p) { p.layout.dp = 4; })) ==
      "world: dp 4 x tp 1 x pp 1 = 4 ranks, but the point has 8 GPUs");
  auto gap = changed([](Point& p) { p.layout.tp = 3, p.layout.dp = 0; });
  gap.gap = Gap::dp;
  CHECK(verdict(sweep, gap) == "world: 8 GPUs cannot be divided by tp 3 x pp 1 = 3");
  CHECK(verdict(sweep, changed([](Point& p) { p.layout.grad_accum = 7; })) ==
      "batch: dp 8 x micro_batch 1 x grad_accum 7 = 56 samples, but the global batch is 64");
  gap = changed([](Point& p) { p.layout.micro_batch = 3, p.layout.grad_accum = 0; });
  gap.gap = Gap::grad_accum;
  CHECK(verdict(sweep, gap) ==
      "batch: a global batch of 64 samples is not a multiple of dp 8 x micro_batch 3 = 24");
  CHECK(verdict(sweep, laid_out(1, 16, 1)) == "heads: tp 16 does not divide the 8 heads of small");
  CHECK(verdict(sweep, laid_out(1, 8, 1)) ==
      "kv_heads: tp 8 does not divide the 4 kv heads of small");
  CHECK(verdict(sweep, laid_out(1, 1, 16)) == "layers: pp 16 is more than the 8 layers of small");
  CHECK(verdict(sweep, changed([](Point& p) { p.layout.sequence_parallel = true; })) ==
      "sequence_parallel: sequence parallelism needs tp above 1");
  auto odd = laid_out(2, 4, 1);
  odd.point.layout.sequence_parallel = true;
  odd.point.seq_len = 1022;
  CHECK(verdict(sweep, odd) ==
      "sequence_parallel: sequence parallelism needs tp 4 to divide seq_len 1022");
}

TEST_CASE("an order that names cp needs ranks that share a sequence") {
  const auto sweep = sweep_64();
  auto at = changed([](Point& p) { p.layout.rank_order = RankOrder::tp_cp_pp_dp; });
  CHECK(verdict(sweep, at) == "rank_order: rank_order tp-cp-pp-dp needs cp above 1");
  at.point.layout.dp /= 2;
  at.point.layout.grad_accum *= 2;
  at.point.layout.cp = 2;
  CHECK(verdict(sweep, at) == "feasible");
}

TEST_CASE("a batch in tokens that seq_len does not divide is named") {
  auto sweep = sweep_64();
  sweep.global_batch_samples.reset();
  sweep.global_batch_tokens = 1048576;
  auto at = changed([](Point& p) { p.seq_len = 3000; });
  at.gap = Gap::samples;
  CHECK(verdict(sweep, at) ==
      "batch: a global batch of 1,048,576 tokens is not a multiple of seq_len 3000");
}

TEST_CASE("shardbench's own rules hold for shardbench alone") {
  auto sweep = sweep_64();
  auto shallow = laid_out(32, 1, 4);
  CHECK(verdict(sweep, shallow) ==
      "grad_accum: grad_accum 2 is less than pp - 1 = 3; the pipeline never fills");
  auto alone = laid_out(1, 4, 2);
  alone.point.layout.zero = 2;
  CHECK(verdict(sweep, alone) == "zero: ZeRO stage 2 needs dp above 1");
  sweep.runner.name = "nanotron";
  CHECK(verdict(sweep, shallow) == "feasible");
  CHECK(verdict(sweep, alone) == "feasible");
}

TEST_CASE("replicas divide dp and shardbench needs shards to copy") {
  auto sweep = sweep_64();
  const auto replicated = [](std::int32_t copies, std::int32_t zero) {
    return changed([&](Point& p) { p.layout.dp_replicate = copies, p.layout.zero = zero; });
  };
  for (const std::int32_t zero : {1, 2, 3})
    CHECK(verdict(sweep, replicated(2, zero)) == "feasible");
  CHECK(verdict(sweep, replicated(3, 1)) == "dp_replicate: dp_replicate 3 does not divide dp 8");
  CHECK(verdict(sweep, replicated(16, 1)) == "dp_replicate: dp_replicate 16 does not divide dp 8");
  CHECK(verdict(sweep, replicated(2, 0)) ==
      "dp_replicate: dp_replicate 2 needs ZeRO 1 to 3, but zero is 0");
  CHECK(verdict(sweep, replicated(8, 1)) ==
      "dp_replicate: dp_replicate 8 with dp 8 leaves one rank per shard group, so nothing is "
      "sharded");
  sweep.runner.name = "torchtitan";
  CHECK(verdict(sweep, replicated(8, 0)) == "feasible");
  CHECK(verdict(sweep, replicated(3, 0)) == "dp_replicate: dp_replicate 3 does not divide dp 8");
}

TEST_CASE("limits.max_nodes leaves larger worlds out") {
  auto sweep = sweep_64();
  sweep.policy.max_nodes = 1;
  CHECK(
      verdict(sweep, laid_out(16, 1, 1)) == "max_nodes: 2 nodes are more than limits.max_nodes, 1");
}

TEST_CASE("what the runner cannot do is infeasible with the runner's reason") {
  auto runner = any_runner();
  runner.dtypes = {"fp32", "fp64"};
  runner.max = {{"tp", 1}, {"dp", std::nullopt}, {"unknown", 1}};
  runner.allowed = {{"recompute", {"none"}}, {"schedule", {"1f1b"}}};
  const auto fp32 = [](const std::function<void(Point&)>& change) {
    return changed([&](Point& point) {
      point.dtype = Dtype::fp32;
      change(point);
    });
  };
  CHECK(verdict(sweep_64(), fp32([](Point&) {}), runner) == "feasible");
  CHECK(verdict(sweep_64(), good(), runner) ==
      "runner:dtype: shardbench-cuda 1.0 supports dtype fp32, fp64; this point has bf16");
  CHECK(verdict(sweep_64(),
            fp32([](Point& p) { p.layout.tp = 2, p.layout.dp = 4, p.layout.grad_accum = 16; }),
            runner) == "runner:tp: shardbench-cuda 1.0 supports tp up to 1; this point has 2");
  CHECK(verdict(sweep_64(), fp32([](Point& p) { p.layout.recompute = Recompute::full; }), runner) ==
      "runner:recompute: shardbench-cuda 1.0 supports recompute none; this point has full");
}

TEST_CASE("the runner's rules come before the excludes and those before memory") {
  auto sweep = sweep_64();
  sweep.cluster.memory_bytes = 1;
  sweep.excludes = {{"a", "", {}}, {"b", "too slow", {}}};
  auto runner = any_runner();
  runner.rules = {{"runner:tp", "tp > hosts", "no TP over sockets"}};
  int rule = 0;
  int exclude = 0;
  FunctionFilter rules([&](const Point&) { return rule; });
  FunctionFilter excludes([&](const Point&) { return exclude; });
  Judge judge(sweep, runner, &excludes, &rules);
  CHECK(judge.judge(good()).constraint == "runner:tp");
  CHECK(judge.judge(good()).why == "no TP over sockets");
  CHECK(judge.asked_excludes() == 0);
  rule = -1;
  CHECK(judge.judge(good()).why == "excluded where a");
  exclude = 1;
  CHECK(judge.judge(good()).why == "too slow (excluded where b)");
  exclude = -1;
  CHECK(judge.judge(good()).constraint == "memory");
  CHECK(judge.asked_excludes() == 3);
  CHECK(judge.removed() == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("memory leaves a point out only where no constant that is in doubt makes it fit") {
  auto sweep = sweep_of(llama3_8b(), {});
  auto at = good();
  at.point.seq_len = 8192;
  // Of shardbench the estimate is exact.
  CHECK(verdict(sweep, at).find("memory: needs at least 17") == 0);
  // Of nanotron a quarter of it may be wrong, and of somebody's program more.
  const Predictor exact(h100(), **find_family("shardbench"));
  for (const auto* runner : {"nanotron", "mine"}) {
    const Predictor doubted(h100(), family_of_runner(runner));
    const auto& model = sweep.models.front();
    CAPTURE(runner);
    CHECK(doubted.certain_memory(model, at.point).total() <
        exact.certain_memory(model, at.point).total());
  }
  // Nanotron has no optimizer that keeps less than Adam in fp32; others have.
  const auto optimizer = [&](const char* runner) {
    const Predictor of(h100(), family_of_runner(runner));
    const auto bytes = of.certain_memory(sweep.models.front(), at.point).bytes;
    return static_cast<double>(bytes[static_cast<std::size_t>(MemoryClass::optimizer)]) /
        static_cast<double>(bytes[static_cast<std::size_t>(MemoryClass::weights)]);
  };
  CHECK(optimizer("nanotron") == doctest::Approx(6));
  for (const auto* runner : {"megatron", "fsdp", "mine"}) {
    CAPTURE(runner);
    CHECK(optimizer(runner) == doctest::Approx(2));
  }
  CHECK(exact.certain_memory(sweep.models.front(), at.point).total() ==
      exact.guess_memory(sweep.models.front(), at.point).estimate.total());
  sweep.cluster.memory_bytes = 0;  // unknown
  CHECK(verdict(sweep, at) == "feasible");
}

namespace {

/// Layers are experts but for the first one.
ModelSpec sparse_model() {
  auto model = small_model();
  model.name = "sparse";
  model.experts = 16;
  model.experts_per_token = 2;
  model.expert_ffn = 256;
  model.dense_layers = 1;
  return model;
}

std::string verdict_of(
    const ModelSpec& model, GridPoint at, const std::function<void(Point&)>& change) {
  auto sweep = sweep_64();
  sweep.models[0] = model;
  sweep.runner.name = "megatron";
  change(at.point);
  return verdict(sweep, at);
}

}  // namespace

TEST_CASE("stages of unequal layers leave equally many to those between") {
  const auto stages = [](std::int32_t first, std::int32_t last, std::int32_t vpp = 1) {
    return verdict_of(small_model(), laid_out(2, 1, 4), [&](Point& p) {
      p.layout.first_stage_layers = first;
      p.layout.last_stage_layers = last;
      p.layout.vpp = vpp;
    });
  };
  CHECK(stages(3, 1) == "feasible");
  CHECK(stages(2, 0) == "feasible");
  CHECK(stages(1, 2) ==
      "stages: first_stage_layers 1 and last_stage_layers 2 leave 5 of the 8 layers of small "
      "to 2 other stages, which need equally many");
  CHECK(stages(4, 4) ==
      "stages: first_stage_layers 4 and last_stage_layers 4 leave 0 of the 8 layers of small "
      "to 2 other stages, which need equally many");
  CHECK(stages(3, 1, 2) == "stages: first_stage_layers 3 is not a multiple of vpp 2");
  CHECK(stages(2, 2, 2) == "feasible");
  // With the embedding and the head six layers are eight, two of each stage.
  auto six = small_model();
  six.layers = 6;
  const auto of_six = [&](std::int32_t first, std::int32_t last) {
    return verdict_of(six, laid_out(2, 1, 4), [&](Point& p) {
      p.layout.first_stage_layers = first;
      p.layout.last_stage_layers = last;
      p.layout.vpp = 2;
    });
  };
  CHECK(of_six(1, 1) == "feasible");
  CHECK(of_six(1, 0) == "layers: pp 4 x vpp 2 is more than the 6 layers of small");
  const auto of_two = [](std::int32_t first, std::int32_t last) {
    return verdict_of(small_model(), laid_out(4, 1, 2), [&](Point& p) {
      p.layout.first_stage_layers = first;
      p.layout.last_stage_layers = last;
    });
  };
  CHECK(of_two(5, 3) == "feasible");
  CHECK(of_two(5, 2) ==
      "stages: first_stage_layers 5 and last_stage_layers 2 leave 1 of the 8 layers of small "
      "to 0 other stages, which can hold none");
  CHECK(verdict_of(small_model(), good(), [](Point& p) { p.layout.first_stage_layers = 4; }) ==
      "stages: first_stage_layers and last_stage_layers need pp above 1");
  CHECK(verdict_of(small_model(), laid_out(2, 1, 4),
            [](Point& p) {
              p.layout.first_stage_layers = 2;
              p.layout.schedule = Schedule::zb_v;
              p.layout.vpp = 2;
            }) ==
      "stages: zb-v puts the first and the last stage on one rank, so first_stage_layers and "
      "last_stage_layers can't be set");
}

TEST_CASE("experts that are split otherwise than the rest spread over the ranks of tp too") {
  const auto experts = [](std::int32_t ep, std::int32_t expert_tp) {
    return verdict_of(sparse_model(), laid_out(2, 4, 1), [&](Point& p) {
      p.layout.ep = ep;
      p.layout.expert_tp = expert_tp;
    });
  };
  CHECK(experts(2, 0) == "feasible");
  CHECK(experts(8, 0) == "experts: ep 8 does not divide dp 2 x cp 1 = 2");
  CHECK(experts(8, 1) == "feasible");
  CHECK(experts(8, 2) == "experts: ep 8 x expert_tp 2 does not divide dp 2 x cp 1 x tp 4 = 8");
  CHECK(experts(1, 8) == "feasible");
  CHECK(experts(1, 3) == "experts: ep 1 x expert_tp 3 does not divide dp 2 x cp 1 x tp 4 = 8");
  CHECK(verdict_of(small_model(), good(), [](Point& p) { p.layout.expert_tp = 1; }) ==
      "experts: expert_tp 1 needs a model with experts, and small has none");
}

TEST_CASE(
    "where Megatron-LM copies key and value heads tp may exceed them, and costs their memory") {
  auto sweep = sweep_64();
  sweep.runner.name.clear();
  sweep.runner.trainer.argv = {"train"};
  const auto at = laid_out(1, 8, 1);
  for (const char* log : {"nanotron", "torchtitan", "gpt-neox"}) {
    sweep.runner.trainer.log = log;
    CHECK(verdict(sweep, at) == "kv_heads: tp 8 does not divide the 4 kv heads of small");
  }
  for (const char* log : {"megatron", "megatron-bridge"}) {
    sweep.runner.trainer.log = log;
    CHECK(verdict(sweep, at) == "feasible");
    const Predictor predictor(sweep.cluster, family_of(sweep.runner));
    auto whole = sweep.models[0];
    whole.kv_heads = 8;
    const auto bytes = [&](const ModelSpec& model) {
      return predictor.certain_memory(model, at.point).total();
    };
    CHECK(bytes(sweep.models[0]) == bytes(whole));
  }
  sweep.models[0].kv_heads = 1;
  CHECK(verdict(sweep, at) == "feasible");
  sweep.models[0].heads = 24;
  sweep.models[0].kv_heads = 3;
  CHECK(verdict(sweep, at) == "kv_heads: tp 8 does not divide the 3 kv heads of small");
}

TEST_CASE("a layout under two labels is one point") {
  auto sweep = sweep_64();
  sweep.models[0] = sparse_model();
  auto at = laid_out(2, 4, 1);
  at.point.layout.expert_tp = 4;
  CHECK(verdict(sweep, at) == "feasible");
  sweep.axes.push_back({find_axis("expert_tp"), false, {0, 4}});
  CHECK(verdict(sweep, at) == "experts: expert_tp 4 with tp 4 is the same layout as expert_tp 0");
  at.point.layout.expert_tp = 0;
  CHECK(verdict(sweep, at) == "feasible");
}

TEST_CASE("modules that a model has not are not computed again") {
  const auto modules = [](const ModelSpec& model, std::string_view word,
                           Dtype dtype = Dtype::bf16) {
    return verdict_of(model, good(), [&](Point& p) {
      const auto* found = std::find(recompute_words.begin(), recompute_words.end(), word);
      REQUIRE(found != recompute_words.end());
      p.layout.recompute = static_cast<Recompute>(found - recompute_words.begin());
      p.dtype = dtype;
    });
  };
  CHECK(modules(small_model(), "layernorm+mlp") == "feasible");
  CHECK(modules(sparse_model(), "layernorm+moe_act") == "feasible");
  CHECK(modules(small_model(), "moe") ==
      "recompute: recompute moe needs a model with experts, and small has none");
  auto all_sparse = sparse_model();
  all_sparse.dense_layers = 0;
  CHECK(modules(all_sparse, "mlp") ==
      "recompute: recompute mlp needs layers without experts, and sparse has none");
  CHECK(modules(small_model(), "mla_up_proj") ==
      "recompute: recompute mla_up_proj needs multi-head latent attention, and small has "
      "none");
  CHECK(modules(small_model(), "layernorm", Dtype::fp8_delayed) ==
      "recompute: recompute layernorm drops values that FP8 with delayed scaling must keep");
}

TEST_CASE("graphs and offload say what they need of the rest") {
  const auto with = [](Recompute recompute, bool graphs, std::int32_t zero, Offload offload) {
    return verdict_of(small_model(), good(), [&](Point& p) {
      p.layout.recompute = recompute;
      p.layout.cuda_graphs = graphs;
      p.layout.zero = zero;
      p.layout.offload = offload;
    });
  };
  CHECK(with(Recompute::selective, true, 0, Offload::none) == "feasible");
  CHECK(with(Recompute::full, true, 0, Offload::none) ==
      "cuda_graphs: CUDA graphs of layers exclude full recompute, which runs the layers again");
  CHECK(with(Recompute::none, false, 1, Offload::optimizer) == "feasible");
  CHECK(with(Recompute::none, false, 0, Offload::optimizer) ==
      "offload: offload optimizer needs ZeRO 1 or more");
  CHECK(
      with(Recompute::none, false, 1, Offload::all) == "offload: offload all needs ZeRO 2 or more");
}

TEST_CASE("shardbench says which models it has not") {
  auto latent = small_model();
  latent.kv_heads = 8;
  latent.head_dim = 32;
  latent.kv_lora_rank = 64;
  latent.qk_rope_head_dim = 16;
  auto sweep = sweep_64();
  sweep.models[0] = latent;
  CHECK(verdict(sweep, good()) ==
      "latent: shardbench has no multi-head latent attention, which small has");
  sweep.models[0] = small_model();
  sweep.models[0].mtp_layers = 1;
  CHECK(verdict(sweep, good()) ==
      "latent: shardbench has no multi-token prediction, which small has");
  sweep.runner.name = "megatron";
  CHECK(verdict(sweep, good()) == "feasible");
}
