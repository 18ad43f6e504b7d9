// SPDX-License-Identifier: Apache-2.0
#include "sweep/model_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using Found = std::optional<ShapeMistake>;

Found divides(std::string_view a, std::int64_t of, std::string_view b, std::int64_t by) {
  if (of % by == 0) return std::nullopt;
  return ShapeMistake{{}, fmt::format("'{}' ({}) is not a multiple of '{}' ({})", a, of, b, by)};
}

Found mistake_of_heads(const ModelSpec& model) {
  if (auto found = divides("heads", model.heads, "kv_heads", model.kv_heads)) return found;
  // RoPE turns pairs.
  if (model.head_dim > 0) return divides("head_dim", model.head_dim, "2", 2);
  return divides("hidden", model.hidden, "2 x heads", 2 * model.heads);
}

/// The first of some parts of a model that it says nothing of without `of`.
template <std::size_t Count>
Found mistake_without(const ModelSpec& model,
    const std::array<std::int64_t ModelSpec::*, Count>& parts, std::string_view of) {
  for (const auto& field : shape_fields) {
    const bool is_part = std::find(parts.begin(), parts.end(), field.member) != parts.end();
    if (!is_part || model.*field.member == 0) continue;
    return ShapeMistake{field.name, fmt::format("'{}' needs {}", field.name, of)};
  }
  return std::nullopt;
}

Found mistake_of_latents(const ModelSpec& model) {
  using M = ModelSpec;
  if (!model.is_latent())
    return mistake_without<3>(model, {&M::q_lora_rank, &M::qk_rope_head_dim, &M::v_head_dim},
        "'kv_lora_rank', the width of the latent that keys and values share");
  if (model.kv_heads != model.heads)
    return ShapeMistake{{},
        fmt::format("'kv_heads' is {}; with 'kv_lora_rank' each of the {} heads has keys and "
                    "values of its own",
            model.kv_heads, model.heads)};
  if (model.qk_rope_head_dim % 2 != 0 || model.qk_rope_head_dim >= model.head_size())
    return ShapeMistake{{},
        fmt::format(
            "'qk_rope_head_dim' is {}; it must be even and less than the {} values of a head",
            model.qk_rope_head_dim, model.head_size())};
  return std::nullopt;
}

Found mistake_of_experts(const ModelSpec& model) {
  using M = ModelSpec;
  if (model.experts == 0)
    return mistake_without<6>(model,
        {&M::experts_per_token, &M::expert_ffn, &M::shared_experts, &M::dense_layers,
            &M::expert_layers, &M::shared_ffn},
        "'experts', the number of experts of each layer");
  if (model.experts_per_token < 1 || model.experts_per_token > model.experts)
    return ShapeMistake{{},
        fmt::format("'experts_per_token' is {}; with {} experts it is 1 to {}",
            model.experts_per_token, model.experts, model.experts)};
  if (model.expert_ffn < 1)
    return ShapeMistake{{}, "'expert_ffn', the width of one expert, is missing"};
  if (model.dense_layers >= model.layers)
    return ShapeMistake{{},
        fmt::format("'dense_layers' ({}) leaves no layer with experts, as 'layers' is {}",
            model.dense_layers, model.layers)};
  return std::nullopt;
}

/// Counts of layers of a kind, and what each kind needs.
Found mistake_of_kinds(const ModelSpec& model) {
  using M = ModelSpec;
  if (model.ffn_matrices != 0 && model.ffn_matrices != 2)
    return ShapeMistake{"ffn_matrices",
        fmt::format(
            "'ffn_matrices' is {}; write 2 for a feed-forward part without a gate, or leave it out",
            model.ffn_matrices)};
  for (const auto& field : shape_fields) {
    constexpr std::array counts{&M::attention_layers, &M::ffn_layers, &M::state_layers,
        &M::window_layers, &M::expert_layers};
    if (std::find(counts.begin(), counts.end(), field.member) == counts.end()) continue;
    if (model.*field.member > model.layers)
      return ShapeMistake{field.name,
          fmt::format("'{}' ({}) is more than 'layers' ({})", field.name, model.*field.member,
              model.layers)};
  }
  if (model.expert_layers > model.layers - model.dense_layers ||
      model.with_experts() + model.with_dense() < model.with_experts())
    return ShapeMistake{"expert_layers",
        fmt::format("'expert_layers' ({}) is more than the layers that can have experts",
            model.expert_layers)};
  if (model.shared_ffn > 0 && model.shared_experts > 0)
    return ShapeMistake{"shared_ffn",
        "'shared_ffn' is all shared experts' width: leave 'shared_experts' out beside it"};
  if (model.state_layers > 0 && model.state_width == 0)
    return ShapeMistake{
        "state_layers", "'state_layers' needs 'state_width', what a mixer puts out"};
  if (model.with_attention() == 0)
    return ShapeMistake{"state_layers", "no layer has attention; such a model is not supported"};
  if (model.window_layers > 0 && model.window == 0)
    return ShapeMistake{"window_layers", "'window_layers' needs 'window', the tokens of it"};
  if (model.state_layers == 0)
    return mistake_without<2>(
        model, {&M::state_width, &M::state_keys}, "'state_layers', the number of such layers");
  return std::nullopt;
}

}  // namespace

std::vector<ShapeMistake> shape_mistakes(const ModelSpec& model) {
  std::vector<ShapeMistake> all;
  if (auto found = mistake_of_heads(model)) all.push_back(*std::move(found));
  if (auto found = mistake_of_latents(model)) all.push_back(*std::move(found));
  if (auto found = mistake_of_experts(model)) all.push_back(*std::move(found));
  if (auto found = mistake_of_kinds(model)) all.push_back(*std::move(found));
  return all;
}

std::string binary_length_meant(std::int64_t seq_len, std::int64_t tokens) {
  constexpr std::int64_t k = 1000;
  constexpr std::int64_t kibi = 1024;
  const auto binary = seq_len / k * kibi;
  if (seq_len <= 0 || seq_len % k != 0 || tokens % binary != 0) return {};
  return fmt::format(
      "; for a seq_len of {} write {}Ki, as {}k is {}", binary, seq_len / k, seq_len / k, seq_len);
}

}  // namespace shardsweep
