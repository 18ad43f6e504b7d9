// SPDX-License-Identifier: Apache-2.0
#include "trainer/configuration.hpp"

#include <shardsweep/point.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <tuple>

using namespace shardsweep;

namespace {

std::string words(const TrainerLayout& one) {
  std::string more;
  if (one.expert_tp > 0) more += fmt::format(" etp{}", one.expert_tp);
  if (one.first_stage_layers > 0) more += fmt::format(" first{}", one.first_stage_layers);
  if (one.last_stage_layers > 0) more += fmt::format(" last{}", one.last_stage_layers);
  if (one.cuda_graphs) more += " graphs";
  if (one.offload != "none") more += " offload-" + one.offload;
  return fmt::format("dp{}/{} tp{} pp{} cp{} ep{} vpp{} mb{} ga{} z{} seq{} {} {} {} {}{}{}",
      one.dp, one.dp_replicate, one.tp, one.pp, one.cp, one.ep, one.vpp, one.micro_batch,
      one.grad_accum, one.zero, one.seq_len, one.recompute, one.schedule, one.cp_mode,
      one.rank_order, one.sequence_parallel ? " sp" : "", more);
}

std::string written(std::string_view trainer, const TrainerLayout& layout) {
  const auto text = configuration_of(trainer, layout);
  return text ? *text : text.error().what;
}

/// Axes that a trainer's configuration does not have, as it takes them for granted.
TrainerLayout as_told(std::string_view trainer, TrainerLayout layout) {
  if (word_of_axis(trainer, "seq_len").empty()) layout.seq_len = 0;
  // One stage has no schedule; two trainers are told one all the same.
  if (layout.pp == 1 && trainer != "nanotron" && trainer != "picotron") layout.schedule = "1f1b";
  if (layout.tp == 1) layout.sequence_parallel = false;
  return layout;
}

class Draw {
 public:
  TrainerLayout layout() {
    TrainerLayout one;
    one.dp = power();
    one.tp = power();
    one.pp = power();
    one.cp = among(4) == 0 ? power() : 1;
    one.ep = among(4) == 0 ? power() : 1;
    one.micro_batch = 1 + among(9);
    one.grad_accum = 1 + among(32);
    one.seq_len = among(5) == 0 ? 0 : 1024 * power();
    one.zero = among(4);
    if (among(4) == 0) one.dp_replicate = std::min(one.dp, power());
    constexpr std::array words{"none", "selective", "full"};
    one.recompute = words.at(static_cast<std::size_t>(among(3)));
    if (among(8) == 0)
      one.recompute = recompute_words.at(static_cast<std::size_t>(among(recompute_words.size())));
    one.schedule = among(4) == 0 ? "afab" : "1f1b";
    draw_pipeline_and_context(one);
    one.sequence_parallel = among(2) == 0;
    draw_todays(one);
    return one;
  }

 private:
  void draw_todays(TrainerLayout& one) {
    if (among(6) == 0) one.expert_tp = power();
    if (one.expert_tp == one.tp) one.expert_tp = 0;
    if (one.pp > 1 && among(8) == 0) one.first_stage_layers = 1 + among(8);
    if (one.pp > 1 && among(8) == 0) one.last_stage_layers = 1 + among(8);
    one.cuda_graphs = among(8) == 0;
    if (among(6) == 0)
      one.offload = offload_words.at(static_cast<std::size_t>(among(offload_words.size())));
  }
  void draw_pipeline_and_context(TrainerLayout& one) {
    if (one.pp > 1 && among(4) == 0) one.vpp = 2 + among(3);
    if (one.pp > 1 && among(8) == 0) {
      one.vpp = 2;
      one.schedule = "zb-v";
    }
    if (one.cp > 1 && among(2) == 0) one.cp_mode = "ulysses";
    constexpr std::array orders{"tp-pp-dp", "dp-tp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp"};
    if (among(4) == 0) one.rank_order = orders.at(static_cast<std::size_t>(among(4)));
    const bool names_cp = one.rank_order.find("cp") != std::string::npos;
    if (one.cp == 1 ? names_cp : one.pp == 1) one.rank_order = "tp-dp-pp";
    if (one.pp == 1 && one.rank_order == "tp-pp-dp") one.rank_order = "tp-dp-pp";
  }
  std::int64_t among(std::uint64_t count) { return static_cast<std::int64_t>(random_() % count); }
  std::int64_t power() { return std::int64_t{1} << among(4); }
  std::mt19937_64 random_{16};
};

/// A writer's text in the eyes of a reader.
bool is_read(const std::string& text, std::string_view writer, const TrainerLayout& layout,
    std::string_view reader) {
  CAPTURE(text);
  CAPTURE(reader);
  const auto back = layout_of(reader, text, layout.gpus());
  if (!back) {
    CHECK(reader != writer);
  } else if (reader == writer) {
    CHECK(words(*back) == words(as_told(writer, layout)));
  } else {
    CHECK(std::tuple(back->tp, back->pp, back->cp, back->ep) ==
        std::tuple(layout.tp, layout.pp, layout.cp, layout.ep));
  }
  return back.has_value();
}

}  // namespace

