// SPDX-License-Identifier: Apache-2.0
// published_runs PRESETS FILE: asks the planner for the layout of training runs that others have
// published, and prints both as a Markdown table. sweeps/EXPLORER.md holds it, and says why some
// differ.
#include "plan/suggest.hpp"
#include "predict/predictor.hpp"
#include "predict/time_model.hpp"
#include "sweep/axis_setting.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"

#include <shardsweep/axis_table.hpp>
#include <shardsweep/load.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace shardsweep;
using Json = nlohmann::ordered_json;

template <class T>
T sure(Result<T> result) {
  if (result) return *std::move(result);
  std::cerr << result.error().what << '\n';
  std::exit(1);
}

ModelSpec model_of(const Json& run, const std::filesystem::path& presets) {
  const auto& said = run.at("model");
  if (said.is_string()) return sure(load_model(said.get<std::string>(), presets));
  const auto count = [&](const char* key) { return said.value(key, std::int64_t{0}); };
  ModelSpec model;
  model.name = run.at("run").get<std::string>();
  model.layers = count("layers");
  model.hidden = count("hidden");
  model.ffn = count("ffn");
  model.heads = count("heads");
  model.kv_heads = count("kv_heads");
  model.head_dim = count("head_dim");
  model.vocab = count("vocab");
  model.ffn_matrices = count("ffn_matrices");
  model.tied_embeddings = said.value("tied_embeddings", false);
  return model;
}

ClusterSpec cluster_of(const Json& run, const std::filesystem::path& presets) {
  auto cluster = sure(load_cluster(run.at("cluster").get<std::string>(), presets));
  const auto changes = run.value("changes", Json::object());
  cluster.gpu = changes.value("gpu", cluster.gpu);
  cluster.memory_bytes = changes.value("memory_bytes", cluster.memory_bytes);
  cluster.memory_bandwidth = changes.value("memory_bandwidth", cluster.memory_bandwidth);
  cluster.intra_node_bandwidth =
      changes.value("intra_node_bandwidth", cluster.intra_node_bandwidth);
  cluster.inter_node_bandwidth =
      changes.value("inter_node_bandwidth", cluster.inter_node_bandwidth);
  if (changes.contains("peak_bf16"))
    cluster.peak_flops.at(peak_index(Dtype::bf16)) = changes.at("peak_bf16").get<double>();
  return cluster;
}

SuggestRequest request_of(const Json& run, const std::filesystem::path& presets) {
  SuggestRequest request;
  request.model = model_of(run, presets);
  request.cluster = cluster_of(run, presets);
  request.family = sure(find_family(run.at("family").get<std::string>()));
  request.seq_len = run.at("seq_len").get<std::int32_t>();
  request.global_batch_tokens = run.at("batch").get<std::int64_t>() * request.seq_len;
  if (run.value("dtype", "") == "fp8") request.dtype = Dtype::fp8;
  return sure(on_gpus(std::move(request), run.at("gpus").get<std::int32_t>()));
}

/// Tokens per second and GPU; 0: not published. With full recomputation hardware does four thirds
/// of the model's FLOPs.
double published_speed(const Json& run, const SuggestRequest& request) {
  if (!run.contains("speed")) return 0;
  const auto& speed = run.at("speed");
  const auto number = [&](const char* key) { return speed.value(key, 0.0); };
  if (number("tokens_per_s_per_gpu") > 0) return number("tokens_per_s_per_gpu");
  if (number("step_s") > 0)
    return static_cast<double>(request.global_batch_tokens) / number("step_s") / request.gpus;
  constexpr double tera = 1e12;
  constexpr double without_recomputation = 0.75;
  double flops = number("mfu") * request.cluster.peak(Dtype::bf16).value_or(0);
  if (number("tflops") > 0) flops = number("tflops") * tera;
  if (number("hardware_tflops") > 0)
    flops = number("hardware_tflops") * tera * without_recomputation;
  return flops / flops_per_token(request.model, request.seq_len);
}

using Split = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;

Split split_of(const SuggestedLayout& layout) {
  const auto& is = layout.point.layout;
  return {is.tp, is.pp, is.cp, is.ep};
}

