// SPDX-License-Identifier: Apache-2.0
// explore_questions ask COUNT SEED: random questions to the planner, one JSON object a line.
// explore_questions answer: the native program's answers to the lines on standard input.
#include "explore/explore.hpp"
#include "explore/question.hpp"

#include <shardsweep/axis_table.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>

namespace {

using namespace shardsweep;
using Json = nlohmann::ordered_json;

class Asker {
 public:
  explicit Asker(std::uint64_t seed) : random_(seed) {}

  Json question() {
    const auto cluster = some_cluster();
    const std::int64_t nodes = std::int64_t{1} << below(7);
    const bool odd = below(8) == 0;
    const bool part = below(5) == 0;
    Json asked = {{"ask", asks()}, {"model", question_of(model())},
        {"cluster", question_of(cluster)},
        {"gpus",
            part ? std::int64_t{1} << below(3) : cluster.gpus_per_node * (odd ? nodes * 3 : nodes)},
        {"seq_len", 512 << below(7)}, {"batch_tokens", std::int64_t{1} << (16 + below(8))},
        {"dtype", one_of<std::string>({"bf16", "bf16", "fp32", "fp8"})},
        {"family", std::string(families()[below(families().size())].name)}, {"locks", settings(2)},
        {"layout", settings(6)},
        {"trainer",
            one_of<std::string>(
                {"megatron", "torchtitan", "nanotron", "deepspeed", "picotron", "gpt-neox"})},
        {"top", 1 + below(8)}};
    if (below(3) == 0) asked["learnt"] = learnt(asked);
    return asked;
  }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  double between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(below(values.size())));
  }

  ModelSpec model() {
    ModelSpec made;
    made.name = "random";
    made.heads = std::int64_t{4} << below(5);
    made.head_dim = one_of<std::int64_t>({0, 64, 128, 192});
    made.hidden = made.heads * one_of<std::int64_t>({64, 80, 128});
    made.kv_heads = std::max<std::int64_t>(1, made.heads >> below(4));
    made.layers = static_cast<std::int64_t>(2 + below(100));
    made.ffn = made.hidden * one_of<std::int64_t>({2, 3, 4}) + 64 * one_of<std::int64_t>({0, 1});
    made.vocab = one_of<std::int64_t>({32000, 50257, 128256, 151936});
    made.tied_embeddings = below(4) == 0;
    if (below(3) == 0) {
      made.experts = std::int64_t{4} << below(7);
      made.experts_per_token = 1 + static_cast<std::int64_t>(below(4));
      made.expert_ffn = 128 * static_cast<std::int64_t>(1 + below(32));
      made.shared_experts = static_cast<std::int64_t>(below(3));
      made.dense_layers = std::min(made.layers - 1, static_cast<std::int64_t>(below(4)));
    }
    return made;
  }

  /// Some runs of the question's model, on as many GPUs or on one.
  Json learnt(const Json& asked) {
    Json runs = Json::array();
    for (auto left = below(12); left > 0; --left) {
      const auto gpus = below(2) == 0 ? asked.at("gpus").get<std::int64_t>() : 1;
      const bool oom = below(4) == 0;
      Json run = {{"model", 0}, {"gpus", gpus}, {"seq_len", asked.at("seq_len")},
          {"dtype", asked.at("dtype")},
          {"layout",
              "dp=" + std::to_string(gpus) + " mb=" + std::to_string(1 + below(3)) +
                  " ga=2 zero=" + std::to_string(below(4))},
          {"outcome", oom ? "oom" : "completed"}, {"runs", 1 + below(3)}};
      if (!oom) run["tokens_per_s_per_gpu"] = between(100, 20000);
      if (!oom) run["peak_bytes"] = std::int64_t{1} << (30 + below(7));
      runs.push_back(std::move(run));
    }
    return {{"name", "random"}, {"family", asked.at("family")},
        {"models", Json::array({asked.at("model")})}, {"runs", std::move(runs)}};
  }

  ClusterSpec some_cluster() {
    ClusterSpec made;
    made.name = "random";
    made.gpu = below(10) == 0 ? "" : "GPU";
    made.gpus_per_node = one_of<int>({4, 8, 8, 8, 16});
    made.memory_bytes = std::int64_t{1} << 30;
    made.memory_bytes *= one_of<std::int64_t>({24, 40, 80, 141, 192});
    if (below(8) != 0) {
      made.peak_flops = {
          between(1e14, 2e15), between(1e13, 1e14), between(1e13, 1e14), between(2e14, 4e15)};
    }
    if (below(6) != 0) made.memory_bandwidth = between(1e12, 8e12);
    if (below(6) != 0) made.intra_node_bandwidth = between(2e10, 9e11);
    if (below(6) != 0) made.inter_node_bandwidth = between(1e9, 1e11);
    if (below(3) == 0) made.inter_node_group_bandwidth = between(1e10, 3e11);
    made.intra_node_latency_us = between(0, 10);
    made.inter_node_latency_us = between(0, 30);
    made.gemm_efficiency = between(0.2, 0.9);
    made.attention_efficiency = between(0.2, 0.9);
    made.intra_node_efficiency = between(0.2, 0.9);
    made.inter_node_efficiency = between(0.2, 0.9);
    return made;
  }

  /// The card always; one of the slower ones in two of three questions.
  Json asks() {
    Json words = {"card", "why_not", "held", "flags", "sweep"};
    const auto more = below(6);
    if (more == 0) words.push_back("gpus");
    if (more == 1) words.push_back("splits");
    if (more == 2) words.push_back("batch");
    if (more == 3) words.push_back("sizes");
    return words;
  }

  /// Values of at most `most` axes of a layout, as a person types them.
  std::string settings(std::size_t most) {
    std::string text;
    std::array<bool, axis_table.size()> seen{};
    for (auto left = below(most + 1); left > 0; --left) {
      const auto at = below(axis_table.size());
      const auto& axis = axis_table.at(at);
      if (!axis.of_layout() || seen.at(at)) continue;
      seen.at(at) = true;
      const auto width =
          static_cast<std::size_t>(std::min<std::int64_t>(axis.maximum - axis.minimum + 1, 5));
      const auto step = static_cast<std::int64_t>(below(width));
      const bool wide = axis.maximum - axis.minimum > 16;
      const auto value = wide ? std::int64_t{1} << step : axis.minimum + step;
      text += (text.empty() ? "" : " ") + std::string(axis.name) + "=" + axis_text(axis, value);
    }
    return text;
  }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "ask" && argc == 4) {
    Asker asker(std::stoull(argv[3]));
    for (auto left = std::stoull(argv[2]); left > 0; --left)
      std::cout << asker.question().dump() << '\n';
    return 0;
  }
  if (what == "answer") {
    for (std::string line; std::getline(std::cin, line);)
      std::cout << explore(line) << '\n';
    return 0;
  }
  std::cerr << "usage: explore_questions ask COUNT SEED | answer < QUESTIONS\n";
  return 2;
}