TEST_CASE("a layout comes back from each trainer's own words") {
  for (const auto trainer : configurable_trainers()) {
    CAPTURE(trainer);
    Draw draw;
    int came_back = 0;
    for (int i = 0; i < 400'000 && came_back < 1000; ++i) {
      const TrainerLayout layout = draw.layout();
      const auto text = configuration_of(trainer, layout);
      if (!text) continue;
      CAPTURE(*text);
      const auto back = layout_of(trainer, *text, layout.gpus());
      REQUIRE(back);
      CHECK(words(*back) == words(as_told(trainer, layout)));
      ++came_back;
    }
    CHECK(came_back == 1000);
  }
}

/// 5,000 layouts by each writer: what it does not write it refuses, with an axis that the
/// layout has. Read by every reader: what is no text of its trainer is refused, or has the same
/// degrees.
TEST_CASE("no layout comes back as another one, whoever writes and whoever reads") {
  std::map<std::string, int> counts;
  for (const auto writer : configurable_trainers()) {
    CAPTURE(writer);
    Draw draw;
    for (int i = 0; i < 5000; ++i) {
      const TrainerLayout layout = draw.layout();
      const auto text = configuration_of(writer, layout);
      if (!text) {
        ++counts["not written"];
        CHECK(text.error().what.starts_with(fmt::format("{} has no setting for ", writer)));
        continue;
      }
      for (const auto reader : configurable_trainers())
        ++counts[is_read(*text, writer, layout, reader) ? "read" : "not read"];
    }
  }
  MESSAGE(counts["read"], " read, ", counts["not read"], " not read, ", counts["not written"],
      " not written");
}

TEST_CASE("megatron's flags") {
  const TrainerLayout layout{.dp = 4,
      .tp = 8,
      .pp = 2,
      .micro_batch = 2,
      .grad_accum = 16,
      .seq_len = 4096,
      .zero = 1,
      .recompute = "selective",
      .sequence_parallel = true};
  CHECK(written("megatron", layout) ==
      "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 "
      "--context-parallel-size 1 --expert-model-parallel-size 1 --micro-batch-size 2 "
      "--global-batch-size 128 --seq-length 4096 --sequence-parallel "
      "--use-distributed-optimizer --recompute-granularity selective --overlap-grad-reduce "
      "--overlap-param-gather\n");
}

TEST_CASE("a layout without words in a trainer names the axis") {
  CHECK(written("nanotron", {.zero = 3}) == "nanotron has no setting for zero 3");
  CHECK(written("torchtitan", {.zero = 1}) == "torchtitan has no setting for zero 1");
  CHECK(written("deepspeed", {.pp = 2}) == "deepspeed has no setting for pp 2");
  CHECK(written("picotron", {.recompute = "full"}) == "picotron has no setting for recompute full");
  CHECK(written("verl", {}) ==
      "no configuration of 'verl' can be written; the trainers are axolotl, deepspeed, gpt-neox, "
      "hf-trainer, llm-foundry, maxtext, megatron, megatron-bridge, ms-swift, nanotron, olmo-core, "
      "picotron, "
      "primus, torchtitan");
}

