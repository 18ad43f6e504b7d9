// SPDX-License-Identifier: Apache-2.0
#include "tools/lab/memory_score.hpp"
#include "unit/folder.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/recorded.hpp>

#include <doctest/doctest.h>

#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

using namespace shardsweep;

namespace {

const std::string plain_header =
    "model,nodes,gpus,seq_len,hidden,layers,heads,kv_heads,ffn,vocab,dp,tp,pp,micro_batch,"
    "grad_accum,zero,recompute,sequence_parallel,outcome,tokens_per_s_per_gpu";
const std::string plain_row =
    "\nmine,2,16,2048,4096,32,32,8,14336,128256,2,4,2,1,8,1,full,true,completed,1234.5";

const std::string nanotron_header =
    "name,nodes,seq_len,mbs,batch_accum,gbs,tok/s/gpu,Mem Alloc (GB),Mem Res (GB),dp,pp,tp,"
    "pp_engine,tp_mode,hidden_size,num_layers,num_heads,num_kv_heads,vocab_size,"
    "tie_word_embeddings,zero_stage,status,oom_error,num_params,after_pp_fix,interm_dim";

Result<RecordedSweep> read(
    const std::string& text, RecordedFormat format = RecordedFormat::csv, int gpus_per_node = 0) {
  const test::Folder folder;
  const auto file = folder.path() / "runs.csv";
  std::ofstream(file) << text;
  return read_recorded(file,
      {.format = format,
          .presets = std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps",
          .gpus_per_node = gpus_per_node});
}

/// The fault's first line without the folder, or "accepted".
std::string refusal(
    const std::string& text, RecordedFormat format = RecordedFormat::csv, int gpus_per_node = 0) {
  const auto sweep = read(text, format, gpus_per_node);
  if (sweep) return "accepted";
  CHECK(sweep.error().kind == FaultKind::invalid_input);
  const auto line = sweep.error().what.substr(0, sweep.error().what.find('\n'));
  return line.substr(line.find("runs.csv"));
}

RecordedSweep sweep_of(
    const std::string& text, RecordedFormat format = RecordedFormat::csv, int gpus_per_node = 0) {
  auto sweep = read(text, format, gpus_per_node);
  if (!sweep) FAIL(sweep.error().what);
  return *std::move(sweep);
}

}  // namespace

TEST_CASE("a plain table gives model and point and measurement") {
  const auto sweep = sweep_of(plain_header + ",peak_memory_gib,kernel,software_version,note" +
      plain_row + ",40.5,flash,1.2,first");
  REQUIRE(sweep.runs.size() == 1);
  const auto& run = sweep.runs.front();
  CHECK(sweep.model_of(run) == ModelSpec{"mine", 32, 4096, 14336, 32, 8, 128256, false});
  CHECK(run.nodes == 2);
  CHECK(run.point.nodes == 2);
  CHECK(run.point.gpus == 16);
  CHECK(run.point.seq_len == 2048);
  const auto& layout = run.point.layout;
  CHECK(layout.world() == 16);
  CHECK(layout.dp == 2);
  CHECK(layout.tp == 4);
  CHECK(layout.pp == 2);
  CHECK(layout.global_batch() == 16);
  CHECK(layout.zero == 1);
  CHECK(layout.recompute == Recompute::full);
  CHECK(layout.sequence_parallel);
  CHECK(run.outcome == Outcome::completed);
  CHECK(run.tokens_per_s_per_gpu == 1234.5);
  CHECK(run.peak_memory_bytes == std::int64_t{81} << 29);
  CHECK(run.software_version == "1.2");
  CHECK(run.line == 2);
  CHECK(run.kernel == "flash");
  REQUIRE(sweep.labels.size() == 1);
  CHECK(sweep.labels[0].name == "note");
  CHECK(sweep.labels[0].values.front() == Value("first"));
}

TEST_CASE("a plain table says latent attention and MTP, or the preset of its model does") {
  const auto sweep = sweep_of(plain_header +
      ",head_dim,kv_lora_rank,q_lora_rank,qk_rope_head_dim,v_head_dim,"
      "num_nextn_predict_layers" +
      std::string("\nmine,2,16,2048,4096,32,32,32,14336,128256,2,4,2,1,"
                  "8,1,full,true,completed,1234.5") +
      ",192,512,1536,64,128,1" + "\ndeepseek-v3,2,16,2048,,,,,,,2,4,2,1,8,1,full,true,oom,,,,,,,");
  REQUIRE(sweep.runs.size() == 2);
  const auto& said = sweep.model_of(sweep.runs[0]);
  CHECK(said.head_dim == 192);
  CHECK(said.kv_lora_rank == 512);
  CHECK(said.q_lora_rank == 1536);
  CHECK(said.qk_rope_head_dim == 64);
  CHECK(said.v_head_dim == 128);
  CHECK(said.mtp_layers == 1);
  const auto& known = sweep.model_of(sweep.runs[1]);
  CHECK(known.kv_lora_rank == 512);
  CHECK(known.experts == 256);
  CHECK(known.mtp_layers == 1);
}

