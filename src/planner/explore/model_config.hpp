// SPDX-License-Identifier: Apache-2.0
// A model's config.json, as Hugging Face's transformers publishes it, as the planner's model.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct ModelOfConfig {
  ModelSpec model;  ///< its note names the parts that predictions leave out
  /// Keys that are neither read nor known to change no prediction, in the file's order.
  std::vector<std::string> unknown;
};

/// Dense and mixture-of-experts decoders in the words of Llama, Mistral, Qwen, Gemma, Phi,
/// Mixtral, DeepSeek (with its latent attention and what predicts later tokens) and GPT-OSS; of
/// a model that also sees or hears, its text_config. `name` becomes the model's. Faults
/// (invalid_input): no JSON, a number that is missing or no whole number, or numbers that do
/// not belong together.
[[nodiscard]] Result<ModelOfConfig> model_of_config(std::string_view json, std::string name);

}  // namespace shardsweep