TEST_CASE("stages of a rank, shared sequences and the order of ranks have Megatron's words") {
  TrainerLayout layout{.dp = 2,
      .tp = 2,
      .pp = 2,
      .cp = 2,
      .vpp = 4,
      .grad_accum = 8,
      .cp_mode = "ulysses",
      .rank_order = "tp-cp-pp-dp"};
  CHECK(written("megatron", layout)
            .find(" --num-virtual-stages-per-pipeline-rank 4 "
                  "--cp-comm-type a2a --use-tp-pp-dp-mapping ") != std::string::npos);
  CHECK(written("megatron-bridge", layout)
            .find(" model.virtual_pipeline_model_parallel_size=4 model.cp_comm_type=a2a "
                  "dist.use_tp_pp_dp_mapping=true") != std::string::npos);
  layout.zero = 2;
  CHECK(written("megatron", layout) == "megatron has no setting for rank_order tp-cp-pp-dp");
  layout.zero = 0;
  layout.rank_order = "tp-pp-dp";
  CHECK(written("megatron", layout) == "megatron has no setting for rank_order tp-pp-dp");
  layout.cp = 1;
  layout.cp_mode = "ring";
  CHECK(written("megatron", layout).find(" --use-tp-pp-dp-mapping") != std::string::npos);
  CHECK(written("nanotron", layout) == "nanotron has no setting for vpp 4");
  layout.vpp = 1;
  CHECK(written("gpt-neox", layout) == "gpt-neox has no setting for rank_order tp-pp-dp");
}

TEST_CASE(
    "experts split otherwise, uneven stages, graphs, offload and modules in Megatron's words") {
  TrainerLayout layout{.dp = 8,
      .tp = 4,
      .pp = 8,
      .ep = 8,
      .zero = 1,
      .layers = 61,
      .experts = 256,
      .expert_tp = 1,
      .first_stage_layers = 7,
      .last_stage_layers = 6,
      .recompute = "mla_up_proj+layernorm+moe_act",
      .sequence_parallel = true,
      .offload = "optimizer",
      .cuda_graphs = true};
  CHECK(written("megatron", layout)
            .find(" --recompute-granularity selective --recompute-modules mla_up_proj layernorm "
                  "moe_act --expert-tensor-parallel-size 1 "
                  "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 6 "
                  "--cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router "
                  "--optimizer-cpu-offload --use-precision-aware-optimizer ") != std::string::npos);
  CHECK(written("megatron-bridge", layout)
            .find(" model.recompute_granularity=selective "
                  "model.recompute_method=null model.recompute_num_layers=null "
                  "model.recompute_modules=[mla_up_proj,layernorm,moe_act] "
                  "model.expert_tensor_parallel_size=1 "
                  "model.num_layers_in_first_pipeline_stage=7 "
                  "model.num_layers_in_last_pipeline_stage=6 "
                  "model.cuda_graph_impl=transformer_engine "
                  "model.cuda_graph_modules=[attn,moe_router] "
                  "optimizer.optimizer_cpu_offload=true "
                  "optimizer.use_precision_aware_optimizer=true ") != std::string::npos);
  layout.experts = 0;
  CHECK(written("megatron", layout).find(" --cuda-graph-impl local ") != std::string::npos);
  layout.zero = 0;
  CHECK(written("megatron", layout) == "megatron has no setting for offload optimizer with zero 0");
  CHECK(written("nanotron", {.recompute = "moe"}) == "nanotron has no setting for recompute moe");
  CHECK(written("gpt-neox", {.offload = "all"}) == "gpt-neox has no setting for offload all");
}

TEST_CASE("equal virtual stages count the embedding and the head as Megatron's layers") {
  TrainerLayout layout{
      .pp = 16, .vpp = 4, .layers = 126, .first_stage_layers = 7, .last_stage_layers = 7};
  const std::string both =
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split ";
  CHECK(written("megatron", layout).find(both) != std::string::npos);
  const auto read = [](std::string_view flags, std::int64_t pp) {
    return layout_of("megatron",
        fmt::format("--micro-batch-size 1 --num-layers 126 --pipeline-model-parallel-size {} {}",
            pp, flags),
        16);
  };
  const auto back = read(both + "--num-virtual-stages-per-pipeline-rank 4", 16);
  REQUIRE(back);
  CHECK(words(*back).find(" vpp4 ") != std::string::npos);
  CHECK(std::pair(back->first_stage_layers, back->last_stage_layers) == std::pair(7L, 7L));
  const auto per_stage = read(both + "--num-layers-per-virtual-pipeline-stage 2", 16);
  REQUIRE(per_stage);
  CHECK(per_stage->vpp == 4);
  CHECK_FALSE(read("--account-for-loss-in-pipeline-split", 16));
  // Two words for what else is another layout have none.
  layout.last_stage_layers = 3;
  CHECK(written("megatron", layout) ==
      "megatron has no setting for first_stage_layers 7 of layers 126");
}