TEST_CASE("an empty cell is unknown and derived or left at its default") {
  const auto sweep = sweep_of(plain_header +
          "\nllama-1b,,4,4096,,,,,,,,2,1,2,,,,,other,"
          "\nllama-1b,,16,4096,,,,,,,,4,,,,,,,,55.0"
          "\nother,,8,4096,1024,4,8,,4096,1000,8,1,1,1,1,0,,,oom,0",
      RecordedFormat::csv, 8);
  REQUIRE(sweep.runs.size() == 3);
  const auto& small = sweep.runs[0];
  CHECK(small.nodes == 1);
  CHECK(small.point.nodes == 0);
  CHECK(small.point.gpus == 4);
  CHECK(small.point.layout.dp == 2);
  CHECK(small.outcome == Outcome::crashed);
  CHECK_FALSE(small.tokens_per_s_per_gpu);
  CHECK(sweep.model_of(small).hidden == 2048);
  CHECK(sweep.model_of(small).tied_embeddings);
  CHECK(sweep.runs[1].outcome == Outcome::completed);
  CHECK(sweep.runs[1].nodes == 2);
  CHECK(sweep.runs[1].point.layout.dp == 4);
  CHECK(sweep.model_of(sweep.runs[2]).kv_heads == 8);
  CHECK(sweep.models.size() == 2);
}

TEST_CASE("what a row does not say of memory is kept as unknown, with what is usual in its place") {
  const auto sweep = sweep_of(plain_header + plain_row +
      "\nmine,2,16,2048,,,,,,,4,4,1,1,8,,,,completed,900"
      "\nmine,2,16,2048,,,,,,,16,1,1,1,8,1,none,,completed,900");
  REQUIRE(sweep.runs.size() == 3);
  const auto& said = sweep.runs[0].unknown;
  CHECK_FALSE((said.zero || said.recompute || said.sequence_parallel));
  const auto& unsaid = sweep.runs[1];
  CHECK((unsaid.unknown.zero && unsaid.unknown.recompute && unsaid.unknown.sequence_parallel));
  CHECK(unsaid.point.layout.sequence_parallel);  // beside TP
  CHECK_FALSE(sweep.runs[2].point.layout.sequence_parallel);
  CHECK_FALSE(sweep.runs[2].unknown.zero);
}

TEST_CASE("other trainers have parallel dimensions that are reserved here") {
  const auto sweep = sweep_of(plain_header + ",cp" +
      "\nmine,2,16,2048,4096,32,32,8,14336,128256,2,4,1,1,8,1,full,true,"
      "completed,1234.5,2");
  CHECK(sweep.runs.front().point.layout.cp == 2);
  CHECK(sweep.runs.front().point.layout.world() == 16);
}

TEST_CASE("a table says whose peak it has, by stage or by rank") {
  const auto stage_of = [](const std::string& column, const std::string& value) {
    return sweep_of(plain_header + "," + column + plain_row + "," + value).runs.front().peak_stage;
  };
  CHECK(stage_of("stage", "0") == 0);
  CHECK(stage_of("stage", "1") == 1);
  CHECK(stage_of("stage", "first") == 0);
  CHECK(stage_of("stage", "last") == 1);
  CHECK(stage_of("stage", "most") == RecordedRun::of_any_rank);
  CHECK_FALSE(stage_of("stage", ""));
  // 16 ranks on two stages.
  CHECK(stage_of("rank", "0") == 0);
  CHECK(stage_of("rank", "7") == 0);
  CHECK(stage_of("rank", "8") == 1);
  CHECK(stage_of("rank", "-1") == 1);
  CHECK(refusal(plain_header + ",rank" + plain_row + ",16").find("it must be from -1 to 15") !=
      std::string::npos);
  CHECK(refusal(plain_header + ",stage" + plain_row + ",2").find("it must be from 0 to 1") !=
      std::string::npos);
  CHECK(refusal(plain_header + ",stage,rank" + plain_row + ",0,0").find("whose peak") !=
      std::string::npos);
}