/// Of the splits into dp, tp, pp, cp and ep, how many have a faster layout that fits, and one.
std::int64_t place_of(const std::vector<SuggestedLayout>& fitting, const SuggestedLayout& its) {
  std::set<Split> faster;
  for (const auto& one : fitting)
    if (one.guess.step_s < its.guess.step_s) faster.insert(split_of(one));
  faster.erase(split_of(its));
  return static_cast<std::int64_t>(faster.size()) + 1;
}

struct Totals {
  int runs = 0, first_two = 0, near = 0, in_doubt = 0, never = 0;
  std::vector<double> off;
};

void print_row(const Json& run, const std::filesystem::path& presets, Totals& totals) {
  const auto request = request_of(run, presets);
  const auto all = sure(judge_layouts(request));
  auto held = request;
  held.locks = sure(read_layout_settings(run.at("layout").get<std::string>()));
  const auto team = sure(judge_layouts(held));
  // Its speed with what else is known of the run.
  auto as_run = request;
  as_run.locks = sure(read_layout_settings(
      run.at("layout").get<std::string>() + " " + run.value("details", std::string())));
  const auto same = sure(judge_layouts(as_run));

  ++totals.runs;
  constexpr double close = 0.05;
  std::string place = "does not fit";
  if (!team.fitting.empty()) {
    const auto& its = team.fitting.front();
    const auto at = place_of(all.fitting, its);
    const double gap = 1 - all.fitting.front().guess.step_s / its.guess.step_s;
    totals.first_two += at <= 2 ? 1 : 0;
    totals.near += at <= 2 || gap <= close ? 1 : 0;
    place = fmt::format("{}, {:.0f} % slower", at, 100 * std::max(0.0, gap));
  } else if (!team.doubtful.empty()) {
    ++totals.in_doubt;
    place = "in doubt";
  } else {
    ++totals.never;
    place += ": " + team.why_left_out;
  }
  const double published = published_speed(run, request);
  std::string ratio = "–";
  // It ran, so that it fits: the fastest of what is sure and of what is in doubt.
  auto ran = same.fitting;
  ran.insert(ran.end(), same.doubtful.begin(), same.doubtful.end());
  const auto fastest = std::min_element(ran.begin(), ran.end(),
      [](const auto& a, const auto& b) { return a.guess.step_s < b.guess.step_s; });
  if (published > 0 && fastest != ran.end()) {
    const auto& point = fastest->point;
    const auto guess = Predictor(request.cluster, *request.family)
                           .guess(request.model, point, traits_of_kernel(run.value("kernel", "")));
    const double of = speed_of(guess.step_s, point) / published;
    totals.off.push_back(std::abs(of - 1));
    ratio = fmt::format("{:.2f}", of);
  }
  const bool with_stops = run.contains("speed") && run.at("speed").value("with_stops", false);
  std::cout << fmt::format("| {} on {}, {} | {} | {} | {} | {} | {} | {} |\n",
      run.at("run").get<std::string>(), grouped(request.gpus), run.at("year").get<int>(),
      run.at("layout").get<std::string>(),
      published > 0 ? amount_text(published) + (with_stops ? " with stops" : "") : "–",
      all.fitting.empty() ? "nothing fits"
                          : fmt::format("{} ({})", layout_text(all.fitting.front().point),
                                amount_text(all.fitting.front().tokens_per_s_per_gpu)),
      place, ratio, run.at("source").get<std::string>());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: published_runs PRESETS FILE\n";
    return 2;
  }
  std::ifstream file(argv[2]);
  const auto runs = Json::parse(file);
  std::cout
      << "| run | the team's layout | tokens/s/GPU | suggest | the team's place | predicted / "
         "published | source |\n|---|---|---|---|---|---|---|\n";
  Totals totals;
  for (const auto& run : runs)
    print_row(run, argv[1], totals);
  auto& off = totals.off;
  std::sort(off.begin(), off.end());
  const double median = off.empty() ? 0 : (off[(off.size() - 1) / 2] + off[off.size() / 2]) / 2;
  std::cout << fmt::format(
      "\nOf {} runs the team's split is first or second in {}, or within 5 % "
      "of the first in {}; in doubt are {}, certain not to fit {}. Predicted "
      "speeds are off by {:.0f} % in the median of {}.\n",
      totals.runs, totals.first_two, totals.near, totals.in_doubt, totals.never, 100 * median,
      off.size());
  return 0;
}