TEST_CASE("what Megatron's lists of modules and graphs mean") {
  const auto read = [](std::string_view flags) {
    const auto layout = layout_of("megatron", fmt::format("--micro-batch-size 1 {}", flags), 8);
    if (!layout) return layout.error().what;
    return layout->recompute + (layout->cuda_graphs ? " graphs" : "");
  };
  constexpr std::string_view selective = "--recompute-granularity selective";
  CHECK(read(fmt::format("{} --recompute-modules moe_act layernorm --bf16", selective)) ==
      "layernorm+moe_act");
  CHECK(read(fmt::format("{} --recompute-modules core_attn", selective)) == "selective");
  CHECK(read(fmt::format("{} --recompute-modules core_attn mlp", selective)) == "mlp");
  CHECK(read(fmt::format("{} --recompute-modules mlp mhc", selective))
            .starts_with("--recompute-modules: no value of recompute means mhc mlp together; its "
                         "values are layernorm, mlp, "));
  CHECK(read("--recompute-granularity moe") ==
      "--recompute-granularity: 'moe' is none of full, selective");
  CHECK(read("--cuda-graph-impl local") == "none graphs");
  CHECK(read("--enable-cuda-graph") == "none graphs");
  CHECK(read("--cuda-graph-impl none") == "none");
  CHECK(read("--cuda-graph-impl full_iteration") ==
      "--cuda-graph-impl full_iteration makes one graph of a whole train step, and the axis "
      "cuda_graphs means graphs of layers");
}

TEST_CASE("torchtitan is told that stages are even, or by how much they are not") {
  const auto less = [](const TrainerLayout& layout) {
    const auto text = written("torchtitan", layout);
    const auto at = text.find("pipeline_parallel_first_stage_less_layers = ");
    return at == std::string::npos ? text : text.substr(at, text.find("[activation") - at);
  };
  // Unless it is told, the first and the last stage have one layer less.
  CHECK(less({.pp = 4, .grad_accum = 8, .layers = 32}) ==
      "pipeline_parallel_first_stage_less_layers = 0\n"
      "pipeline_parallel_last_stage_less_layers = 0\n");
  CHECK(less({.pp = 4,
            .grad_accum = 8,
            .layers = 30,
            .first_stage_layers = 7,
            .last_stage_layers = 7}) ==
      "pipeline_parallel_first_stage_less_layers = 1\n"
      "pipeline_parallel_last_stage_less_layers = 1\n");
  CHECK(less({.pp = 2,
            .grad_accum = 8,
            .layers = 31,
            .first_stage_layers = 16,
            .last_stage_layers = 15}) ==
      "pipeline_parallel_first_stage_less_layers = 0\n"
      "pipeline_parallel_last_stage_less_layers = 1\n");
  CHECK(less({.pp = 4, .grad_accum = 8, .layers = 32, .first_stage_layers = 14}) ==
      "torchtitan has no setting for first_stage_layers 14 of layers 32");
}

TEST_CASE("experts of torchtitan are whole beside tp, as it spreads them over its ranks") {
  TrainerLayout layout{
      .dp = 4, .tp = 2, .ep = 8, .grad_accum = 1, .zero = 3, .sequence_parallel = true};
  CHECK(written("torchtitan", layout) ==
      "torchtitan has no setting for expert_tp 0 with ep 8 and tp 2");
  layout.expert_tp = 1;
  CHECK(written("torchtitan", layout).find("expert_parallel_degree = 8") != std::string::npos);
  layout.offload = "all";
  CHECK(written("torchtitan", layout).find("enable_cpu_offload = true") != std::string::npos);
  layout.offload = "optimizer";
  CHECK(written("torchtitan", layout) ==
      "torchtitan has no setting for offload optimizer with zero 3");
}

TEST_CASE("DeepSpeed's offload: the optimizer's state, or parameters too") {
  const auto read = [](std::string_view zero) {
    const auto layout = layout_of("deepspeed",
        fmt::format(
            R"({{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {{{}}}}})", zero),
        8);
    return layout ? layout->offload : layout.error().what;
  };
  CHECK(read(R"("stage": 2, "offload_optimizer": {"device": "cpu"})") == "optimizer");
  CHECK(read(R"("stage": 3, "offload_param": {"device": "cpu"})") == "all");
  CHECK(read(R"("stage": 2, "offload_optimizer": {"device": "none"})") == "none");
  CHECK(read(R"("stage": 3, "offload_optimizer": {"device": "nvme"})") ==
      "offload_optimizer.device: 'nvme' is none of none, cpu");
  CHECK(written("deepspeed", {.zero = 2, .offload = "all"}) ==
      "deepspeed has no setting for offload all with zero 2");
}

