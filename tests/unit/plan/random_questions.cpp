// SPDX-License-Identifier: Apache-2.0
#include "unit/plan/random_questions.hpp"

#include "plan/refine.hpp"
#include "sweep/layout_text.hpp"
#include "unit/sweep_fixture.hpp"

#include <shardsweep/axis_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace shardsweep::testing {
namespace {

ModelSpec dense(std::string name, std::int64_t layers, std::int64_t hidden, std::int64_t ffn,
    std::int64_t heads, std::int64_t kv_heads, std::int64_t vocab) {
  return {.name = std::move(name),
      .layers = layers,
      .hidden = hidden,
      .ffn = ffn,
      .heads = heads,
      .kv_heads = kv_heads,
      .vocab = vocab};
}

std::vector<ModelSpec> known_models() {
  auto gpt = dense("gpt-176b", 70, 14336, 57344, 112, 112, 250880);
  gpt.ffn_matrices = 2;
  gpt.tied_embeddings = true;
  auto mixtral = dense("mixtral", 32, 4096, 14336, 32, 8, 32000);
  mixtral.experts = 8;
  mixtral.experts_per_token = 2;
  mixtral.expert_ffn = 14336;
  auto qwen = dense("qwen-30b", 48, 2048, 6144, 32, 4, 151936);
  qwen.head_dim = 128;
  qwen.experts = 128;
  qwen.experts_per_token = 8;
  qwen.expert_ffn = 768;
  auto latent = dense("latent-671b", 61, 7168, 18432, 128, 128, 129280);
  latent.head_dim = 192;
  latent.experts = 256;
  latent.experts_per_token = 8;
  latent.expert_ffn = 2048;
  latent.shared_experts = 1;
  latent.dense_layers = 3;
  latent.kv_lora_rank = 512;
  latent.q_lora_rank = 1536;
  latent.qk_rope_head_dim = 64;
  latent.v_head_dim = 128;
  latent.mtp_layers = 1;
  auto tied = dense("tied-3b", 36, 2048, 11008, 16, 4, 128256);
  tied.tied_embeddings = true;
  return {llama3_8b(), dense("70b", 80, 8192, 28672, 64, 8, 128256),
      dense("405b", 126, 16384, 53248, 128, 8, 128256),
      dense("13b", 40, 5120, 13824, 40, 40, 32000), dense("1b", 16, 2048, 8192, 32, 8, 128256), gpt,
      mixtral, qwen, latent, tied};
}

}  // namespace

ModelSpec RandomQuestions::model() {
  static const auto known = known_models();
  if (below(3) != 0) return known.at(below(known.size()));
  // One after the other: the order of arguments is the compiler's.
  auto made = dense("random", 0, 0, 0, 0, 0, 0);
  made.layers = static_cast<std::int64_t>(8 + below(90));
  made.heads = one_of<std::int64_t>({8, 16, 24, 32, 40, 48, 64, 96});
  made.vocab = one_of<std::int64_t>({32000, 50257, 128256, 262144});
  made.hidden = made.heads * 128;
  made.kv_heads = made.heads / one_of<std::int64_t>({1, 2, 4, 8});
  made.ffn = made.hidden / 2 * one_of<std::int64_t>({5, 7, 8});
  made.ffn_matrices = below(3) == 0 ? 2 : 0;
  if (below(3) == 0) {
    made.experts = one_of<std::int64_t>({8, 16, 60, 64, 160});
    made.experts_per_token = one_of<std::int64_t>({1, 2, 4, 6});
    made.expert_ffn = 256 * static_cast<std::int64_t>(2 + below(10));
    made.shared_experts = static_cast<std::int64_t>(below(3));
    made.dense_layers = static_cast<std::int64_t>(below(3));
  }
  return made;
}

ClusterSpec RandomQuestions::cluster() {
  auto made = h100();
  switch (below(4)) {
    case 0:  // eight A100
      made.memory_bytes = one_of<std::int64_t>({40, 80}) << 30;
      made.peak_flops = {312e12, std::nullopt, std::nullopt};
      made.memory_bandwidth = 2e12;
      made.intra_node_bandwidth = 300e9;
      made.inter_node_bandwidth = 25e9;
      break;
    case 1:  // four with a slow network
      made.gpus_per_node = 4;
      made.memory_bytes = std::int64_t{64} << 30;
      made.inter_node_bandwidth = 12.5e9;
      break;
    default:
      break;
  }
  return made;
}

SuggestRequest RandomQuestions::next(std::int32_t most_gpus) {
  constexpr std::array<std::int32_t, 19> sizes{
      1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048};
  for (;;) {
    SuggestRequest asked;
    asked.model = model();
    asked.cluster = cluster();
    asked.family = &families()[below(families().size())];
    asked.seq_len = one_of({2048, 4096, 4096, 8192, 32768, 131072});
    const auto fitting = std::upper_bound(sizes.begin(), sizes.end(), most_gpus) - sizes.begin();
    const auto gpus = sizes.at(below(static_cast<std::size_t>(fitting)));
    asked.global_batch_tokens = std::int64_t{1} << (18 + below(7));
    asked.global_batch_tokens *= one_of({1, 1, 3, 5});
    asked.global_batch_tokens = std::max<std::int64_t>(asked.global_batch_tokens, asked.seq_len);
    if (auto made = on_gpus(asked, gpus); made && made->model.unpredicted().empty())
      return *std::move(made);
  }
}

