// SPDX-License-Identifier: Apache-2.0
// Models with multi-head latent attention.
#pragma once

#include <shardsweep/model.hpp>

namespace shardsweep::testing {

/// Small enough to be counted by hand: heads of 16 + 8 values, values of 20.
inline ModelSpec small_latent() {
  return {.name = "small-latent",
      .layers = 2,
      .hidden = 64,
      .ffn = 96,
      .heads = 4,
      .kv_heads = 4,
      .vocab = 100,
      .head_dim = 24,
      .kv_lora_rank = 32,
      .q_lora_rank = 48,
      .qk_rope_head_dim = 8,
      .v_head_dim = 20};
}

/// Large enough that its products take longer than the host's launches.
inline ModelSpec dense_latent() {
  return {.name = "dense-latent",
      .layers = 32,
      .hidden = 4096,
      .ffn = 12288,
      .heads = 32,
      .kv_heads = 32,
      .vocab = 32768,
      .head_dim = 192,
      .kv_lora_rank = 512,
      .q_lora_rank = 1536,
      .qk_rope_head_dim = 64,
      .v_head_dim = 128};
}

/// arXiv 2412.19437, section 4.2.
inline ModelSpec deepseek_v3() {
  return {.name = "deepseek-v3",
      .layers = 61,
      .hidden = 7168,
      .ffn = 18432,
      .heads = 128,
      .kv_heads = 128,
      .vocab = 129280,
      .head_dim = 192,
      .experts = 256,
      .experts_per_token = 8,
      .expert_ffn = 2048,
      .shared_experts = 1,
      .dense_layers = 3,
      .kv_lora_rank = 512,
      .q_lora_rank = 1536,
      .qk_rope_head_dim = 64,
      .v_head_dim = 128,
      .mtp_layers = 1};
}

/// Its config.json: as DeepSeek-V3, with more experts, fewer heads and no MTP.
inline ModelSpec kimi_k2() {
  auto model = deepseek_v3();
  model.name = "kimi-k2";
  model.heads = model.kv_heads = 64;
  model.vocab = 163840;
  model.experts = 384;
  model.dense_layers = 1;
  model.mtp_layers = 0;
  return model;
}

/// DeepSeek-V2-Lite (arXiv 2405.04434, appendix B), whose queries have no latent.
inline ModelSpec deepseek_v2_lite() {
  return {.name = "deepseek-v2-lite",
      .layers = 27,
      .hidden = 2048,
      .ffn = 10944,
      .heads = 16,
      .kv_heads = 16,
      .vocab = 102400,
      .head_dim = 192,
      .experts = 64,
      .experts_per_token = 6,
      .expert_ffn = 1408,
      .shared_experts = 2,
      .dense_layers = 1,
      .kv_lora_rank = 512,
      .qk_rope_head_dim = 64,
      .v_head_dim = 128};
}

}  // namespace shardsweep::testing