TEST_CASE("torchtitan's schedules with two stages for each rank") {
  TrainerLayout layout{.dp = 2, .pp = 2, .vpp = 2, .grad_accum = 4};
  CHECK(written("torchtitan", layout).find("pipeline_parallel_schedule = \"Interleaved1F1B\"") !=
      std::string::npos);
  layout.schedule = "zb-v";
  CHECK(written("torchtitan", layout).find("pipeline_parallel_schedule = \"ZBVZeroBubble\"") !=
      std::string::npos);
  layout.vpp = 1;
  layout.schedule = "zb-h1";
  CHECK(written("torchtitan", layout) == "torchtitan has no setting for schedule zb-h1");
  layout.vpp = 4;
  layout.schedule = "1f1b";
  CHECK(written("torchtitan", layout) == "torchtitan has no setting for vpp 4");
}

TEST_CASE("stages of a rank are read from the layers of each") {
  const auto vpp = [](std::string_view flags) {
    const auto read = layout_of("megatron", flags, 8);
    return read ? std::to_string(read->vpp) : read.error().what;
  };
  CHECK(vpp("--pipeline-model-parallel-size 4 --num-layers 32 "
            "--num-layers-per-virtual-pipeline-stage 2") == "4");
  CHECK(vpp("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2") ==
      "--num-layers-per-virtual-pipeline-stage alone says no number of stages; add "
      "--num-layers");
  CHECK(vpp("--pipeline-model-parallel-size 4 --num-layers 30 "
            "--num-layers-per-virtual-pipeline-stage 2") ==
      "30 layers, with the embedding and the head if they count, are no multiple of pp 4 x 2");
}

TEST_CASE("a present configuration is read with all else that stands in it") {
  const auto megatron = layout_of("megatron",
      "torchrun pretrain_gpt.py \\\n --tensor-model-parallel-size=4 --lr 3e-4 \\\n"
      " --micro-batch-size 2 --global-batch-size '64' --sequence-parallel --bf16\n",
      16);
  REQUIRE(megatron);
  CHECK(*megatron ==
      TrainerLayout{
          .dp = 4, .tp = 4, .micro_batch = 2, .grad_accum = 8, .sequence_parallel = true});
  const auto titan = layout_of("torchtitan",
      "[training]\nlocal_batch_size = 2 # samples\nseq_len = 8192\n"
      "[parallelism]\ndata_parallel_shard_degree = -1\n"
      "tensor_parallel_degree = 2\n",
      16);
  REQUIRE(titan);
  CHECK(
      words(*titan) == "dp8/1 tp2 pp1 cp1 ep1 vpp1 mb2 ga1 z3 seq8192 none 1f1b ring tp-dp-pp sp");
}

