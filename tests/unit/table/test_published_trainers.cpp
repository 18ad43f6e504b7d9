// SPDX-License-Identifier: Apache-2.0
// What is predicted for other people's trainers before anything has run, against what they
// publish. SHARDSWEEP_PUBLISHED_DATA names the folder of the tables; no time was fitted to a
// row of them.
#include "predict/family.hpp"
#include "text/pieces.hpp"
#include "tools/lab/memory_score.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/recorded.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace shardsweep;

namespace {

const std::string presets = std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps";

using Row = std::map<std::string, std::string, std::less<>>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

/// None: the folder is not there.
std::optional<std::vector<Row>> published(const std::string& file) {
  const auto* folder = ::getenv("SHARDSWEEP_PUBLISHED_DATA");
  if (folder == nullptr) {
    MESSAGE("skipped: SHARDSWEEP_PUBLISHED_DATA is not set");
    return std::nullopt;
  }
  std::ifstream in(std::string(folder) + "/" + file);
  std::vector<Row> rows;
  std::string line;
  REQUIRE(std::getline(in, line));
  const auto names = cells_of(line);
  while (std::getline(in, line)) {
    const auto cells = cells_of(line);
    REQUIRE(cells.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      (i == 0 ? rows.emplace_back() : rows.back())[names[i]] = cells[i];
  }
  return rows;
}

/// A whole number, or 1 of what a table leaves out.
std::int32_t number(const std::string& text) {
  const int value = std::atoi(text.c_str());
  return value > 0 ? value : 1;
}

ClusterSpec cluster_of(const std::string& name) {
  auto cluster = load_cluster(name, presets);
  REQUIRE(cluster);
  return *cluster;
}

const Family& family(std::string_view name) {
  return **find_family(name);
}

/// |predicted / published - 1|, and the worst of all.
struct Errors {
  std::vector<double> off;
  [[nodiscard]] double median() {
    REQUIRE(!off.empty());
    std::sort(off.begin(), off.end());
    const auto middle = off.size() / 2;
    return off.size() % 2 == 1 ? off[middle] : (off[middle - 1] + off[middle]) / 2;
  }
  void add(double predicted, double published) {
    off.push_back(std::abs(predicted / published - 1));
  }
};

// ---- Megatron-Bridge: tuned layouts of NVIDIA's performance summary. How they recompute is
// not in the tables, nor which precision their optimizer has.

std::string preset_of(const std::string& model) {
  const std::array<std::pair<std::string_view, std::string_view>, 7> presets_of{
      {{"LLAMA3_8B", "llama-3-8b"}, {"LLAMA3_70B", "llama-3-70b"},
          {"LLAMA3.1_405B", "llama-3.1-405b"}, {"GPT OSS 120B", "gpt-oss-120b"},
          {"Qwen3_30B_a3B", "qwen3-30b-a3b"}, {"Qwen3_235B_a22B", "qwen3-235b-a22b"},
          {"DeepSeekV3", "deepseek-v3"}}};
  for (const auto& [name, preset] : presets_of) {
    if (model.starts_with(name)) return std::string(preset);
  }
  return "";
}

struct TunedRow {
  std::string name;
  ModelSpec model;
  RecordedRun run;
  double step_s = 0;
};

/// Megatron-Bridge's recipe of DeepSeek-V3 says what its row doesn't: stages of pieces of two
/// layers, but one beside the embedding and MTP's alone beside the head ("Et|(tt|)*30mL"), and
/// which modules are computed again.
void take_recipe(RecordedRun& run) {
  auto& layout = run.point.layout;
  if (layout.pp * layout.vpp != 32) return;
  layout.first_stage_layers = 7;
  layout.last_stage_layers = 6;
  layout.expert_tp = 1;
  const auto* const word =
      std::find(recompute_words.begin(), recompute_words.end(), "mla_up_proj+mlp");
  layout.recompute = static_cast<Recompute>(word - recompute_words.begin());
  run.unknown.recompute = false;
}

/// Of one system what is pre-training of a model that we have.
std::vector<TunedRow> tuned_rows(
    const std::vector<Row>& rows, const std::string& system, int gpus_per_node) {
  std::vector<TunedRow> found;
  for (const auto& row : rows) {
    // Older tables have the system where newer ones have the model.
    const bool old = row.at("model").starts_with("System: ");
    const auto& name = old ? row.at("Model") : row.at("model");
    const auto where = old ? row.at("model").substr(8) : row.at("System");
    const auto preset = preset_of(name);
    if (preset.empty() || where != system || row.at("stage") != "Pre-Training Performance")
      continue;
    TunedRow one;
    one.name = name + " " + row.at("release");
    auto model = load_model(preset, presets);
    REQUIRE(model);
    one.model = *model;
    auto& point = one.run.point;
    auto& layout = point.layout;
    point.gpus = number(row.at("#-GPUs"));
    point.nodes = point.gpus / gpus_per_node;
    point.seq_len = number(row.at("Sequence Length"));
    point.dtype = row.at("Precision") == "BF16" ? Dtype::bf16 : Dtype::fp8;
    layout.tp = number(row.at("TP"));
    layout.pp = number(row.at("PP"));
    layout.cp = number(row.at("CP"));
    layout.ep = number(row.at("EP"));
    layout.vpp = number(row.at("VP"));
    layout.dp = point.gpus / (layout.tp * layout.pp * layout.cp);
    layout.micro_batch = number(row.at("MBS"));
    layout.grad_accum = number(row.at("GBS")) / layout.dp / layout.micro_batch;
    layout.sequence_parallel = layout.tp > 1;
    layout.zero = number(row.at("FSDP")) > 1 ? 3 : 1;
    one.run.unknown = {.zero = true, .recompute = true};
    if (preset == "deepseek-v3") take_recipe(one.run);
    if (name.find("w/o MTP") != name.npos) one.model.mtp_layers = 0;
    const double tokens = static_cast<double>(layout.global_batch()) * point.seq_len;
    one.step_s = tokens / std::atof(row.at("Tokens / sec / GPU").c_str()) / point.gpus;
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace

TEST_CASE("steps of Megatron-Bridge's tuned layouts on H100 are predicted, and all may fit") {
  const auto rows = published("megatron_bridge_summary.csv");
  if (!rows) return;
  const auto cluster = cluster_of("h100-8x");
  const Predictor predictor(cluster, family("megatron"));
  Errors dense;
  Errors experts;
  int certain = 0;
  int too_large = 0;  // dense models' layouts by the estimate, which all ran
  for (const auto& row : tuned_rows(*rows, "DGX-H100", cluster.gpus_per_node)) {
    const auto guess = predictor.guess(row.model, row.run.point);
    if (row.model.experts == 0 && guess.memory.estimate.total() > cluster.memory_bytes) ++too_large;
    (row.model.experts > 0 ? experts : dense).add(guess.step_s, row.step_s);
    const auto least = predictor.certain_memory(row.model, point_at_best(row.run)).total();
    const bool never = least > cluster.memory_bytes;
    certain += never ? 1 : 0;
    const auto& time = guess.time;
    MESSAGE(row.name << ": " << guess.step_s << " s predicted (products " << time.compute_s
                     << ", memory " << time.memory_s << ", host " << time.launch_s << ", tp "
                     << time.tp_s << ", pp " << time.pp_s << ", bubble " << time.bubble_s << ", dp "
                     << time.dp_s << ", update " << time.update_s << ", retries " << guess.retries
                     << "), " << row.step_s << " s published; at least "
                     << static_cast<double>(least) / 1e9 << " GB");
  }
  REQUIRE(dense.off.size() + experts.off.size() == 32);
  MESSAGE("Megatron-Bridge, H100, step time off in the median: dense "
      << 100 * dense.median() << " %, experts " << 100 * experts.median() << " %; " << certain
      << " of 32 certain not to fit, " << too_large << " of " << dense.off.size()
      << " dense ones predicted too large");
  CHECK(dense.median() < 0.25);
  CHECK(experts.median() < 0.40);
  CHECK(certain == 0);
  CHECK(too_large == 0);
}

TEST_CASE("DeepSeek-V3's steps on Blackwell are predicted, and all may fit") {
  const auto rows = published("megatron_bridge_summary.csv");
  if (!rows) return;
  Errors steps;
  int certain = 0;
  for (const auto& [system, preset] :
      {std::pair("DGX-B200", "b200-8x"), {"DGX-GB200", "gb200-72x"}, {"DGX-B300", "b300-8x"}}) {
    const auto cluster = cluster_of(preset);
    const Predictor predictor(cluster, family("megatron"));
    for (auto& row : tuned_rows(*rows, system, cluster.gpus_per_node)) {
      if (row.model.name != "deepseek-v3") continue;
      row.run.point.nodes = 0;  // of a rack of 72 a part
      const auto guess = predictor.guess(row.model, row.run.point);
      const auto least = predictor.certain_memory(row.model, point_at_best(row.run)).total();
      certain += least > cluster.memory_bytes ? 1 : 0;
      steps.add(guess.step_s, row.step_s);
      MESSAGE(system << " " << row.name << ": " << guess.step_s << " s predicted, " << row.step_s
                     << " s published; at least " << static_cast<double>(least) / 1e9 << " GB");
    }
  }
  REQUIRE(steps.off.size() == 21);
  MESSAGE("Megatron-Bridge, DeepSeek-V3 on Blackwell, step time off in the median "
      << 100 * steps.median() << " %; " << certain << " of 21 certain not to fit");
  CHECK(steps.median() < 0.25);
  CHECK(certain == 0);
}

// ---- arXiv 2205.05198: figures 1 and 7 and table 5, Megatron-LM on A100.

namespace {

struct PaperRow {
  std::string name;
  ModelSpec model;
  Point point;
};

/// GPT-2's vocabulary, which Megatron-LM pads by itself.
PaperRow paper_row(const Row& row) {
  PaperRow one;
  one.name = row.at("model") + " " + row.at("mode");
  one.model = {.name = "gpt",
      .layers = number(row.at("app_num_blocks")),
      .hidden = number(row.at("app_hidden")),
      .ffn = number(row.at("app_feedforward")),
      .heads = number(row.at("app_attn_heads")),
      .kv_heads = number(row.at("app_attn_heads")),
      .vocab = 50257,
      .tied_embeddings = true};
  auto& layout = one.point.layout;
  one.point.gpus = number(row.at("num_procs"));
  one.point.nodes = one.point.gpus / 8;
  one.point.seq_len = number(row.at("app_seq_size"));
  layout.tp = number(row.at("tensor_par"));
  layout.pp = number(row.at("pipeline_par"));
  layout.vpp = number(row.at("pipeline_interleaving"));
  layout.micro_batch = number(row.at("microbatch_size"));
  layout.grad_accum = number(row.at("batch_size")) / layout.micro_batch;
  layout.sequence_parallel = row.at("tensor_par_comm_type") == "rs_ag";
  const auto& recompute = row.at("activation_recompute");
  layout.recompute = recompute == "full" ? Recompute::full
      : recompute == "attn_only"         ? Recompute::selective
                                         : Recompute::none;
  return one;
}

std::int64_t bytes_of(const MemoryEstimate& estimate, std::initializer_list<MemoryClass> parts) {
  std::int64_t bytes = 0;
  for (const auto part : parts)
    bytes += estimate.bytes[static_cast<std::size_t>(part)];
  return bytes;
}

}  // namespace

TEST_CASE("memory and batch times of arXiv 2205.05198 are predicted") {
  const auto rows = published("korthikanti_memory_and_time.csv");
  if (!rows) return;
  const Predictor predictor(cluster_of("a100-80gb-8x"), family("megatron"));
  const RunTraits unfused{.flash_attention = false, .fused_norm = {}};
  std::map<std::string, Errors> errors;
  for (const auto& row : *rows) {
    const auto& metric = row.at("metric");
    const double published_value = std::atof(row.at("reported_value").c_str());
    const auto of = paper_row(row);
    using enum MemoryClass;
    const auto estimate = estimate_stage(of.model, of.point, family("megatron").memory, unfused, 0);
    double predicted = 0;
    if (metric == "memory_GiB_par_opt") {
      predicted = static_cast<double>(bytes_of(estimate, {weights, gradients, optimizer}));
    } else if (metric == "memory_GiB_act") {
      predicted = static_cast<double>(bytes_of(estimate, {activations}));
    } else if (metric == "batch_time_s") {
      predicted = predictor.guess(of.model, of.point, unfused).step_s;
    } else {
      continue;  // shares of the same activations
    }
    if (metric != "batch_time_s") predicted /= std::pow(2.0, 30);
    MESSAGE(of.name << " " << metric << ": " << predicted << " predicted, " << published_value
                    << " published");
    errors[metric].add(predicted, published_value);
  }
  for (auto& [metric, off] : errors)
    MESSAGE("arXiv 2205.05198, " << metric << " off in the median: " << 100 * off.median() << " %");
  CHECK(errors["memory_GiB_par_opt"].median() < 0.10);
  CHECK(errors["memory_GiB_act"].median() < 0.10);
  CHECK(errors["batch_time_s"].median() < 0.25);
}

// ---- torchtitan: Llama 3.1 on H100 with 96 GB and on H200.

namespace {

/// The number behind a word such as "TP 8" or "TP=8"; 1: there is none.
std::int32_t degree_of(const std::string& text, const std::string& word) {
  const auto at = text.find(word);
  return at == text.npos ? 1 : number(text.substr(at + word.size() + 1));
}

struct TitanRow {
  std::string name;
  ModelSpec model;
  Point point;
};

TitanRow titan_row(const Row& row) {
  TitanRow one;
  one.name = row.at("model") + " " + row.at("technique") + " " + row.at("parallelism");
  const auto preset = row.at("model").find("405") != std::string::npos ? "llama-3.1-405b"
      : row.at("model").find("70") != std::string::npos                ? "llama-3-70b"
                                                                       : "llama-3-8b";
  auto model = load_model(preset, presets);
  REQUIRE(model);
  one.model = *model;
  auto& layout = one.point.layout;
  const auto& degrees = row.at("parallelism");
  const auto& technique = row.at("technique");
  one.point.gpus = number(row.at("gpus"));
  one.point.nodes = one.point.gpus / 8;
  one.point.seq_len = row.at("seq_len").empty() ? 8192 : number(row.at("seq_len"));
  const bool fp8 = technique.find("loat8") != std::string::npos;
  one.point.dtype = fp8 ? Dtype::fp8 : Dtype::bf16;
  layout.tp = degree_of(degrees, "TP");
  layout.pp = degree_of(degrees, "PP");
  layout.cp = degree_of(degrees, "CP");
  layout.dp = one.point.gpus / (layout.tp * layout.pp * layout.cp);
  layout.sequence_parallel = layout.tp > 1;
  layout.zero = layout.data_ranks() > 1 ? 3 : 0;
  layout.micro_batch = number(row.at("local_batch"));
  if (layout.pp > 1) {  // a pipeline's batch is cut into samples, and its weights stay gathered
    layout.zero = layout.data_ranks() > 1 ? 2 : 0;
    layout.grad_accum = layout.micro_batch;
    layout.micro_batch = 1;
    if (technique.find("Interleaved") != std::string::npos) layout.vpp = 2;
  }
  layout.recompute = row.at("act_ckpt") == "full" ? Recompute::full : Recompute::selective;
  return one;
}

}  // namespace

TEST_CASE("torchtitan's published speeds and memory are predicted") {
  const auto rows = published("torchtitan_benchmarks.csv");
  if (!rows) return;
  Errors speed;
  Errors memory;
  int certain = 0;
  for (const auto& row : *rows) {
    auto cluster = cluster_of(row.at("hardware").starts_with("H200") ? "h200-8x" : "h100-8x");
    if (cluster.name == "h100-8x") {
      cluster.memory_bytes = std::int64_t{95} << 30;
      cluster.memory_bandwidth = 2.4e12;                  // HBM2e
      cluster.gemm_efficiency *= std::sqrt(500.0 / 700);  // of the power that others have
    }
    const auto of = titan_row(row);
    const Predictor predictor(cluster, family("fsdp"));
    const auto guess = predictor.guess(of.model, of.point);
    const double tokens = speed_of(guess.step_s, of.point);
    const double reported = std::atof(row.at("tps_reported").c_str());
    const auto& time = guess.time;
    MESSAGE(of.name << ": " << tokens << " tokens/s predicted, " << reported << " published; "
                    << guess.step_s << " s: products " << time.compute_s << ", memory "
                    << time.memory_s << ", host " << time.launch_s << ", tp " << time.tp_s
                    << ", pp " << time.pp_s << ", bubble " << time.bubble_s << ", dp " << time.dp_s
                    << ", update " << time.update_s << "; "
                    << static_cast<double>(guess.memory.estimate.total()) / std::pow(2.0, 30)
                    << " GiB predicted, " << row.at("memory_GiB") << " published");
    speed.add(1 / tokens, 1 / reported);
    if (predictor.certain_memory(of.model, of.point).total() > cluster.memory_bytes) ++certain;
    if (!row.at("memory_GiB").empty() && !row.at("act_ckpt").empty())
      memory.add(static_cast<double>(guess.memory.estimate.total()) / std::pow(2.0, 30),
          std::atof(row.at("memory_GiB").c_str()));
  }
  MESSAGE("torchtitan: step time off in the median " << 100 * speed.median() << " %, memory "
                                                     << 100 * memory.median() << " %; " << certain
                                                     << " certain not to fit");
  CHECK(speed.median() < 0.25);
  CHECK(certain == 0);
}