TEST_CASE("a table says how full recompute goes on, by Megatron's names") {
  const auto sweep = sweep_of(plain_header + ",recompute_method,recompute_num_layers" + plain_row +
      ",block,3" + plain_row + ",uniform,4" + plain_row + ",,");
  CHECK(sweep.runs[0].recompute_layers == 3);
  CHECK(sweep.runs[0].recompute_by_block);
  CHECK(sweep.runs[1].recompute_layers == 4);
  CHECK_FALSE(sweep.runs[1].recompute_by_block);
  CHECK(sweep.runs[2].recompute_layers == 0);
  CHECK(label_names(sweep) == std::vector<std::string>{"recompute_method", "recompute_num_layers"});
}

TEST_CASE("rows of one name with different shapes are different models") {
  const auto sweep = sweep_of(plain_header + plain_row +
      "\nmine,2,16,2048,4096,32,32,32,14336,128256,2,4,2,1,8,1,none,0,"
      "oom,");
  REQUIRE(sweep.models.size() == 2);
  CHECK(sweep.models[0].name == sweep.models[1].name);
  CHECK(sweep.models[1].kv_heads == 32);
}

TEST_CASE("other trainers' column names are understood") {
  const auto sweep = sweep_of(
      "model,gpus,seq_len,tensor_model_parallel_size,pipeline_model_parallel_size,"
      "micro_batch_size,outcome,runner_version\nllama-7b,8,2048,2,2,4,hung,0.1\n",
      RecordedFormat::csv, 8);
  const auto& run = sweep.runs.front();
  CHECK(run.point.layout.tp == 2);
  CHECK(run.point.layout.pp == 2);
  CHECK(run.point.layout.dp == 2);
  CHECK(run.point.layout.micro_batch == 4);
  CHECK(run.outcome == Outcome::hung);
  CHECK(run.software_version == "0.1");
}

TEST_CASE("a fault of a table names file and line and column and value") {
  CHECK(refusal("") == "runs.csv: has no header line; name the columns in it");
  CHECK(refusal("model,model\n") == "runs.csv:1:7: the header names the column 'model' twice");
  CHECK(refusal("model,tp\n") == "runs.csv:1:1: there is no column 'outcome'");
  CHECK(refusal("model,outcome,tp\nllama-7b,done,1\n", RecordedFormat::csv, 8) ==
      "runs.csv:2:10: expected one of completed, oom, hung, timeout, node_failure, "
      "comm_error, preempted, crashed, reaped, cancelled, rejected, lost, skipped, other for "
      "'outcome', got 'done'");
  CHECK(refusal("model,outcome,tp\nllama-7b,oom,2.5\n", RecordedFormat::csv, 8) ==
      "runs.csv:2:14: expected a whole number for 'tp', got '2.5'");
  CHECK(refusal("model,outcome,zero\nllama-7b,oom,4\n", RecordedFormat::csv, 8) ==
      "runs.csv:2:14: 'zero' is 4; it must be from 0 to 3");
  CHECK(refusal("model,outcome,gpus,dp,tp\nllama-7b,oom,8,2,2\n", RecordedFormat::csv, 8) ==
      "runs.csv:2:1: 8 GPUs, but dp 2 x tp 2 x pp 1 = 4");
  CHECK(refusal("model,outcome,gpus,nodes\nllama-7b,oom,8,2\n", RecordedFormat::csv, 8) ==
      "runs.csv:2:1: 8 GPUs on 2 nodes, but the cluster's nodes have 8 GPUs");
  CHECK(refusal("model,outcome,gpus\nllama-7b,oom,8\n") ==
      "runs.csv:2:1: the number of nodes is missing; add a column 'nodes' or give a cluster");
  CHECK(refusal("model,outcome,nodes\nnobody,oom,1\n", RecordedFormat::csv, 8) ==
      "runs.csv:1:1: model 'nobody': no row has 'layers', and no preset has this name");
  CHECK(refusal("model,outcome,gpus,v_head_dim\nllama-7b,oom,8,64\n", RecordedFormat::csv, 8) ==
      "runs.csv:2:1: model 'llama-7b': 'v_head_dim' needs 'kv_lora_rank', the width of "
      "the latent that keys and values share");
  CHECK(refusal("model,outcome,gpus,kv_lora_rank,qk_rope_head_dim\nllama-7b,oom,8,64,128\n",
            RecordedFormat::csv, 8) ==
      "runs.csv:2:1: model 'llama-7b': 'qk_rope_head_dim' is 128; it must be even and less than "
      "the 128 values of a head");
  CHECK(refusal("model,outcome,tp,tensor_parallel_size\nllama-7b,oom,1,1\n").substr(0, 34) ==
      "runs.csv:1:1: the columns 'tp' and");
  CHECK(refusal("model,outcome,tokens_per_s_per_gpu\nllama-7b,completed,nan\n", RecordedFormat::csv,
            8) ==
      "runs.csv:2:20: expected a number of at least 0 for 'tokens_per_s_per_gpu', got 'nan'");
  CHECK(refusal("a,b\n1\n") == "runs.csv:2:1: this row has 1 cells, but the header has 2");
  CHECK(refusal("a,b\n1,2\n", RecordedFormat::nanotron) ==
      "runs.csv:1:1: there is no column 'status': is this nanotron's table?");
}