namespace {

/// What a present command line is read as, on 8 GPUs: the axes that matter here, or why not.
struct Present {
  std::string_view trainer, text, read;
};
const std::vector<Present> present_lines{
    // What stands behind # is no setting; a # within a word is a part of it.
    {"megatron", "--tensor-model-parallel-size 2 \\\n  # --tensor-model-parallel-size 8 \\\n",
        "tp2 z0 none"},
    {"megatron", "#--use-distributed-optimizer\n--tensor-model-parallel-size 4 # --bf16\n",
        "tp4 z0 none"},
    {"megatron", "--save run#1 --use-distributed-optimizer", "tp1 z1 none"},
    {"megatron-bridge", "model.tensor_model_parallel_size=2\n# model.tensor_model_parallel_size=8",
        "tp2 z0 none"},
    {"megatron", "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads",
        "tp1 z2 none"},
    {"megatron", "--use-megatron-fsdp",
        "--use-megatron-fsdp alone says no stage of ZeRO; add --data-parallel-sharding-strategy"},
    {"megatron", "--use-torch-fsdp2", "tp1 z3 none"},
    {"megatron", "--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "tp1 z2 none"},
    {"megatron-bridge", "dist.use_megatron_fsdp=true",
        "dist.use_megatron_fsdp alone says no stage of ZeRO; add "
        "ddp.data_parallel_sharding_strategy"},
    {"megatron-bridge", "dist.use_megatron_fsdp=false", "tp1 z0 none"},
    {"megatron-bridge", "dist.use_torch_fsdp2=true", "tp1 z3 none"},
    {"megatron", "--recompute-granularity full --recompute-method uniform", "tp1 z0 full"},
    {"megatron", "--recompute-granularity full --recompute-method block --recompute-num-layers 4",
        "--recompute-method block with 4 layers of each stage is neither full recompute nor none"},
    {"megatron",
        "--num-layers 32 --pipeline-model-parallel-size 4 --recompute-granularity full "
        "--recompute-method block --recompute-num-layers 8",
        "tp1 z0 full"},
    {"megatron",
        "--num-layers 32 --pipeline-model-parallel-size 4 --recompute-granularity full "
        "--recompute-method block --recompute-num-layers 7",
        "--recompute-method block with 7 layers of each stage is neither full recompute nor none"},
    {"megatron", "--recompute-granularity full --recompute-method block --recompute-num-layers 0",
        "tp1 z0 none"},
    {"megatron-bridge",
        "model.recompute_granularity=full model.recompute_method=block "
        "model.recompute_num_layers=2",
        "model.recompute_method block with 2 layers of each stage is neither full recompute nor "
        "none"},
    {"megatron-bridge", "model.recompute_granularity=null model.recompute_method=null",
        "tp1 z0 none"},
};

}  // namespace

TEST_CASE("a present command line is read as what it does, or refused") {
  for (const Present& one : present_lines) {
    CAPTURE(one.text);
    const auto read = layout_of(one.trainer, one.text, 8);
    CHECK((read ? fmt::format("tp{} z{} {}", read->tp, read->zero, read->recompute)
                : read.error().what) == one.read);
  }
}

TEST_CASE("settings are read where they belong, in either spelling") {
  const auto read = [](std::string_view trainer, std::string_view text) {
    const auto layout = layout_of(trainer, text, 16);
    return layout ? fmt::format("dp{} tp{} pp{} mb{} ga{}", layout->dp, layout->tp, layout->pp,
                        layout->micro_batch, layout->grad_accum)
                  : layout.error().what;
  };
  // The evaluation beside it has a layout of its own.
  CHECK(read("nanotron",
            "parallelism:\n  dp: 4\n  tp: 2\n  pp: 2\n"
            "lighteval:\n  batch_size: 16\n\n  parallelism:\n    dp: 1\n    tp: 1\n    pp: 1\n"
            "tokens:\n  micro_batch_size: 3\n") == "dp4 tp2 pp2 mb3 ga1");
  CHECK(read("gpt-neox",
            "\"pipe-parallel-size\": 2,\n\"model-parallel-size\": 4,\n"
            "\"train-micro-batch-size-per-gpu\": 8,\n\"gradient-accumulation-steps\": 2\n") ==
      "dp2 tp4 pp2 mb8 ga2");
  CHECK(read("deepspeed", "\"train_batch_size\": 256,\n\"gradient_accumulation_steps\": 4,\n") ==
      "dp16 tp1 pp1 mb4 ga4");
  CHECK(read("deepspeed", "\"train_batch_size\": 100,\n\"gradient_accumulation_steps\": 4,\n") ==
      "100 samples per train step do not divide into dp 16 x 4 accumulation steps");
  CHECK(read("deepspeed", "\"train_batch_size\": 256,\n") == "dp16 tp1 pp1 mb16 ga1");
}

TEST_CASE("a configuration that can't be is refused with its numbers") {
  const auto why = [](std::string_view trainer, std::string_view text, std::int64_t gpus) {
    const auto read = layout_of(trainer, text, gpus);
    return read ? std::string() : read.error().what;
  };
  CHECK(why("megatron", "--tensor-model-parallel-size 8", 0) ==
      "how many GPUs? dp is derived from their number");
  CHECK(why("megatron", "--tensor-model-parallel-size 8", 12) ==
      "12 GPUs can't be divided into tp 8 x pp 1 x cp 1");
  CHECK(why("megatron", "--micro-batch-size 3 --global-batch-size 16", 4) ==
      "16 samples per train step do not divide into dp 4 x micro-batch 3");
  CHECK(why("nanotron", "  tp: many\n", 4) == "tp is a whole number from 1 to 1048576, not 'many'");
  const std::string large = ": 1048576\n";
  CHECK(
      why("nanotron", "dp" + large + "tp" + large + "pp" + large + "context_parallel_size" + large,
          4) == "1048576 x 1048576 x 1048576 x 1048576 is more than any run has");
  CHECK(why("megatron", "--global-batch-size 1e99", 4) ==
      "--global-batch-size: '1e99' is not a whole number");
  CHECK(why("nanotron", "  tp: 0\n", 4) == "tp is a whole number from 1 to 1048576, not '0'");
  CHECK(why("megatron", "--context-parallel-size 2 --cp-comm-type allgather", 4) ==
      "--cp-comm-type: 'allgather' is none of p2p, a2a");
  const std::string piped = "pipeline_parallel_degree = 2\npipeline_parallel_schedule = ";
  CHECK(why("torchtitan", piped + "\"LoopedBFS\"\n", 4) ==
      "pipeline_parallel_schedule: 'LoopedBFS' is none of 1F1B, GPipe, Interleaved1F1B, "
      "ZBVZeroBubble");
  CHECK(
      why("torchtitan", piped + "\"Interleaved1F1B\"\npipeline_parallel_layers_per_stage = 4\n", 4)
          .starts_with("pipeline_parallel_layers_per_stage: the model's layers"));
  CHECK(why("megatron", "--data-parallel-sharding-strategy all", 4) ==
      "--data-parallel-sharding-strategy: 'all' is none of no_shard, optim, optim_grads, "
      "optim_grads_params");
}

TEST_CASE("megatron-bridge's overrides, and what else stands on its command line") {
  const TrainerLayout layout{.dp = 4, .tp = 2, .micro_batch = 2, .grad_accum = 8, .zero = 3};
  CHECK(written("megatron-bridge", layout) ==
      "model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=1 "
      "model.context_parallel_size=1 model.expert_model_parallel_size=1 "
      "train.micro_batch_size=2 train.global_batch_size=64 model.sequence_parallel=false "
      "ddp.use_distributed_optimizer=false dist.use_megatron_fsdp=true "
      "ddp.data_parallel_sharding_strategy=optim_grads_params "
      "checkpoint.ckpt_format=fsdp_dtensor "
      "model.recompute_granularity=null model.recompute_method=null "
      "model.recompute_num_layers=null ddp.overlap_grad_reduce=true "
      "ddp.overlap_param_gather=true\n");
  const auto read = layout_of("megatron-bridge",
      "./train.sh --recipe llama3_8b ++model.tensor_model_parallel_size=4 "
      "train.micro_batch_size=1 train.global_batch_size=32 optimizer.lr=3e-4",
      16);
  REQUIRE(read);
  CHECK(words(*read) == "dp4/1 tp4 pp1 cp1 ep1 vpp1 mb1 ga8 z0 seq0 none 1f1b ring tp-dp-pp");
}

TEST_CASE("megatron-bridge's dataset owns the length of a sample") {
  CHECK(written("megatron-bridge", {.seq_len = 8192})
            .find(" model.seq_length=8192 dataset.seq_length=8192 ") != std::string::npos);
  const auto length = [](std::string_view words) {
    const auto read = layout_of("megatron-bridge", words, 1);
    REQUIRE(read);
    return read->seq_len;
  };
  CHECK(length("model.seq_length=8192 dataset.seq_length=4096") == 4096);
  CHECK(length("dataset.seq_length=4096") == 4096);
  CHECK(length("model.seq_length=8192 dataset.sequence_length=4096") == 4096);
  const auto alone = layout_of("megatron-bridge", "model.seq_length=8192", 1);
  REQUIRE_FALSE(alone);
  CHECK(alone.error().what.find("model.seq_length alone tells no length") == 0);
}

TEST_CASE("no axis is dropped in silence") {
  const TrainerLayout experts{.dp = 4, .ep = 2};
  for (const auto* trainer : {"deepspeed", "gpt-neox", "picotron", "llm-foundry"})
    CHECK(written(trainer, experts) == fmt::format("{} has no setting for ep 2", trainer));
  const TrainerLayout split{.dp = 2, .tp = 2, .sequence_parallel = true};
  for (const auto* trainer : {"deepspeed", "picotron", "llm-foundry"})
    CHECK(written(trainer, split) ==
        fmt::format("{} has no setting for sequence_parallel true", trainer));
  // Its tensor parallelism always splits the sequence too.
  CHECK(written("torchtitan", {.dp = 2, .tp = 2, .zero = 3}) ==
      "torchtitan has no setting for sequence_parallel false with tp 2");
  CHECK(written("torchtitan", {.dp = 2, .tp = 2, .zero = 3, .sequence_parallel = true})
            .starts_with("[training]"));
  const auto titan =
      layout_of("torchtitan", "tensor_parallel_degree = 2\nlocal_batch_size = 1\n", 2);
  REQUIRE(titan);
  CHECK(titan->sequence_parallel);
}

TEST_CASE("both Megatrons are told the format of checkpoints that their FSDP asserts") {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    const auto flags = written("megatron", {.dp = 4, .zero = zero});
    CHECK((flags.find("--ckpt-format fsdp_dtensor") != std::string::npos) == (zero > 1));
    const auto words = written("megatron-bridge", {.dp = 4, .zero = zero});
    CHECK((words.find("checkpoint.ckpt_format=fsdp_dtensor") != std::string::npos) == (zero > 1));
  }
}