/// Of a layout; parts in the host's memory have an answer of their own.
const AxisInfo& RandomQuestions::some_axis() {
  for (;;) {
    const auto& axis = axes()[below(axes().size())];
    if (axis.of_layout() && axis.name != "offload") return axis;
  }
}

std::int64_t RandomQuestions::some_value(const AxisInfo& axis) {
  constexpr std::int64_t small = 12;
  const auto width = static_cast<std::size_t>(std::min(axis.maximum, small) - axis.minimum + 1);
  if (axis.kind == AxisKind::word)
    return axis.minimum + static_cast<std::int64_t>(below(axis.words.size()));
  if (axis.name == "bucket_mb") return one_of<std::int64_t>({1, 10, 50, 200, 1000, 8192, 65536});
  if (axis.maximum > 100 && below(3) == 0)
    return one_of<std::int64_t>({16, 20, 24, 32, 35, 48, 64, 128, 256});
  return axis.minimum + static_cast<std::int64_t>(below(width));
}

namespace {

/// Values of an axis with which a layout of the question may start.
std::vector<std::int64_t> values_of(const SuggestRequest& request, const AxisInfo& axis) {
  constexpr std::int64_t most_pieces = 12;
  constexpr std::int64_t most_samples = 32;
  const auto samples = request.global_batch_tokens / request.seq_len;
  if (axis.name == "bucket_mb") return {axis.default_value};
  if (axis.name == "micro_batch") return divisors(samples, most_samples);
  if (axis.name == "grad_accum") return divisors(samples, samples);
  if (axis.is(AxisUse::degree) || axis.name == "dp_replicate" || axis.name == "expert_tp") {
    auto degrees = divisors(request.gpus, request.gpus);
    if (axis.minimum == 0) degrees.push_back(0);
    return degrees;
  }
  std::vector<std::int64_t> values;
  for (auto value = axis.minimum; value <= std::min(axis.maximum, most_pieces); ++value)
    values.push_back(value);
  return values;
}

/// The answer to a question, and what has been held against it.
class Duel {
 public:
  explicit Duel(const SuggestRequest& request) : request_(request) {
    if (auto judged = judge_layouts(request)) answer_ = std::move(judged->fitting);
  }

  [[nodiscard]] const std::vector<SuggestedLayout>& answer() const { return answer_; }
  [[nodiscard]] const Tried& tried() const { return tried_; }

  void hold(const std::vector<AxisValues>& locks) {
    auto held = request_;
    held.locks = locks;
    const auto its = judge_layouts(held);
    if (!its || its->fitting.empty()) return;
    ++tried_.locks;
    const auto& layout = its->fitting.front();
    const double gap = answer_.empty() ? 1 : 1 - layout.guess.step_s / answer_.front().guess.step_s;
    if (gap <= tried_.gap) return;
    tried_.gap = gap;
    tried_.locked = layout_text(layout.point);
    if (locks.size() == 1)
      tried_.locked += fmt::format(" by {}={}", locks.front().axis->name,
          axis_text(*locks.front().axis, locks[0].values[0]));
  }

 private:
  const SuggestRequest& request_;
  std::vector<SuggestedLayout> answer_;  // fastest first
  Tried tried_;
};

}  // namespace

Tried RandomQuestions::try_to_beat(const SuggestRequest& request, int axes_held, int layouts) {
  Duel duel(request);
  const auto& answer = duel.answer();
  for (; axes_held > 0; --axes_held) {
    const auto& axis = some_axis();
    duel.hold({{&axis, false, {some_value(axis)}}});
  }
  for (int made = 0; made < layouts; ++made) {
    Point point = world_of(request);
    const auto best = std::min<std::size_t>(answer.size(), 1 + below(3));
    if (!answer.empty()) point.layout = answer.at(below(best)).point.layout;
    for (auto changes = 1 + below(answer.empty() ? 6 : 3); changes > 0; --changes) {
      const auto& axis = some_axis();
      axis.set(point, some_value(axis));
    }
    std::vector<AxisValues> locks;
    for (const auto& axis : axes()) {
      if (axis.of_layout() && !axis.allows_auto) locks.push_back({&axis, false, {axis.get(point)}});
    }
    duel.hold(locks);
  }
  return duel.tried();
}

Tried RandomQuestions::try_each_lock(const SuggestRequest& request) {
  Duel duel(request);
  for (const auto& axis : axes()) {
    if (!axis.of_layout() || axis.name == "offload") continue;
    for (const auto value : values_of(request, axis))
      duel.hold({{&axis, false, {value}}});
  }
  return duel.tried();
}

std::string question_text(const SuggestRequest& request) {
  return fmt::format("{}, {} of {} GPUs, seq_len {}, {} tokens, {}", request.model.name,
      request.gpus, request.cluster.gpus_per_node, request.seq_len, request.global_batch_tokens,
      request.family->name);
}

}  // namespace shardsweep::testing
