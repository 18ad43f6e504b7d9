// SPDX-License-Identifier: Apache-2.0
#include "predict/layer_shape.hpp"
#include "predict/memory.hpp"

namespace shardsweep {
namespace {

std::int64_t all_of_attention(const ModelSpec& model) {
  if (!model.is_latent()) {
    const auto keys = model.kv_heads * model.head_size();
    return 2 * model.hidden * (model.query_width() + keys);
  }
  const auto latent = latent_attention(model);
  return latent.down + latent.norms + latent.up + latent.output;
}

// Parameters if each layer with experts has `experts` of them.
std::int64_t parameters_with(const ModelSpec& model, std::int64_t experts) {
  const auto attention = all_of_attention(model);
  const auto norms = 2 * model.hidden;
  const auto matrices = model.matrices_of_ffn() * model.hidden;
  const auto dense = matrices * model.ffn;
  const auto sparse =
      matrices * (model.expert_ffn * experts + model.shared_width()) + model.hidden * model.experts;
  const auto embeddings = model.tied_embeddings ? 1 : 2;
  const auto mtp = attention + norms + (model.experts > 0 ? sparse : dense) +
      mtp_projection(model) + mtp_norms(model);
  return model.layers * norms + model.with_attention() * attention + model.with_dense() * dense +
      model.with_experts() * sparse + model.state_layers * state_mixer(model) +
      embeddings * model.vocab * model.hidden + model.hidden + model.mtp_layers * mtp;
}

}  // namespace

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tp, std::int64_t multiple) {
  const auto step = tp * multiple;
  return (vocab + step - 1) / step * step;
}

std::int64_t parameters(const ModelSpec& model) {
  return parameters_with(model, model.experts);
}

std::int64_t active_parameters(const ModelSpec& model) {
  return parameters_with(model, model.experts_per_token);
}

}  // namespace shardsweep