TEST_CASE("stages of a rank need a pipeline") {
  const TrainerLayout layout{.dp = 2, .pp = 1, .vpp = 2};
  for (const auto* trainer : {"megatron", "megatron-bridge", "torchtitan"})
    CHECK(
        written(trainer, layout) == fmt::format("{} has no setting for vpp 2 with pp 1", trainer));
}

TEST_CASE("overlap has Megatron's words, by what is sharded") {
  struct Overlap {
    bool overlap;
    std::int64_t zero;
    std::string_view megatron, bridge;  ///< how they end
  };
  const std::vector<Overlap> all{
      {true, 0, " 1 --overlap-grad-reduce\n",
          " ddp.overlap_grad_reduce=true ddp.overlap_param_gather=false\n"},
      {true, 1, " --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather\n",
          " ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true\n"},
      {true, 3, " fsdp_dtensor --overlap-grad-reduce --overlap-param-gather\n",
          " ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true\n"},
      {false, 0, "--global-batch-size 1\n",
          " ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false\n"},
      {false, 1, " --use-distributed-optimizer\n",
          " ddp.overlap_grad_reduce=false ddp.overlap_param_gather=false\n"}};
  for (const Overlap& one : all) {
    TrainerLayout layout{.zero = one.zero};
    layout.overlap = one.overlap;
    CHECK(written("megatron", layout).ends_with(one.megatron));
    CHECK(written("megatron-bridge", layout).ends_with(one.bridge));
    if (!one.overlap)
      CHECK(written("gpt-neox", layout) == "gpt-neox has no setting for overlap false");
  }
}

