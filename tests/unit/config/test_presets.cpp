// SPDX-License-Identifier: Apache-2.0
#include "loading.hpp"
#include "unit/folder.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <string>

using namespace shardsweep;
using namespace shardsweep::test;

namespace {

std::set<std::string> yaml_files(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps" + folder)) {
    if (entry.path().extension() == ".yaml") names.insert(entry.path().stem().string());
  }
  return names;
}

/// Without norms of latents.
std::int64_t latent_attention(const ModelSpec& model) {
  const auto heads = model.heads;
  const auto nope = model.head_dim - model.qk_rope_head_dim;
  return model.q_lora_rank * (model.hidden + heads * model.head_dim) +
      model.kv_lora_rank * (model.hidden + heads * (nope + model.v_head_dim)) +
      model.hidden * model.qk_rope_head_dim + heads * model.v_head_dim * model.hidden;
}

/// Without what predicts later tokens, which names don't count.
double parameters(const ModelSpec& model) {
  const auto head = model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
  const auto attention = model.kv_lora_rank > 0
      ? latent_attention(model)
      : 2 * model.hidden * head * (model.heads + model.kv_heads);
  const auto norms = 2 * model.hidden;
  const auto dense_layers = model.experts > 0 ? model.dense_layers : model.layers;
  const auto expert = 3 * model.hidden * model.expert_ffn;
  const auto sparse =
      (model.experts + model.shared_experts) * expert + model.experts * model.hidden;
  const auto embeddings = (model.tied_embeddings ? 1 : 2) * model.vocab * model.hidden;
  return static_cast<double>(model.layers * (attention + norms) +
      dense_layers * 3 * model.hidden * model.ffn + (model.layers - dense_layers) * sparse +
      embeddings + model.hidden);
}

SweepSpec with_model(const std::string& model) {
  const auto loaded =
      load_text("name: x\ncluster: h100-8x\nconstants: {nodes: 1, model: " + model + "}\n");
  REQUIRE_MESSAGE(loaded.has_value(), fault_of(loaded));
  return *loaded;
}

}  // namespace

TEST_CASE("every model preset loads and has the size that its name promises") {
  const std::map<std::string, double> promised{
      {"llama-1b", 1.34e9},
      {"llama-4b", 3.57e9},
      {"llama-9b", 8.86e9},
      {"llama-80b", 80e9},
      {"llama-469b", 469e9},
      {"llama-7b", 6.74e9},
      {"llama-13b", 13.0e9},
      {"llama-30b", 32.5e9},
      {"llama-65b", 65.3e9},
      {"llama-3-8b", 8.03e9},
      {"llama-3-70b", 70.6e9},
      {"mixtral-8x7b", 46.7e9},
      {"qwen3-30b-a3b", 30.53e9},
      {"deepseek-v3-like", 671e9},
      {"llama-3.1-405b", 405.85e9},
      {"qwen3-8b", 8.19e9},
      {"qwen3-32b", 32.76e9},
      {"qwen3-235b-a22b", 235.1e9},
      {"gpt-oss-120b", 116.8e9},
      {"gpt-oss-20b", 20.9e9},
      {"deepseek-v3", 671.0e9},
  };
  for (const auto& name : yaml_files("/models")) {
    const auto model = with_model(name).models.at(0);
    CHECK(model.name == name);
    const auto found = promised.find(name);
    const double count = parameters(model);
    if (found == promised.end()) {
      CHECK_MESSAGE(count < 20e6, name);
    } else {
      CHECK_MESSAGE(std::abs(count / found->second - 1) < 0.005, name << ": " << count);
    }
  }
  CHECK(with_model("llama-3-8b").models[0].vocab == 128256);
}

TEST_CASE("every cluster preset loads") {
  for (const auto& name : yaml_files("/clusters")) {
    const auto loaded =
        load_text("name: x\ncluster: " + name + "\nconstants: {gpus: 1, model: tiny}\n");
    REQUIRE_MESSAGE(loaded.has_value(), fault_of(loaded));
    CHECK(loaded->cluster.name == name);
    CHECK(loaded->cluster.this_machine == (name == "this-machine"));
    CHECK(loaded->cluster.peak_flops[0].has_value() == !loaded->cluster.gpu.empty());
  }
}

TEST_CASE("every example sweep loads and is explained as a sweep equal to itself") {
  for (const auto& name : yaml_files("")) {
    if (name == "causes") continue;
    const auto file = std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps/" + name + ".yaml";
    const auto loaded = load_sweep(file, with_presets());
    REQUIRE_MESSAGE(loaded.has_value(), fault_of(loaded));
    const auto again = load_sweep_text(explain_sweep(*loaded), "explained.yaml", LoadOptions{});
    REQUIRE_MESSAGE(again.has_value(), fault_of(again));
    CHECK(without_positions(*again) == without_positions(*loaded));
  }
}

TEST_CASE("the quickstart leaves room for the weights of its larger model and little more") {
  const auto file = std::string(SHARDSWEEP_SOURCE_DIR) + "/sweeps/quickstart.yaml";
  const auto sweep = load_sweep(file, with_presets());
  REQUIRE_MESSAGE(sweep.has_value(), fault_of(sweep));
  const auto memory = static_cast<double>(sweep->cluster.memory_bytes);
  constexpr double bytes_per_parameter = 16;  // fp32 weight, gradient and two moments
  REQUIRE(sweep->models.size() == 2);
  CHECK(parameters(sweep->models[1]) * bytes_per_parameter < memory);
  CHECK(parameters(sweep->models[1]) * bytes_per_parameter * 1.5 > memory);
  CHECK(sweep->cluster.this_machine);
}

