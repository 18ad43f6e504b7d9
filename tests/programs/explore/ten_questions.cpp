// SPDX-License-Identifier: Apache-2.0
// ten_questions PRESETS: asks the planner what the Ultra-Scale Playbook answers in words, and
// prints both answers as a Markdown table. sweeps/EXPLORER.md holds it, and says why some
// differ. With the word `asked` it prints what it has asked, each as the state of the explorer's
// link: a browser asks that again.
#include "plan/advice.hpp"
#include "sweep/axis_setting.hpp"
#include "sweep/layout_text.hpp"
#include "text/numbers.hpp"
#include "text/pieces.hpp"

#include <shardsweep/load.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace shardsweep;

constexpr std::int64_t Mi = 1 << 20;

template <class T>
T sure(Result<T> result) {
  if (result) return *std::move(result);
  std::cerr << result.error().what << '\n';
  std::exit(1);
}

class Asker {
 public:
  Asker(std::filesystem::path presets, bool tells) : presets_(std::move(presets)), tells_(tells) {}

  /// On H100 nodes of eight, with Megatron-LM's habits.
  SuggestRequest request(const std::string& model, std::int32_t gpus, std::int64_t tokens,
      std::int32_t seq_len = 4096, const std::string& locks = "") const {
    SuggestRequest request;
    request.model = sure(load_model(model, presets_));
    request.cluster = sure(load_cluster("h100-8x", presets_));
    request.family = sure(find_family("megatron"));
    request.seq_len = seq_len;
    request.global_batch_tokens = tokens;
    request.locks = sure(read_layout_settings(locks));
    return sure(on_gpus(std::move(request), gpus));
  }

  std::string best(const SuggestRequest& request) const {
    tell(request);
    const auto judged = sure(judge_layouts(request));
    if (judged.fitting.empty()) return "nothing fits";
    const auto& first = judged.fitting.front();
    return fmt::format(
        "{} ({} tokens/s/GPU)", short_text(first.point), amount_text(first.tokens_per_s_per_gpu));
  }

  /// How much slower than free choice a part of a layout makes it; "does not fit".
  std::string price(const SuggestRequest& free, const std::string& part) const {
    tell(free, part);
    const double share = slower(free, part);
    return share > 1 ? "does not fit" : fmt::format("{:.0f} % slower", 100 * share);
  }

  /// 2: nothing fits.
  double slower(SuggestRequest request, const std::string& part) const {
    const auto best = sure(judge_layouts(request));
    request.locks = sure(read_layout_settings(part));
    const auto its = sure(judge_layouts(request));
    if (its.fitting.empty()) return 2;
    return std::max(0.0, 1 - best.fitting.front().guess.step_s / its.fitting.front().guess.step_s);
  }

  /// The first power of two of GPUs on which pure ZeRO 3 is a tenth slower than the best.
  std::string end_of_zero3(const std::string& model, std::int64_t tokens) const {
    constexpr std::int32_t most = 4096;
    constexpr double tenth = 0.1;
    for (std::int32_t gpus = 8; gpus <= most; gpus *= 2) {
      const auto asked = request(model, gpus, tokens);
      if (sure(judge_layouts(asked)).fitting.empty()) continue;
      constexpr auto pure = "zero=3 tp=1 pp=1 cp=1";
      if (const double less = slower(asked, pure); less > tenth) {
        tell(request(model, gpus / 2, tokens), pure);
        tell(asked, pure);
        return fmt::format("{}: {} GPUs ({})", model, grouped(gpus),
            less > 1 ? "it does not fit" : fmt::format("{:.0f} %", 100 * less));
      }
    }
    return fmt::format("{}: on none up to {}", model, grouped(most));
  }

  std::string batch(const SuggestRequest& request) const {
    tell(request);
    return sure(judge_batch(request)).text;
  }

  [[nodiscard]] bool tells() const { return tells_; }

 private:
  void tell(const SuggestRequest& request, const std::string& part = "") const {
    if (!tells_) return;
    std::string locks;
    for (const auto lock : split(part, ' ')) {
      const auto sign = lock.find('=');
      if (sign == std::string_view::npos) continue;
      locks += fmt::format(
          "{}\"{}\":\"{}\"", locks.empty() ? "" : ",", lock.substr(0, sign), lock.substr(sign + 1));
    }
    std::cout << fmt::format(
        R"({{"model":"{}","gpus":{},"seq_len":{},"batch_tokens":"{}","locks":{{{}}}}})"
        "\n",
        request.model.name, request.gpus, request.seq_len, request.global_batch_tokens, locks);
  }

  static std::string short_text(const Point& point) {
    const auto& is = point.layout;
    std::string text = fmt::format("dp {} × tp {} × pp {}", is.dp, is.tp, is.pp);
    if (is.cp > 1) text += fmt::format(" × cp {}", is.cp);
    if (is.ep > 1) text += fmt::format(", ep {}", is.ep);
    text += fmt::format(
        ", ZeRO {}, micro_batch {}, grad_accum {}", is.zero, is.micro_batch, is.grad_accum);
    if (is.recompute != Recompute::none)
      text +=
          fmt::format(", {} recompute", recompute_words.at(static_cast<std::size_t>(is.recompute)));
    return text;
  }

  std::filesystem::path presets_;
  bool tells_;
};