TEST_CASE("gpt-neox shards gradients and weights only without its pipeline engine") {
  CHECK(written("gpt-neox", {.zero = 1}).starts_with("pipe_parallel_size: 1\n"));
  CHECK(written("gpt-neox", {.zero = 2}).starts_with("pipe_parallel_size: 0\n"));
  CHECK(written("gpt-neox", {.zero = 3}).starts_with("pipe_parallel_size: 0\n"));
  CHECK(
      written("gpt-neox", {.pp = 2, .zero = 2}) == "gpt-neox has no setting for zero 2 with pp 2");
  const auto read = layout_of("gpt-neox", "pipe_parallel_size: 0\nstage: 3\n", 4);
  REQUIRE(read);
  CHECK(read->pp == 1);
  CHECK(read->dp == 4);
}

TEST_CASE("llm-foundry's tp_config names its strategy") {
  CHECK(
      written("llm-foundry", {.tp = 2})
          .find("tp_config:\n  strategy: ffn\n  tensor_parallel_degree: 2\n") != std::string::npos);
  CHECK(written("llm-foundry", {.dp = 2}).find("tp_config") == std::string::npos);
}

TEST_CASE("llm-foundry's automatic micro-batch is no layout") {
  const auto read = layout_of("llm-foundry", "device_train_microbatch_size: auto\n", 8);
  REQUIRE_FALSE(read);
  CHECK(read.error().what ==
      "device_train_microbatch_size: auto leaves the micro-batch to its own search; write a "
      "number");
}

TEST_CASE("each name in the table is a word of the trainer's configuration") {
  std::map<std::string_view, std::string> all;
  for (const auto trainer : configurable_trainers()) {
    Draw draw;
    for (int i = 0; i < 2000; ++i)
      all[trainer] += configuration_of(trainer, draw.layout()).value_or("");
  }
  for (const AxisNames& row : axis_names()) {
    CAPTURE(row.axis);
    for (std::size_t i = 0; i < row.names.size(); ++i) {
      const std::string name(row.names.at(i));
      CAPTURE(name);
      const std::string& text = all[configurable_trainers()[i]];
      const auto dot = std::min(name.rfind('.'), name.size());
      const std::string as_map =
          name.substr(0, dot) + "={" + name.substr(std::min(dot + 1, name.size()));
      CHECK((text.find(name) != std::string::npos || text.find(as_map) != std::string::npos));
    }
  }
}
