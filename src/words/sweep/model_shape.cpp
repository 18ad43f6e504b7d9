// SPDX-License-Identifier: Apache-2.0
#include "sweep/model_shape.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace shardsweep {
namespace {

using Found = std::optional<ShapeMistake>;

Found divides(std::string_view a, std::int64_t of, std::string_view b, std::int64_t by) {
  if (of % by == 0) return std::nullopt;
  return ShapeMistake{{},
                      fmt::format("'{}' ({}) is not a multiple of '{}' ({})", a, of, b, by)};
}

Found mistake_of_heads(const ModelSpec& model) {
  if (auto found = divides("heads", model.heads, "kv_heads", model.kv_heads)) return found;
  // RoPE turns pairs.
  if (model.head_dim > 0) return divides("head_dim", model.head_dim, "2", 2);
  return divides("hidden", model.hidden, "2 x heads", 2 * model.heads);
}

Found mistake_of_experts(const ModelSpec& model) {
  if (model.experts == 0) {
    for (const auto& field : shape_fields) {
      if (!field.optional || field.name == "head_dim" || model.*field.member == 0) continue;
      return ShapeMistake{
          field.name,
          fmt::format("'{}' needs 'experts', the number of experts of each layer", field.name)};
    }
    return std::nullopt;
  }
  if (model.experts_per_token < 1 || model.experts_per_token > model.experts)
    return ShapeMistake{{},
                        fmt::format("'experts_per_token' is {}; with {} experts it is 1 to {}",
                                    model.experts_per_token, model.experts, model.experts)};
  if (model.expert_ffn < 1)
    return ShapeMistake{{}, "'expert_ffn', the width of one expert, is missing"};
  if (model.dense_layers >= model.layers)
    return ShapeMistake{{},
                        fmt::format("'dense_layers' ({}) leaves no layer with experts, as "
                                    "'layers' is {}",
                                    model.dense_layers, model.layers)};
  return std::nullopt;
}

}  // namespace

std::vector<ShapeMistake> shape_mistakes(const ModelSpec& model) {
  std::vector<ShapeMistake> all;
  if (auto found = mistake_of_heads(model)) all.push_back(*std::move(found));
  if (auto found = mistake_of_experts(model)) all.push_back(*std::move(found));
  return all;
}

}  // namespace shardsweep
