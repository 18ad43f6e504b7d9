// SPDX-License-Identifier: Apache-2.0
// Seconds of CPU that `suggest` takes for large questions with all axes open, and with what its
// command says beside the layouts: the least GPUs, and whether the batch is large enough. One JSON
// line each. With --check the exit code is 1 if one takes more than two seconds; with --answers
// the first layouts are printed, to hold two programs against each other.
#include "plan/advice.hpp"
#include "plan/suggest.hpp"
#include "sweep/layout_text.hpp"
#include "unit/sweep_fixture.hpp"

#include <fmt/format.h>

#include <ctime>
#include <string_view>
#include <vector>

namespace {

using namespace shardsweep;
using namespace shardsweep::testing;

/// As DeepSeek-V3: latent attention, 256 experts, a layer that predicts a later token.
ModelSpec latent() {
  ModelSpec model{.name = "latent-671b",
      .layers = 61,
      .hidden = 7168,
      .ffn = 18432,
      .heads = 128,
      .kv_heads = 128,
      .vocab = 129280};
  model.head_dim = 192;
  model.experts = 256;
  model.experts_per_token = 8;
  model.expert_ffn = 2048;
  model.shared_experts = 1;
  model.dense_layers = 3;
  model.kv_lora_rank = 512;
  model.q_lora_rank = 1536;
  model.qk_rope_head_dim = 64;
  model.v_head_dim = 128;
  model.mtp_layers = 1;
  return model;
}

ModelSpec dense() {
  return {.name = "405b",
      .layers = 126,
      .hidden = 16384,
      .ffn = 53248,
      .heads = 128,
      .kv_heads = 8,
      .vocab = 128256};
}

double cpu_s() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wants = argc > 1 ? argv[1] : "";
  constexpr double most_s = 2;
  bool slow = false;
  for (const auto& model : {latent(), dense(), llama3_8b()}) {
    for (const std::string_view family : {"megatron", "fsdp"}) {
      SuggestRequest asked;
      asked.model = model;
      asked.cluster = h100();
      asked.family = *find_family(family);
      asked.seq_len = 4096;
      asked.global_batch_tokens = std::int64_t{60} << 20;
      asked = on_gpus(asked, 2048).value();
      const double began = cpu_s();
      const auto suggestion = suggest(asked);
      const double took = cpu_s() - began;
      const auto least = least_gpus(asked);
      const auto batch = judge_batch(asked, suggestion->layouts);
      const double all = cpu_s() - began;
      slow = slow || all > most_s;
      fmt::print(
          "{{\"bench\": \"suggest\", \"model\": \"{}\", \"family\": \"{}\", \"gpus\": 2048, "
          "\"layouts\": {}, \"cpu_s\": {:.2f}, \"command_cpu_s\": {:.2f}}}\n",
          model.name, family, suggestion->layouts_judged, took, all);
      if (wants != "--answers") continue;
      fmt::print("{} of {}, least {} GPUs. {}\n", suggestion->layouts_fitting,
          suggestion->layouts_judged, least->value_or(0), batch->text);
      for (const auto& layout : suggestion->layouts)
        fmt::print("  {}: {:.17g} s, {} bytes. {}\n", layout_text(layout.point),
            layout.guess.step_s, layout.guess.memory.upper_bytes, layout.limit);
    }
  }
  return wants == "--check" && slow ? 1 : 0;
}