TEST_CASE("nanotron's traps are handled") {
  const auto sweep = sweep_of(nanotron_header +
          // gbs in samples where it ran and in tokens where it failed
          "\nfirst,1.0,4096,2,16.0,256.0,40149.94,25.0,50.0,8,1,1,"
          "OneForwardOneBackwardPipelineEngine,REDUCE_SCATTER,2048,16,32,32.0,131072,True,0,"
          "Success,True,1.34,True,8192"
          "\nsecond,1.0,4096,2,64.0,1048576.0,,,,2,2,2,,REDUCE_SCATTER,2048,16,32,,131072,,1,"
          "OOM,True,1.34,False,"
          "\n469G_gqa8,2.0,4096,1,16,1048576.0,,,,16,1,1,,REDUCE_SCATTER,8192,80,64,,131072,,1,"
          "Other,False,80.0,False,",
      RecordedFormat::nanotron, 8);
  REQUIRE(sweep.runs.size() == 3);
  // Not concerned by the fix of the pipeline: after it, failed, without a pipeline.
  for (const auto& run : sweep.runs)
    CHECK(run.comparable == "after_pp_fix or pp 1");
  CHECK(sweep.runs[1].software_version == "before_pp_fix");
  CHECK(sweep.runs[0].outcome == Outcome::completed);
  CHECK(sweep.runs[0].oom_error);
  CHECK(sweep.runs[0].peak_memory_bytes == std::int64_t{50} << 30);
  CHECK(sweep.runs[0].allocated_memory_bytes == std::int64_t{25} << 30);
  CHECK_FALSE(sweep.runs[0].point.layout.sequence_parallel);
  CHECK(sweep.runs[0].point.layout.global_batch() == 256);
  CHECK(sweep.runs[1].outcome == Outcome::oom);
  CHECK(sweep.runs[1].point.layout.global_batch() == 256);
  CHECK(sweep.runs[1].point.layout.sequence_parallel);
  CHECK(sweep.runs[1].software_version == "before_pp_fix");
  // One model: what the failed row lacks is that of the other, and the embeddings are tied.
  CHECK(sweep.runs[1].point.model == sweep.runs[0].point.model);
  CHECK(sweep.models[0] == ModelSpec{"1.34B", 16, 2048, 8192, 32, 32, 131072, true});
  CHECK(sweep.runs[2].outcome == Outcome::crashed);
  CHECK(sweep.models[1] == ModelSpec{"80B", 80, 8192, 28672, 64, 8, 131072, false});
}

TEST_CASE("an empty ZeRO stage or TP mode of nanotron's table is unknown") {
  const auto row = [](const char* tp_mode, const char* zero) {
    return std::string(
               "\nfirst,1.0,4096,2,16.0,256.0,40149.94,25.0,50.0,4,1,2,"
               "OneForwardOneBackwardPipelineEngine,") +
        tp_mode + ",2048,16,32,32.0,131072,True," + zero + ",Success,True,1.34,True,8192";
  };
  const auto sweep = sweep_of(
      nanotron_header + row("REDUCE_SCATTER", "0") + row("REDUCE_SCATTER", "") + row("", "1"),
      RecordedFormat::nanotron, 8);
  REQUIRE(sweep.runs.size() == 3);
  CHECK_FALSE(sweep.runs[0].unknown.any());
  CHECK(sweep.runs[1].unknown.zero);
  CHECK_FALSE(sweep.runs[1].unknown.sequence_parallel);
  CHECK_FALSE(sweep.runs[2].unknown.zero);
  CHECK(sweep.runs[2].unknown.sequence_parallel);
}