TEST_CASE("an efficiency is a share and says so") {
  const auto load = [](const std::string& value) {
    return load_sweep_text("name: x\ncluster: {preset: h100-8x, gemm_efficiency: " + value +
            "}\nconstants: {model: llama-1b, seq_len: 4096}\naxes: {nodes: [1]}\n",
        "sweep.yaml", with_presets());
  };
  const auto good = load("0.7");
  REQUIRE_MESSAGE(good.has_value(), fault_of(good));
  CHECK(good->cluster.gemm_efficiency == 0.7);
  CHECK(good->cluster.inter_node_group_bandwidth == 0);
  for (const std::string bad : {"0", "1.5", "70"}) {
    const auto loaded = load(bad);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().what.find("sweep.yaml:2:45: 'gemm_efficiency' is a share above 0 and "
                                   "at most 1; got '" +
              bad + "'") != std::string::npos);
  }
}

TEST_CASE("a cluster in a file beside the sweep is the one that was written out") {
  const auto folder = std::filesystem::temp_directory_path() /
      ("shardsweep-clusters-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  auto cluster = *load_cluster("h100-8x", with_presets().presets);
  cluster.gemm_efficiency = 0.71;
  cluster.inter_node_latency_us = 12.5;
  std::ofstream(folder / "ours.yaml") << explain_cluster(cluster);
  std::ofstream(folder / "less.yaml") << "preset: h100-8x\nmemory: 40GiB\n";
  std::ofstream(folder / "chain.yaml") << "preset: ./ours.yaml\n";
  std::ofstream(folder / "list.yaml") << "[1, 2]\n";
  const auto loaded = [&](const std::string& name) {
    const auto sweep = folder / "sweep.yaml";
    std::ofstream(sweep) << "name: x\ncluster: " << name
                         << "\nconstants: {nodes: 1, model: llama-1b}\n";
    return load_sweep(sweep, with_presets());
  };
  const auto ours = loaded("ours.yaml");
  REQUIRE_MESSAGE(ours.has_value(), fault_of(ours));
  CHECK(ours->cluster == cluster);
  CHECK(load_cluster((folder / "ours.yaml").string(), with_presets().presets) == cluster);
  const auto less = loaded("{preset: ./less.yaml, gpus_per_node: 4}");
  REQUIRE_MESSAGE(less.has_value(), fault_of(less));
  CHECK(less->cluster.memory_bytes == std::int64_t{40} << 30);
  CHECK(less->cluster.gpus_per_node == 4);
  CHECK(less->cluster.name == "h100-8x");
  CHECK(fault_of(loaded("chain.yaml"))
            .find("chain.yaml:1:9: a cluster file can start from a "
                  "preset, not from another file") != std::string::npos);
  CHECK(fault_of(loaded("none.yaml")).find("sweep.yaml:2:10: ") != std::string::npos);
  CHECK(fault_of(loaded("list.yaml")).find("list.yaml:1:1: ") != std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a model is the path of its config.json, under 'models' or as an axis's value") {
  const test::Folder folder;
  folder.write("mix/config.json",
      R"({"model_type":"llama","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,
          "intermediate_size":128,"vocab_size":512})");
  folder.write("other/mix/config.json",
      R"({"model_type":"llama","num_hidden_layers":8,"hidden_size":64,"num_attention_heads":4,
          "intermediate_size":128,"vocab_size":512})");
  const auto load = [&](const std::string& rest) {
    return load_sweep_text("name: x\ncluster: h100-8x\nconstants: {nodes: 1}\n" + rest,
        (folder.path() / "sweep.yaml").string(), with_presets());
  };
  const auto named = load("models: {mine: mix/config.json}\naxes: {model: [mine]}\n");
  REQUIRE_MESSAGE(named, fault_of(named));
  CHECK(named->models.front().name == "mine");
  CHECK(named->models.front().layers == 4);
  const auto listed = load("axes: {model: [mix/config.json, ./mix/config.json]}\n");
  CHECK(fault_of(listed).find("twice") != std::string::npos);
  const auto one = load("axes: {model: [mix/config.json]}\n");
  REQUIRE_MESSAGE(one, fault_of(one));
  REQUIRE(one->models.size() == 1);
  CHECK(one->models.front().name == "mix");
  const auto two = load("axes: {model: [mix/config.json, other/mix/config.json]}\n");
  CHECK(fault_of(two).find("'models: {NAME: other/mix/config.json}'") != std::string::npos);
  CHECK(fault_of(load("axes: {model: [no/config.json]}\n")).find("no/config.json") !=
      std::string::npos);
}

TEST_CASE("a program's own word for a value is led into argv") {
  const auto loaded = load_text(
      "name: x\ncluster: h100-8x\nconstants: {nodes: 1, model: tiny}\n"
      "axes: {zero: [none, grad]}\n");
  CHECK(fault_of(loaded).find("{zero=0?none}") != std::string::npos);
}