void row(const Asker& ask, int number, std::string_view question, std::string_view text,
    std::initializer_list<std::string> answers) {
  if (ask.tells()) return;
  std::string all;
  for (const auto& answer : answers)
    all += (all.empty() ? "" : "<br>") + answer;
  std::cout << fmt::format("| {} | {} | {} | {} |\n", number, question, text, all);
}

void fitting_questions(const Asker& ask) {
  row(ask, 1, "a model below 10B on 8 GPUs: how does a step fit?",
      "TP 8, or ZeRO 3 with full recompute",
      {"8B: " + ask.best(ask.request("llama-3-8b", 8, Mi)),
          "with tp=8: " + ask.price(ask.request("llama-3-8b", 8, Mi), "tp=8"),
          "with zero=3 recompute=full: " +
              ask.price(ask.request("llama-3-8b", 8, Mi), "zero=3 recompute=full")});
  const auto large = ask.request("llama-3-70b", 512, 4 * Mi);
  row(ask, 2, "10B to 100B, many GPUs?", "TP 8 with PP, or TP 8 with ZeRO 3, or ZeRO 3 alone",
      {"70B on 512: " + ask.best(large), "with tp=8 and pp: " + ask.price(large, "tp=8 pp=2"),
          "with tp=8 zero=3: " + ask.price(large, "tp=8 zero=3 pp=1"),
          "with zero=3 alone: " + ask.price(large, "zero=3 tp=1 pp=1")});
  const auto huge = ask.request("llama-3.1-405b", 2048, 16 * Mi, 8192);
  row(ask, 3, "above 100B?", "TP 8 + PP + DP with ZeRO 2",
      {"405B on 2,048: " + ask.best(huge), "with tp=8 zero=1: " + ask.price(huge, "tp=8 zero=1"),
          "with zero=2: " + ask.price(huge, "tp=8 zero=2")});
}

void scaling_questions(const Asker& ask) {
  row(ask, 4, "from how many GPUs on does pure ZeRO 3 lose (by a tenth)?", "about 512",
      {ask.end_of_zero3("llama-3-8b", 4 * Mi), ask.end_of_zero3("llama-3-70b", 4 * Mi),
          "70B, 16Mi tokens: " + ask.end_of_zero3("llama-3-70b", 16 * Mi)});
  row(ask, 5, "1,024 GPUs and more?", "TP 8 + ZeRO 2 + PP, CP for long sequences, EP for MoE",
      {"70B on 1,024, 8Mi tokens: " + ask.best(ask.request("llama-3-70b", 1024, 8 * Mi)),
          "32k tokens: " + ask.best(ask.request("llama-3-70b", 1024, 8 * Mi, 32768)),
          "Mixtral: " + ask.best(ask.request("mixtral-8x7b", 1024, 8 * Mi))});
  const auto few = ask.request("llama-3-8b", 2, Mi);
  row(ask, 6, "few GPUs: what helps?", "full recompute, more accumulation, smaller micro-batch",
      {"8B on 2: " + ask.best(few), "on 4: " + ask.best(ask.request("llama-3-8b", 4, Mi))});
  const auto lengthy = ask.request("llama-3-8b", 64, 8 * Mi, 131072);
  row(ask, 7, "128k tokens and more?", "context parallelism across nodes",
      {"8B on 64: " + ask.best(lengthy), "without cp: " + ask.price(lengthy, "cp=1"),
          "70B on 256: " + ask.best(ask.request("llama-3-70b", 256, 8 * Mi, 131072))});
}

void throughput_questions(const Asker& ask) {
  row(ask, 8, "the batch is too small, too large?",
      "more DP, accumulation (CP for long sequences); less of them",
      {"70B on 2,048: " + ask.batch(ask.request("llama-3-70b", 2048, 4 * Mi)),
          "70B on 2,048: " + ask.batch(ask.request("llama-3-70b", 2048, 32 * Mi))});
  const auto free = ask.request("llama-3-70b", 512, 4 * Mi);
  row(ask, 9, "order of levers for throughput?",
      "TP within the node; DP with ZeRO 3; PP when DP's traffic binds; micro-batch",
      {"70B on 512, without tp: " + ask.price(free, "tp=1"),
          "without ZeRO: " + ask.price(free, "zero=0"), "without pp: " + ask.price(free, "pp=1"),
          "with micro_batch 1: " + ask.price(free, "mb=1"),
          "with full recompute: " + ask.price(free, "recompute=full")});
  row(ask, 10, "typical: 8; 16–64; 128–512; 1,024+ GPUs?",
      "TP 8 or ZeRO 3; TP 8 + PP or + ZeRO 3; TP 8 + PP + ZeRO 1/2; 5D",
      {"8B on 8: " + ask.best(ask.request("llama-3-8b", 8, 4 * Mi)),
          "70B on 64: " + ask.best(ask.request("llama-3-70b", 64, 4 * Mi)),
          "70B on 256: " + ask.best(ask.request("llama-3-70b", 256, 4 * Mi)),
          "405B on 1,024: " + ask.best(ask.request("llama-3.1-405b", 1024, 16 * Mi, 8192))});
}

}  // namespace

int main(int argc, char** argv) {
  const bool tells = argc == 3 && argv[2] == std::string_view("asked");
  if (argc != 2 && !tells) {
    std::cerr << "usage: ten_questions PRESETS [asked]\n";
    return 2;
  }
  const Asker ask(argv[1], tells);
  if (!tells) std::cout << "| # | question | the textbook | the planner |\n|---|---|---|---|\n";
  fitting_questions(ask);
  scaling_questions(ask);
  throughput_questions(ask);
  return 0;
}