TEST_CASE("where chooses rows by layout and outcome and labels") {
  auto sweep = sweep_of(plain_header + ",kernel,Tok Rate" + plain_row + ",flash,1" +
      "\nmine,2,16,2048,4096,32,32,8,14336,128256,1,8,2,1,8,1,none,1,oom,,,2");
  const auto kept = [&](const std::string& expression) {
    auto copy = sweep;
    const auto result = keep_where(copy, expression);
    if (!result) return result.error().what;
    std::string lines;
    for (const auto& run : copy.runs)
      lines += std::to_string(run.line);
    return lines;
  };
  CHECK(kept("") == "23");
  CHECK(kept("tp = 8") == "3");
  CHECK(kept("nodes = 2 and model = 'mine'") == "23");
  CHECK(kept("outcome = 'completed'") == "2");
  CHECK(kept("outcome <> 'completed'") == "3");
  CHECK(kept("tokens_per_s_per_gpu > 1000") == "2");
  CHECK(kept("kernel is null") == "3");
  CHECK(kept("kernel = 'flash' and dp*micro_batch*grad_accum = 16") == "2");
  CHECK(kept("\"Tok Rate\" > 1") == "3");
  CHECK(kept("nobody = 1").find("unknown name 'nobody'") != std::string::npos);
}

TEST_CASE("a label whose header is a word of SQL is known by its name in results") {
  auto sweep = sweep_of(plain_header + ",set" + plain_row + ",a", RecordedFormat::csv, 8);
  CHECK(label_names(sweep) == std::vector<std::string>{"published_set"});
  REQUIRE(keep_where(sweep, "published_set = 'a'"));
  CHECK(sweep.runs.size() == 1);
  REQUIRE(keep_where(sweep, "published_set = 'b'"));
  CHECK(sweep.runs.empty());
}

TEST_CASE("the playbook's table is read whole") {
  const auto* folder = ::getenv("SHARDSWEEP_PUBLISHED_DATA");
  if (folder == nullptr) {
    MESSAGE("skipped: SHARDSWEEP_PUBLISHED_DATA is not set");
    return;
  }
  auto sweep = read_recorded(std::string(folder) + "/playbook_sweep_1b_9b_469b.csv",
      {.format = RecordedFormat::nanotron, .presets = {}, .gpus_per_node = 8});
  REQUIRE(sweep);
  const auto count = [&](Outcome outcome) {
    return std::count_if(sweep->runs.begin(), sweep->runs.end(),
        [&](const RecordedRun& run) { return run.outcome == outcome; });
  };
  CHECK(sweep->runs.size() == 2441);
  CHECK(count(Outcome::completed) == 1034);
  CHECK(count(Outcome::oom) == 1136);
  CHECK(count(Outcome::crashed) == 271);
  REQUIRE(keep_where(*sweep,
      "(pp = 1 OR software_version = 'after_pp_fix' OR outcome <> 'completed') "
      "AND dp*micro_batch*grad_accum = 256"));
  std::set<std::pair<std::string, int>> solved;
  for (const auto& run : sweep->runs) {
    if (run.outcome == Outcome::completed) solved.emplace(sweep->model_of(run).name, run.nodes);
  }
  CHECK(solved.size() == 15);
  CHECK(std::count_if(sweep->runs.begin(), sweep->runs.end(), [&](const RecordedRun& run) {
    return solved.contains({sweep->model_of(run).name, run.nodes});
  }) == 1467);
}

TEST_CASE("the playbook's memory is predicted and its OOM rows are caught") {
  const auto* folder = ::getenv("SHARDSWEEP_PUBLISHED_DATA");
  if (folder == nullptr) {
    MESSAGE("skipped: SHARDSWEEP_PUBLISHED_DATA is not set");
    return;
  }
  const auto sweep = read_recorded(std::string(folder) + "/playbook_sweep_1b_9b_469b.csv",
      {.format = RecordedFormat::nanotron, .presets = {}, .gpus_per_node = 8});
  REQUIRE(sweep);
  const auto cluster = load_cluster("h100-8x", std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps");
  REQUIRE(cluster);
  const auto total = score_memory(*sweep, *cluster, **find_family("nanotron")).total;
  CHECK(total.good == 1020);
  CHECK(total.good_left_out == 0);
  CHECK(total.oom == 1136);
  CHECK(total.caught >= 1136 * 95 / 100);
  CHECK(*total.peak.median < 0.08);
  CHECK(*total.allocated.median < 0.03);
}

TEST_CASE("labels have names that can stand in an expression beside our own columns") {
  RecordedSweep sweep;
  for (const auto* name :
      {"AllReduce (GB/s)", "mfu", "dp", "note", "Note", "kernel", "9 lives", "()", "where"})
    sweep.labels.push_back({name, {}});
  const std::vector<std::string> expected{"allreduce_gb_s", "published_mfu", "published_dp", "note",
      "note_2", "kernel_2", "column_9_lives", "column_", "published_where"};
  CHECK(label_names(sweep) == expected);
}
