// SPDX-License-Identifier: Apache-2.0
// Several names stand for one number: each row of `numbers` lists them, the most specific
// first. What the planner has no formula for is named in the model's note, so that a card can
// say what its numbers leave out; what changes neither memory nor time of a train step is in
// `without_effect`; every other key is unknown, and named.
#include "explore/model_config.hpp"

#include "sweep/model_shape.hpp"
#include "text/characters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::ordered_json;

struct NumberOfConfig {
  std::int64_t ModelSpec::*member;
  std::string_view what;
  bool required;
  std::array<std::string_view, 4> names;
};
constexpr bool required = true;
constexpr std::array<NumberOfConfig, 17> config_numbers{{
    {&ModelSpec::layers, "layers", required, {"num_hidden_layers", "n_layer", "num_layers"}},
    {&ModelSpec::hidden, "hidden size", required, {"hidden_size", "n_embd", "d_model"}},
    {&ModelSpec::heads, "attention heads", required, {"num_attention_heads", "n_head", "n_heads"}},
    {&ModelSpec::vocab, "vocabulary", required, {"vocab_size"}},
    {&ModelSpec::ffn, "width of the feed-forward part", false,
        {"intermediate_size", "ffn_dim", "n_inner"}},
    {&ModelSpec::kv_heads, "key and value heads", false, {"num_key_value_heads"}},
    {&ModelSpec::head_dim, "values of a head", false, {"head_dim"}},
    {&ModelSpec::experts, "experts", false,
        {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"}},
    {&ModelSpec::experts_per_token, "experts of a token", false,
        {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"}},
    {&ModelSpec::expert_ffn, "width of an expert", false, {"moe_intermediate_size"}},
    {&ModelSpec::shared_experts, "shared experts", false, {"n_shared_experts"}},
    {&ModelSpec::dense_layers, "layers without experts", false, {"first_k_dense_replace"}},
    {&ModelSpec::kv_lora_rank, "latent of keys and values", false, {"kv_lora_rank"}},
    {&ModelSpec::q_lora_rank, "latent of queries", false, {"q_lora_rank"}},
    {&ModelSpec::qk_rope_head_dim, "rotary part of a head", false, {"qk_rope_head_dim"}},
    {&ModelSpec::v_head_dim, "values of a head's values", false, {"v_head_dim"}},
    {&ModelSpec::mtp_layers, "predicted tokens", false, {"num_nextn_predict_layers"}},
}};

/// Keys that change neither the memory nor the time of a train step, or that are read beside
/// the table.
constexpr auto without_effect = std::to_array<std::string_view>({"architectures", "model_type",
    "torch_dtype", "dtype", "transformers_version", "_name_or_path", "auto_map", "use_cache",
    "bos_token_id", "eos_token_id", "pad_token_id", "initializer_range", "hidden_act",
    "hidden_activation", "rms_norm_eps", "layer_norm_eps", "norm_epsilon", "rope_theta",
    "rope_scaling", "rope_parameters", "rope_local_base_freq", "rope_interleave",
    "partial_rotary_factor", "max_position_embeddings", "original_max_position_embeddings",
    "initial_context_length", "max_window_layers", "attention_bias", "attention_dropout",
    "attn_implementation", "_attn_implementation", "mlp_bias", "use_bias", "pretraining_tp",
    "tie_word_embeddings", "residual_dropout", "resid_pdrop", "embd_pdrop", "hidden_dropout",
    "query_pre_attn_scalar", "use_qk_norm", "use_bidirectional_attention", "output_router_logits",
    "router_aux_loss_coef", "router_jitter_noise", "norm_topk_prob", "aux_loss_alpha", "seq_aux",
    "scoring_func", "topk_method", "n_group", "topk_group", "routed_scaling_factor", "ep_size",
    "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers", "quantization_config",
    "layer_types", "sliding_window", "sliding_window_pattern", "use_sliding_window", "swiglu_limit",
    "attn_logit_softcapping", "final_logit_softcapping", "cache_implementation", "qk_head_dim",
    "qk_nope_head_dim", "shared_expert_intermediate_size", "text_config", "output_attentions",
    "output_hidden_states", "return_dict", "is_encoder_decoder"});

bool is_known(std::string_view key) {
  if (std::find(without_effect.begin(), without_effect.end(), key) != without_effect.end())
    return true;
  return std::any_of(config_numbers.begin(), config_numbers.end(), [&](const auto& one) {
    return std::find(one.names.begin(), one.names.end(), key) != one.names.end();
  });
}

tl::unexpected<Fault> refuse_config(std::string what) {
  return fault(FaultKind::invalid_input, "config.json: " + std::move(what));
}

/// 0: not there, or null.
Result<std::int64_t> number_at(const Json& config, std::string_view key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return 0;
  constexpr std::int64_t most = std::int64_t{1} << 26;
  if (!found->is_number_integer() || found->get<std::int64_t>() < 0 ||
      found->get<std::int64_t>() > most)
    return refuse_config(fmt::format("{} is no whole number from 0 to {}", in_quotes(key), most));
  return found->get<std::int64_t>();
}

std::string text_at(const Json& config, std::string_view key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

bool true_at(const Json& config, std::string_view key, bool otherwise) {
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

Result<void> read_numbers(const Json& config, ModelSpec& model) {
  for (const auto& number : config_numbers) {
    for (const auto name : number.names) {
      if (name.empty() || model.*number.member != 0) continue;
      SHARDSWEEP_ASSIGN(model.*number.member, number_at(config, name));
    }
    if (number.required && model.*number.member == 0)
      return refuse_config(
          fmt::format("it has no {} ({})", in_quotes(number.names.front()), number.what));
  }
  return {};
}

/// Families whose feed-forward part has two matrices and no gate.
bool has_no_gate(std::string_view type) {
  constexpr std::array<std::string_view, 9> types{
      "gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "phi", "starcoder2"};
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// Multi-head latent attention: heads have keys of their own, and 'head_dim' may be there and
/// mean the rotary part.
Result<void> complete_attention(const Json& config, ModelSpec& model) {
  if (model.kv_lora_rank == 0) {
    model.q_lora_rank = model.qk_rope_head_dim = model.v_head_dim = 0;
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    return {};
  }
  for (const std::string_view key : {"qk_nope_head_dim", "v_head_dim"}) {
    SHARDSWEEP_ASSIGN(const auto values, number_at(config, key));
    if (values == 0)
      return refuse_config(
          fmt::format("it has 'kv_lora_rank' (latent attention) and no {}", in_quotes(key)));
  }
  SHARDSWEEP_ASSIGN(const auto nope, number_at(config, "qk_nope_head_dim"));
  model.head_dim = nope + model.qk_rope_head_dim;
  model.kv_heads = model.heads;
  return {};
}

/// Defaults of transformers for what a file may leave out.
Result<void> complete(const Json& config, ModelSpec& model) {
  const auto type = text_at(config, "model_type");
  SHARDSWEEP_TRY(complete_attention(config, model));
  // Mixtral and GPT-OSS call an expert's width that of the layer.
  if (model.experts > 0 && model.expert_ffn == 0) model.expert_ffn = model.ffn;
  if (model.experts == 1) model.experts = model.experts_per_token = model.expert_ffn = 0;
  SHARDSWEEP_ASSIGN(const auto shared, number_at(config, "shared_expert_intermediate_size"));
  if (shared > 0 && model.expert_ffn > 0)
    model.shared_experts = std::max<std::int64_t>(1, shared / model.expert_ffn);
  if (model.ffn == 0 && has_no_gate(type)) model.ffn = 4 * model.hidden;
  if (model.ffn == 0) model.ffn = model.expert_ffn;
  if (model.ffn == 0) return refuse_config("it has no 'intermediate_size'");
  if (model.experts == 0) {
    model.experts_per_token = model.expert_ffn = 0;
    model.shared_experts = model.dense_layers = 0;
  }
  if (model.head_dim > 0 && model.head_dim * model.heads == model.hidden) model.head_dim = 0;
  const bool ties = type.starts_with("gemma");
  model.tied_embeddings = true_at(config, "tie_word_embeddings", ties);
  return {};
}

/// The parts that no formula of the planner knows, as words.
Result<std::vector<std::string>> left_out(const Json& config, const ModelSpec& model) {
  std::vector<std::string> parts;
  if (has_no_gate(text_at(config, "model_type")))
    parts.emplace_back("a feed-forward part without gate, counted with one");
  SHARDSWEEP_ASSIGN(const auto window, number_at(config, "sliding_window"));
  if (window > 0 && true_at(config, "use_sliding_window", true))
    parts.push_back(
        fmt::format("a sliding window of {} tokens, counted as full attention", window));
  SHARDSWEEP_ASSIGN(const auto values, number_at(config, "v_head_dim"));
  if (!model.is_latent() && values > 0 && values != model.head_size())
    parts.push_back(
        fmt::format("values of {} in each head, counted as {}", values, model.head_size()));
  SHARDSWEEP_ASSIGN(const auto step, number_at(config, "decoder_sparse_step"));
  const auto dense = config.find("mlp_only_layers");
  const bool some_dense = dense != config.end() && dense->is_array() && !dense->empty();
  if (model.experts > 0 && (step > 1 || some_dense))
    parts.emplace_back("layers without experts between those with experts");
  if (config.contains("linear_num_value_heads") || config.contains("ssm_state_size") ||
      config.contains("mamba_d_state"))
    parts.emplace_back("linear attention or state-space layers, counted as attention");
  return parts;
}

Result<void> check_ranges(const ModelSpec& model) {
  for (const auto& field : shape_fields) {
    if (model.*field.member > field.most)
      return refuse_config(fmt::format("{} is {}, more than {}",
          field.alias.empty() ? field.name : field.alias, model.*field.member, field.most));
  }
  const auto mistakes = shape_mistakes(model);
  if (!mistakes.empty()) return refuse_config(mistakes.front().what);
  return {};
}

}  // namespace

Result<ModelOfConfig> model_of_config(std::string_view json, std::string name) {
  const auto whole = Json::parse(json, nullptr, false);
  if (!whole.is_object()) return refuse_config("it is no JSON object");
  const auto text = whole.find("text_config");
  const bool sees = text != whole.end() && text->is_object();
  const Json& config = sees ? *text : whole;
  ModelOfConfig read;
  ModelSpec& model = read.model;
  model.name = std::move(name);
  SHARDSWEEP_TRY(read_numbers(config, model));
  SHARDSWEEP_TRY(complete(config, model));
  SHARDSWEEP_ASSIGN(auto parts, left_out(config, model));
  if (sees) parts.emplace_back("what is not text (text_config alone is read)");
  if (!parts.empty())
    model.note = fmt::format("Predictions leave out: {}.", fmt::join(parts, "; "));
  SHARDSWEEP_TRY(check_ranges(model));
  for (const auto& entry : config.items()) {
    if (!is_known(entry.key())) read.unknown.push_back(entry.key());
  }
  return read;
}

}  // namespace shardsweep
