// SPDX-License-Identifier: Apache-2.0
// Models as their config.json has them, written by hand after their published numbers.
#include "predict/memory.hpp"
#include "published/model_config.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace shardsweep;

namespace {

ModelSpec read(std::string_view json) {
  auto model = model_of_config(json, "model");
  INFO(json);
  REQUIRE_MESSAGE(model, (model ? "" : model.error().what));
  return *std::move(model);
}

std::string wrong(std::string_view json) {
  const auto model = model_of_config(json, "model");
  return model ? std::string() : model.error().what;
}

/// Billions of parameters.
double size_of(const ModelSpec& read) {
  return static_cast<double>(parameters(read)) / 1e9;
}

}  // namespace

TEST_CASE("null is no number, -1 none, and a list of layers tells how many there are") {
  const std::string mistral = R"({"model_type":"mistral","hidden_size":4096,"vocab_size":32000)";
  CHECK(read(mistral + "}").window == 4096);
  CHECK(read(mistral + R"(,"sliding_window":null})").window == 0);
  CHECK(read(mistral + R"(,"sliding_window":-1})").window == 0);
  CHECK(read(mistral + R"(,"num_key_value_heads":null})").kv_heads == 32);
  const std::string nemotron = R"({"model_type":"nemotron_h","hidden_size":2048,"vocab_size":1024)";
  CHECK(read(nemotron + R"(,"layers_block_type":["mamba","attention","mlp","mamba","mlp","mamba",
      "mlp","mamba","mlp"]})")
            .layers == 9);
}

TEST_CASE("dense models: Llama 3 8B and 70B, Mistral 7B, Qwen3 8B, Gemma 2 9B, Qwen2 0.5B") {
  const auto llama = read(R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,
    "num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":128256,
    "rope_theta":500000.0,"torch_dtype":"bfloat16","tie_word_embeddings":false})");
  CHECK(parameters(llama) == 8030261248);
  CHECK(llama.note.empty());
  const auto large = read(R"({"model_type":"llama","hidden_size":8192,"intermediate_size":28672,
    "num_attention_heads":64,"num_hidden_layers":80,"num_key_value_heads":8,"vocab_size":128256})");
  CHECK(size_of(large) == doctest::Approx(70.55).epsilon(0.001));
  const auto mistral = read(R"({"model_type":"mistral","hidden_size":4096,
    "intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
    "num_key_value_heads":8,"vocab_size":32000,"sliding_window":4096})");
  CHECK(size_of(mistral) == doctest::Approx(7.24).epsilon(0.001));
  CHECK(mistral.window == 4096);
  CHECK(mistral.with_window() == 32);
  CHECK(mistral.note.empty());
  const auto qwen = read(R"({"model_type":"qwen3","hidden_size":4096,"intermediate_size":12288,
    "num_attention_heads":32,"num_hidden_layers":36,"num_key_value_heads":8,"head_dim":128,
    "vocab_size":151936,"sliding_window":null,"use_sliding_window":false})");
  CHECK(size_of(qwen) == doctest::Approx(8.19).epsilon(0.002));
  CHECK(qwen.head_dim == 0);
  CHECK(qwen.note.empty());
  const auto gemma = read(R"({"model_type":"gemma2","hidden_size":3584,"intermediate_size":14336,
    "num_attention_heads":16,"num_hidden_layers":42,"num_key_value_heads":8,"head_dim":256,
    "vocab_size":256000})");
  CHECK(gemma.tied_embeddings);
  CHECK(size_of(gemma) == doctest::Approx(9.24).epsilon(0.002));
  const auto tiny = read(R"({"model_type":"qwen2","hidden_size":896,"intermediate_size":4864,
    "num_attention_heads":14,"num_hidden_layers":24,"num_key_value_heads":2,"vocab_size":151936,
    "tie_word_embeddings":true})");
  CHECK(size_of(tiny) == doctest::Approx(0.494).epsilon(0.002));
}

TEST_CASE("experts: Mixtral, Qwen3 30B-A3B, DeepSeek-V3, GPT-OSS 120B") {
  const auto mixtral = read(R"({"model_type":"mixtral","hidden_size":4096,
    "intermediate_size":14336,"num_attention_heads":32,"num_hidden_layers":32,
    "num_key_value_heads":8,"vocab_size":32000,"num_local_experts":8,"num_experts_per_tok":2})");
  CHECK(size_of(mixtral) == doctest::Approx(46.7).epsilon(0.001));
  const auto qwen = read(R"({"model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,
    "moe_intermediate_size":768,"num_attention_heads":32,"num_hidden_layers":48,
    "num_key_value_heads":4,"head_dim":128,"vocab_size":151936,"num_experts":128,
    "num_experts_per_tok":8,"decoder_sparse_step":1,"mlp_only_layers":[]})");
  CHECK(size_of(qwen) == doctest::Approx(30.5).epsilon(0.002));
  CHECK(static_cast<double>(active_parameters(qwen)) / 1e9 == doctest::Approx(3.35).epsilon(0.01));
  CHECK(qwen.note.empty());
  const auto deepseek = read(R"({"model_type":"deepseek_v3","hidden_size":7168,
    "intermediate_size":18432,"moe_intermediate_size":2048,"num_attention_heads":128,
    "num_key_value_heads":128,"num_hidden_layers":61,"vocab_size":129280,"n_routed_experts":256,
    "n_shared_experts":1,"num_experts_per_tok":8,"first_k_dense_replace":3,"kv_lora_rank":512,
    "q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
    "num_nextn_predict_layers":1})");
  CHECK(deepseek.note.empty());
  // By its report (arXiv 2412.19437) 671 B, and 11.5 B of the layer that predicts a second
  // token.
  CHECK(size_of(deepseek) == doctest::Approx(671 + 11.5).epsilon(0.001));
  CHECK(deepseek.dense_layers == 3);
  CHECK(deepseek.shared_experts == 1);
  const auto gpt = read(R"({"model_type":"gpt_oss","hidden_size":2880,"intermediate_size":2880,
    "num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"num_hidden_layers":36,
    "vocab_size":201088,"num_local_experts":128,"num_experts_per_tok":4,"experts_per_token":4,
    "sliding_window":128,"swiglu_limit":7.0})");
  CHECK(size_of(gpt) == doctest::Approx(116.8).epsilon(0.005));
  CHECK(gpt.expert_ffn == 2880);
}

// Keys and values as arXiv 2405.04434 has them: "DeepSeek-V2-Lite", 15.7 B parameters, 2.4 of
// them active. Its 'head_dim', if there is one, is the rotary part.
TEST_CASE("latent attention is read as it is, with and without a latent of the queries") {
  const std::string lite = R"("hidden_size":2048,"intermediate_size":10944,
    "moe_intermediate_size":1408,"num_attention_heads":16,"num_hidden_layers":27,
    "vocab_size":102400,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,
    "first_k_dense_replace":1,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128)";
  const auto read_lite = read(R"({"model_type":"deepseek_v2","kv_lora_rank":512,
    "q_lora_rank":null,"head_dim":64,"qk_head_dim":192,"num_key_value_heads":16,)" +
      lite + "}");
  const auto& model = read_lite;
  CHECK(model.kv_lora_rank == 512);
  CHECK(model.q_lora_rank == 0);
  CHECK(model.head_dim == 192);
  CHECK(model.qk_rope_head_dim == 64);
  CHECK(model.v_head_dim == 128);
  CHECK(model.kv_heads == 16);
  CHECK(model.mtp_layers == 0);
  CHECK(model.note.empty());
  CHECK(size_of(read_lite) == doctest::Approx(15.7).epsilon(0.003));
  CHECK(static_cast<double>(active_parameters(model)) / 1e9 - 0.21 ==  // without the embedding
      doctest::Approx(2.4).epsilon(0.03));
  const auto large = read(R"({"model_type":"deepseek_v2","kv_lora_rank":512,"q_lora_rank":1536,
    "num_nextn_predict_layers":2,)" +
      lite + "}");
  CHECK(large.q_lora_rank == 1536);
  CHECK(large.kv_heads == 16);
  CHECK(large.mtp_layers == 2);
  // Without kv_lora_rank the other words say nothing of attention.
  const auto plain = read("{" + lite + R"(,"q_lora_rank":1536,"head_dim":128})");
  CHECK(!plain.is_latent());
  CHECK(plain.q_lora_rank == 0);
  CHECK(plain.v_head_dim == 0);
  CHECK(plain.note.find("leave out") == std::string::npos);
  const auto narrow = read("{" + lite + R"(,"head_dim":192})");
  CHECK(narrow.note.find("values of 128 in each head, counted as 192") != std::string::npos);
}

TEST_CASE("a model that also sees is read by its text_config; unknown keys are named") {
  const auto seeing = read(R"({"model_type":"gemma3","vision_config":{"hidden_size":1152},
    "text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,
    "num_attention_heads":8,"num_hidden_layers":34,"num_key_value_heads":4,"head_dim":256,
    "vocab_size":262208,"sliding_window":1024,"new_trick":3,"other_trick":{}}})");
  CHECK(seeing.layers == 34);
  CHECK(seeing.note.find("its text part alone is read") != std::string::npos);
  CHECK(seeing.note.find("Not understood, and not counted: new_trick, other_trick.") !=
      std::string::npos);
  CHECK(seeing.with_window() == 29);  // each sixth layer sees all
}

TEST_CASE("mistakes of a config.json") {
  const std::string latent = R"({"num_hidden_layers":2,"hidden_size":64,"num_attention_heads":2,
    "vocab_size":10,"intermediate_size":8,"kv_lora_rank":)";
  CHECK(wrong(latent + R"(16,"v_head_dim":32})") ==
      "config.json: it has 'kv_lora_rank' (latent attention) but no 'qk_nope_head_dim'");
  CHECK(
      wrong(latent + R"(16,"qk_nope_head_dim":32})").find("no 'v_head_dim'") != std::string::npos);
  CHECK(wrong(latent + R"(70000,"qk_nope_head_dim":32,"v_head_dim":32})") ==
      "config.json: kv_lora_rank is 70000, more than 65536");
  CHECK(wrong(latent + R"(16,"qk_nope_head_dim":33,"v_head_dim":32,"qk_rope_head_dim":7})")
            .find("'qk_rope_head_dim' is 7; it must be even") != std::string::npos);
  CHECK(wrong("not json") == "config.json: the file is not a JSON object");
  CHECK(wrong("{}") ==
      "config.json: it has no 'num_hidden_layers', and no 'model_type' that would tell the "
      "default");
  CHECK(wrong(R"({"model_type":"quux"})").find("no default is known for model_type 'quux'") !=
      std::string::npos);
  CHECK(wrong(R"({"model_type":"t5"})").find("an encoder beside the decoder") != std::string::npos);
  CHECK(wrong(R"({"model_type":"llama","intermediate_size":[8,16]})").find("layer to layer") !=
      std::string::npos);
  CHECK(wrong(R"({"num_hidden_layers":"32"})").find("a whole number") != std::string::npos);
  CHECK(wrong(R"({"num_hidden_layers":2,"hidden_size":100,"num_attention_heads":3,
    "vocab_size":10,"intermediate_size":8})")
            .find("multiple") != std::string::npos);
}

TEST_CASE(
    "a feed-forward part without a gate has two matrices; a class says so, and what is tied") {
  const auto tiny = read(R"({"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":2,
    "vocab_size":100})");
  CHECK(tiny.ffn == 256);
  CHECK(tiny.ffn_matrices == 2);
  CHECK(tiny.tied_embeddings);
  CHECK(parameters(tiny) == 2 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 64) + 100 * 64 + 64);
  CHECK(read(R"({"model_type":"gpt_neox"})").tied_embeddings == false);
  CHECK(read(R"({"model_type":"cohere"})").tied_embeddings);
  CHECK(size_of(read(R"({"model_type":"falcon"})")) == doctest::Approx(6.92).epsilon(0.001));
}

TEST_CASE("key-value heads in the words of Falcon and BigCode") {
  CHECK(read(R"({"model_type":"gpt_bigcode"})").kv_heads == 1);
  CHECK(read(R"({"model_type":"gpt_bigcode","multi_query":false})").kv_heads == 12);
  CHECK(read(R"({"model_type":"falcon","new_decoder_architecture":true,"num_kv_heads":71})")
            .kv_heads == 71);
  CHECK(read(R"({"model_type":"falcon","multi_query":false})").kv_heads == 71);
}

TEST_CASE("values that a file leaves out are its class's; of Meta's file they are computed") {
  const auto text = read(R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text",
    "hidden_size":640,"num_hidden_layers":6}})");
  CHECK(text.heads == 8);
  CHECK(text.kv_heads == 4);
  CHECK(text.vocab == 262208);
  CHECK(text.tied_embeddings);
  const auto meta = read(R"({"dim":8192,"multiple_of":4096,"ffn_dim_multiplier":1.3,"n_heads":64,
    "n_kv_heads":8,"n_layers":80,"norm_eps":1e-5,"vocab_size":-1})");
  CHECK(parameters(meta) == 68976648192);
}

TEST_CASE("layers with experts between dense ones, and lists for one value per layer") {
  const auto apart = read(R"({"model_type":"llama4_text","num_hidden_layers":4,
    "interleave_moe_layer_step":2})");
  CHECK(apart.with_experts() == 2);
  CHECK(apart.with_dense() == 2);
  CHECK(apart.ffn == 16384);
  CHECK(apart.expert_ffn == 8192);
  CHECK(apart.shared_width() == 8192);
  const auto listed = read(R"({"model_type":"hunyuan_v1_moe","num_hidden_layers":2,
    "num_experts":4,"moe_topk":[2,2],"moe_intermediate_size":[64,64],"num_shared_expert":[1,1],
    "hidden_size":64,"num_attention_heads":4,"vocab_size":100})");
  CHECK(listed.experts_per_token == 2);
  CHECK(listed.expert_ffn == 64);
}

TEST_CASE("a hybrid's layers are counted by kind") {
  const auto hybrid = read(R"({"model_type":"nemotron_h","hybrid_override_pattern":"M-M*-",
    "num_hidden_layers":5,"hidden_size":64,"intermediate_size":96,"num_attention_heads":4,
    "num_key_value_heads":2,"head_dim":16,"vocab_size":100,"mamba_num_heads":8,
    "mamba_head_dim":16,"n_groups":1,"ssm_state_size":32})");
  CHECK(hybrid.with_attention() == 1);
  CHECK(hybrid.with_dense() == 2);
  CHECK(hybrid.state_layers == 2);
  CHECK(parameters(hybrid) ==
      5 * 2 * 64 + 2 * 64 * (64 + 32) + 2 * (2 * 64 * 96) + 2 * 64 * (3 * 128 + 2 * 36) +
          2 * 100 * 64 + 64);
  CHECK(hybrid.unpredicted() == "state-space or linear-attention layers");
  const auto parallel = read(R"({"model_type":"falcon_h1","num_hidden_layers":3})");
  CHECK(parallel.with_attention() == 3);
  CHECK(parallel.state_layers == 3);
  const auto every = read(R"({"model_type":"qwen3_next"})");
  CHECK(every.with_attention() == 12);
  CHECK(size_of(every) == doctest::Approx(79.6).epsilon(0.005));
}

TEST_CASE("what a class takes for values that a file leaves out is what its code says") {
  const auto sparse = read(R"({"model_type":"afmoe"})");
  CHECK(sparse.hidden == 2048);
  CHECK(sparse.experts == 64);
  CHECK(sparse.dense_layers == 1);
  CHECK(sparse.window == 1024);
  CHECK(sparse.with_window() == 24);
  CHECK(read(R"({"model_type":"recurrent_gemma"})").kv_heads == 10);
  CHECK(read(R"({"model_type":"qwen3_omni_moe_text","head_dim":128})").heads == 28);
  // ModernBERT: each third layer sees all, from the first one on.
  const auto local = read(R"({"model_type":"modernbert","global_attn_every_n_layers":3})");
  CHECK(local.window == 128);
  CHECK(local.with_window() == 14);
  const auto listed = read(R"({"model_type":"gpt_neo","num_layers":3,
    "attention_layers":["global","local","global"]})");
  CHECK(listed.with_window() == 1);
  // Two thirds, rounded up to multiples: 4437 becomes 4608, and 4608 stays.
  CHECK(read(R"({"model_type":"lfm2","block_ff_dim":6656})").ffn == 4608);
  CHECK(read(R"({"model_type":"lfm2","block_ff_dim":6913})").ffn == 4608);
  CHECK(read(R"({"model_type":"lfm2","block_ff_dim":6656,"block_multiple_of":128})").ffn == 4480);
  CHECK(wrong(R"({"model_type":"bamba"})").find("no layer has attention") != std::string::npos);
  CHECK(wrong(R"({"model_type":"granitemoehybrid"})").find("no layer has attention") !=
      std::string::npos);
  CHECK(wrong(R"({"model_type":"pixtral"})").find("it encodes images") != std::string::npos);
}

TEST_CASE("null is no window, and no latent where a file says so") {
  CHECK(read(R"({"model_type":"mistral","sliding_window":null})").window == 0);
  const auto plain = read(R"({"model_type":"deepseek_v2","use_mla":false,"kv_lora_rank":null,
    "q_lora_rank":null,"qk_nope_head_dim":0,"qk_rope_head_dim":0,"v_head_dim":0,
    "hidden_size":1280,"num_attention_heads":10,"num_experts_per_tok":6})");
  CHECK(!plain.is_latent());
  CHECK(plain.kv_heads == 10);
  CHECK(plain.note.empty());
}

TEST_CASE("defaults of classes whose code their publishers have") {
  // MiniCPM3-4B leaves v_head_dim out: its values are as wide as hidden / heads.
  const auto latent = read(R"({"model_type":"minicpm3","hidden_size":2560,
    "intermediate_size":6400,"num_hidden_layers":62,"num_attention_heads":40,
    "vocab_size":73448,"q_lora_rank":768,"kv_lora_rank":256})");
  CHECK(latent.head_dim == 96);
  CHECK(latent.v_head_dim == 64);
  CHECK(size_of(latent) == doctest::Approx(4.07).epsilon(0.01));
  const auto tied = read(R"({"model_type":"exaone"})");
  CHECK(tied.tied_embeddings);
  CHECK(tied.ffn == 8192);
  CHECK(read(R"({"model_type":"grok-1"})").experts == 8);
  CHECK(read(R"({"model_type":"arctic"})").with_experts() == 16);
  CHECK(read(R"({"model_type":"xverse"})").layers == 40);
  CHECK(read(R"({"model_type":"Yi"})").kv_heads == 4);
  CHECK(read(R"({"model_type":"nemotron_h"})").experts == 0);
  const auto sparse = read(R"({"model_type":"nemotron_h","hybrid_override_pattern":"ME*E",
    "num_hidden_layers":4})");
  CHECK(sparse.with_experts() == 2);
  CHECK(sparse.shared_width() == 7688);
}

TEST_CASE("classes without a gate, with windows, experts or latents of their own") {
  const auto plain = read(R"({"model_type":"nanochat"})");
  CHECK(plain.ffn_matrices == 2);
  CHECK(!plain.tied_embeddings);
  CHECK(read(R"({"model_type":"cwm"})").with_window() == 48);
  const auto decoder = read(R"({"model_type":"modernbert-decoder"})");
  CHECK(decoder.window == 64);
  CHECK(decoder.with_window() == 14);
  const auto shared = read(R"({"model_type":"aria","vision_config":{},
    "text_config":{"model_type":"aria_text"}})");
  CHECK(shared.expert_ffn == 4096);
  CHECK(shared.shared_width() == 8192);
  // Solar Open is published with 102 B parameters, GLM-5 with 744 B (0.7 B of them indexers).
  CHECK(size_of(read(R"({"model_type":"solar_open"})")) == doctest::Approx(102.6).epsilon(0.01));
  CHECK(read(R"({"model_type":"exaone_moe"})").with_window() == 24);
  const auto latent = read(R"({"model_type":"glm_moe_dsa","layer_types":
    ["deepseek_sparse_attention"]})");
  CHECK(size_of(latent) == doctest::Approx(743.1).epsilon(0.001));
  CHECK(latent.head_dim == 256);
  CHECK(latent.window == 0);
  CHECK(latent.note.find("indexer") != std::string::npos);
  CHECK(wrong(R"({"model_type":"gemma4","text_config":{"model_type":"gemma4_text"}})")
            .find("heads of two widths") != std::string::npos);
}

TEST_CASE("keys that all configurations may hold, and those of one class that change nothing") {
  CHECK(read(R"({"model_type":"falcon","activation":"gelu","num_beams":1,"temperature":1.0,
    "top_k":50,"chunk_size_feed_forward":0,"torchscript":false})")
            .note.empty());
  CHECK(read(R"({"model_type":"opt","enable_bias":true,"_remove_final_layer_norm":false})")
            .note.empty());
}

TEST_CASE("experts of a narrower row count as narrower ones, and its two products as shared") {
  const std::string wide = R"({"model_type":"nemotron_h","hybrid_override_pattern":"ME*E",
    "num_hidden_layers":4,"hidden_size":4096,"vocab_size":1024,"n_routed_experts":512,
    "num_experts_per_tok":22,"moe_intermediate_size":2688,"n_shared_experts":1,
    "moe_shared_expert_intermediate_size":5376,"time_step_limit":[0.0,Infinity])";
  const auto plain = read(wide + "}");
  const auto narrow = read(wide + R"(,"moe_latent_size":1024})");
  CHECK(narrow.expert_ffn == 672);
  CHECK(narrow.shared_width() == 5376 + 1024);
  // Of two layers: experts of a quarter, and 4096 x 1024 to the narrow row and back.
  CHECK(parameters(plain) - parameters(narrow) ==
      std::int64_t{2} * (512L * 2 * (4096 - 1024) * 2688 - 2L * 4096 * 1024));
}

TEST_CASE("Python's words for no number; embeddings narrower than the layers; words of a class") {
  CHECK(read(R"({"model_type":"llama","_name_or_path":"a \"NaN\" Infinity","swiglu_limit":NaN,
    "x":[-Infinity]})")
            .note == "Not understood, and not counted: x.");
  CHECK(wrong(R"({"model_type":"opt","hidden_size":1024,"word_embed_proj_dim":512})") ==
      "config.json: its embeddings are 512 wide and its layers 1024; such a model is not "
      "supported");
  const auto windows = read(R"({"model_type":"mimo_v2_flash","hybrid_layer_pattern":[0,1,1,0],
    "num_hidden_layers":4})");
  CHECK(windows.window == 128);
  CHECK(windows.with_window() == 2);
  // Step 3.5 Flash is published with 196 B, without its layers that predict later tokens.
  CHECK(size_of(read(R"({"model_type":"step3p5","num_nextn_predict_layers":3,
    "moe_layers_enum":"3,4"})")) == doctest::Approx(196).epsilon(0.005));
  CHECK(!read(R"({"model_type":"hunyuan_v1_moe","use_mla":false,"kv_lora_rank":512,
    "q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128})")
             .is_latent());
}

TEST_CASE("a size of gate and up together, rows of an embedding, a text part called llm_cfg") {
  const auto molmo = read(R"({"model_type":"molmo","hidden_size":3584,"intermediate_size":37888,
    "num_attention_heads":28,"num_hidden_layers":28,"num_key_value_heads":4,"vocab_size":152064,
    "embedding_size":152064,"tie_word_embeddings":false})");
  CHECK(size_of(molmo) == doctest::Approx(7.62).epsilon(0.005));
  const auto vila = read(R"({"model_type":"llava_llama","hidden_size":2560,"llm_cfg":{
    "model_type":"llama","hidden_size":2560,"intermediate_size":6912,"num_attention_heads":20,
    "num_hidden_layers":32,"vocab_size":32000}})");
  CHECK(size_of(vila) == doctest::Approx(2.70).epsilon(0.005));
  const auto jais = read(R"({"model_type":"jais","n_embd":5120,"n_head":40,"n_inner":13653,
    "n_layer":40,"vocab_size":84992,"activation_function":"swiglu"})");
  CHECK(size_of(jais) == doctest::Approx(13.02).epsilon(0.01));
  CHECK(wrong(R"({"model_type":"falcon_perception","dim":1024,"n_layers":28,"n_heads":16})")
            .find("only models of text") != std::string::npos);
}

TEST_CASE("a file that names no class, or one that is not here, is told by a key that it has") {
  CHECK(wrong(R"({"peft_type":"LORA","r":64,"base_model_name_or_path":"a/b"})") ==
      "config.json: it is an adapter ('peft_type') and no model: read the config.json of its "
      "'base_model_name_or_path'");
  CHECK(wrong(R"({"_class_name":"UNet2DConditionModel","sample_size":64})")
            .find("a part of a model that makes images") != std::string::npos);
  CHECK(wrong(R"({"model_type":"new_translator","is_encoder_decoder":true,"d_model":64})") ==
      "config.json: model_type 'new_translator': an encoder beside the decoder; only decoders are "
      "described here");
  CHECK(wrong(R"({"model_type":"new_vit","image_size":224,"patch_size":14,"hidden_size":64})")
            .find("encodes images") != std::string::npos);
  CHECK(wrong(R"({"d_model":64,"n_layer":2,"vocab_size":10,"ssm_cfg":{}})")
            .find("no layer has attention") != std::string::npos);
  // A class that is here stays, whatever else its file says.
  CHECK(read(R"({"model_type":"llama","is_encoder_decoder":true})").layers == 32);
  // DeepSeek's own file beside its inference code: 3 dense layers and 2 with experts.
  const auto own = read(R"({"vocab_size":129280,"dim":7168,"inter_dim":18432,
    "moe_inter_dim":2048,"n_layers":5,"n_dense_layers":3,"n_heads":128,"n_routed_experts":256,
    "n_shared_experts":1,"n_activated_experts":8,"n_expert_groups":8,"n_limited_groups":4,
    "route_scale":2.5,"score_func":"sigmoid","q_lora_rank":1536,"kv_lora_rank":512,
    "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"dtype":"fp8"})");
  CHECK(size_of(own) == doctest::Approx(26.62).epsilon(0.001));
  CHECK(own.note.empty());
}

TEST_CASE("an unknown class with keys that may be sizes is refused, and others are read as Llama") {
  const std::string plain = R"({"model_type":"newest","hidden_size":64,"intermediate_size":128,
    "num_attention_heads":4,"num_hidden_layers":2,"vocab_size":100,"tie_word_embeddings":false)";
  CHECK(read(plain + R"(,"image_token_id":7,"eod_token":9,"vision_tower":{"depth":2},"fast":true,
      "scale":0.5})")
            .note ==
      "model_type 'newest' is unknown: read as Llama. Not understood, and not counted: fast, "
      "scale.");
  CHECK(wrong(plain + R"(,"mixers":[1,2],"mixer_width":32,"fast":true})") ==
      "config.json: model_type 'newest' is unknown, so how its keys mixers, mixer_width change its "
      "size is unknown too. If it is built as a known class, write that class's model_type into a "
      "copy of the file; if not, describe it under 'models' in a sweep file");
  CHECK(wrong(R"({"hidden_size":64,"mixer_width":32})").find("'model_type' is missing, so") !=
      std::string::npos);
}

TEST_CASE("what a file does not say of its embeddings is counted by who wrote it, and said") {
  const std::string plain = R"("hidden_size":64,"intermediate_size":128,"num_attention_heads":4,
    "num_hidden_layers":2,"vocab_size":100})";
  const auto own = read("{" + plain);
  CHECK(!own.tied_embeddings);
  CHECK(own.note ==
      "'model_type' is missing: read as Llama. It does not say 'tie_word_embeddings': counted as "
      "two matrices.");
  const auto remote = read(R"({"model_type":"newest",)" + plain);
  CHECK(remote.tied_embeddings);
  CHECK(remote.note.find("counted as one matrix") != std::string::npos);
  CHECK(read(R"({"model_type":"hf_olmo","weight_tying":true})").tied_embeddings);
  // Llama 3.2 1B and 3B are tied, 3.1 8B is not.
  const std::string meta = R"({"n_heads":32,"n_kv_heads":8,"n_layers":16,"multiple_of":256,
    "ffn_dim_multiplier":1.5,"vocab_size":128256,"dim":)";
  CHECK(size_of(read(meta + "2048}")) == doctest::Approx(1.236).epsilon(0.001));
  CHECK(!read(meta + "4096}").tied_embeddings);
}

TEST_CASE("an architecture without output embeddings has one matrix less") {
  const std::string llama = R"({"model_type":"llama","tie_word_embeddings":false,
    "architectures":[)";
  const auto judge = read(llama + R"("LlamaForSequenceClassification"]})");
  CHECK(judge.tied_embeddings);
  CHECK(judge.note == "A LlamaForSequenceClassification has no output embeddings.");
  CHECK(read(llama + R"("LlamaModel"]})").tied_embeddings);
  CHECK(!read(llama + R"("LlamaForCausalLM"]})").tied_embeddings);
  // The language model has some, whatever the name of the whole.
  CHECK(!read(R"({"model_type":"chatglm","architectures":["ChatGLMModel"]})").tied_embeddings);
}

TEST_CASE("products of attention beside the four are counted in the feed-forward part") {
  // 1,182,793,728 without norms: two stacks of 16 layers, each with a gate of 1536 x 1536.
  const auto stacks = read(R"({"model_type":"hrm_text","vocab_size":65536,"hidden_size":1536,
    "intermediate_size":4096,"num_hidden_layers":16,"num_attention_heads":12,"H_cycles":2,
    "L_cycles":3,"head_dim":128,"tie_word_embeddings":false})");
  CHECK(stacks.layers == 32);
  CHECK(stacks.ffn == 4096 + 512);
  CHECK(size_of(stacks) == doctest::Approx(1.1829).epsilon(0.001));
  CHECK(stacks.note.find("many times") != std::string::npos);
  CHECK(read(R"({"model_type":"hrm_text","num_layers_per_stack":16,"num_hidden_layers":128})")
            .layers == 32);
  // XLNet base has a product with relative positions: 116.6 M with its embeddings.
  CHECK(size_of(read(R"({"model_type":"xlnet","d_model":768,"d_inner":3072,"n_head":12,
    "n_layer":12,"vocab_size":32000})")) == doctest::Approx(0.1166).epsilon(0.002));
  CHECK(
      size_of(read(R"({"model_type":"deberta-v2","num_hidden_layers":48,"share_att_key":true})")) ==
      doctest::Approx(1.56).epsilon(0.01));
  // Qwen3.5 27B has 26.9 B without its layer that predicts a second token.
  CHECK(size_of(read(R"({"model_type":"qwen3_5_text","hidden_size":5120,"intermediate_size":17408,
    "num_hidden_layers":64,"num_attention_heads":24,"num_key_value_heads":4,
    "linear_num_value_heads":48})")) == doctest::Approx(26.9).epsilon(0.003));
}

TEST_CASE("mixers by their class: PLaMo 2, Ring and Ling, OLMo Hybrid") {
  const auto plamo = read(R"({"model_type":"plamo2","hidden_size":2048,"num_hidden_layers":16,
    "num_attention_heads":16,"num_key_value_heads":1,"hidden_size_per_head":128,
    "mamba_d_state":64,"mamba_num_heads":32,"mamba_step":2,"mamba_enabled":true,
    "intermediate_size":8192,"vocab_size":100000})");
  CHECK(plamo.state_layers == 8);
  CHECK(size_of(plamo) == doctest::Approx(1.291).epsilon(0.002));
  const std::string sparse = R"("first_k_dense_replace":1,"hidden_size":2048,
    "intermediate_size":5120,"moe_intermediate_size":512,"num_attention_heads":16,"head_dim":128,
    "num_experts":256,"num_experts_per_tok":8,"num_hidden_layers":20,"num_key_value_heads":4,
    "num_shared_experts":1,"vocab_size":157184)";
  const auto ring =
      read(R"({"model_type":"bailing_moe_linear","layer_group_size":5,)" + sparse + "}");
  CHECK(ring.with_attention() == 4);
  CHECK(size_of(ring) == doctest::Approx(16.42).epsilon(0.001));
  CHECK(size_of(read(R"({"model_type":"llada2_moe",)" + sparse + "}")) ==
      doctest::Approx(16.26).epsilon(0.001));
  const auto ling = read(R"({"model_type":"bailing_hybrid","layer_group_size":4,
    "no_kda_lora":true,"hidden_size":1536,"intermediate_size":4608,"num_hidden_layers":24,
    "num_attention_heads":16,"head_dim":128,"vocab_size":157184,"qk_nope_head_dim":128,
    "qk_rope_head_dim":64,"v_head_dim":128,"q_lora_rank":256,"kv_lora_rank":512,
    "first_k_dense_replace":1,"num_experts":128,"num_experts_per_tok":8,"num_shared_experts":1,
    "moe_intermediate_size":512})");
  CHECK(ling.is_latent());
  CHECK(size_of(ling) == doctest::Approx(7.89).epsilon(0.002));
  const auto hybrid = read(R"({"model_type":"olmo_hybrid"})");
  CHECK(hybrid.with_attention() == 8);
  CHECK(hybrid.state_width == 30 * 192);
}

TEST_CASE("other names of keys: Phi-3 small, LLaDA, Command A+, EXAONE's list of flags") {
  CHECK(size_of(read(R"({"model_type":"phi3small","hidden_size":4096,
    "ff_intermediate_size":14336,"ff_dim_multiplier":null})")) ==
      doctest::Approx(7.39).epsilon(0.001));
  const auto diffusion = read(R"({"model_type":"llada","d_model":448,"n_layers":6,"n_heads":7,
    "n_kv_heads":7,"mlp_hidden_size":768,"embedding_size":126464,"vocab_size":126464,
    "weight_tying":false,"multi_query_attention":null})");
  CHECK(parameters(diffusion) ==
      6 * (4 * 448 * 448 + 3 * 448 * 768 + 2 * 448) + 2 * 448 * 126464 + 448);
  const auto north = read(R"({"model_type":"cohere2_moe","hidden_size":2048,
    "num_hidden_layers":49,"intermediate_size":768,"prefix_dense_intermediate_size":3072,
    "num_attention_heads":32,"num_key_value_heads":4,"vocab_size":262144,"num_experts":128,
    "num_experts_per_tok":8,"num_shared_experts":0,"first_k_dense_replace":1})");
  CHECK(north.ffn == 3072);
  CHECK(north.expert_ffn == 768);
  CHECK(size_of(north) == doctest::Approx(30.48).epsilon(0.001));
  CHECK(read(R"({"model_type":"exaone_moe","num_hidden_layers":4,
    "is_moe_layer":[false,false,true,true]})")
            .dense_layers == 2);
  CHECK(size_of(read(R"({"model_type":"youtu_llm","kv_lora_rank":512})")) ==
      doctest::Approx(1.96).epsilon(0.001));
  // A text part may say another class than the one that reads it.
  CHECK(read(R"({"model_type":"minimax_m3_vl","text_config":{"model_type":"minimax_m2",
    "hidden_size":6144,"intermediate_size":3072,"dense_intermediate_size":12288,
    "num_local_experts":128,"num_experts_per_tok":4}})")
            .expert_ffn == 3072);
}

TEST_CASE("KDA beside latent attention without a rotary part; layers that run twice") {
  // Without norms 320.6 B, 7.5 of them in the layer that predicts a second token.
  const auto next = read(R"({"model_type":"glm5_next","text_config":{
    "model_type":"glm5_next_text","hidden_size":4096,"intermediate_size":12288,"head_dim":0,
    "moe_intermediate_size":2048,"n_routed_experts":288,"n_shared_experts":1,
    "num_experts_per_tok":8,"first_k_dense_replace":3,"num_hidden_layers":8,"hc_mult":4,
    "num_attention_heads":64,"num_key_value_heads":64,"kv_lora_rank":512,"q_lora_rank":1536,
    "qk_nope_head_dim":256,"qk_rope_head_dim":0,"v_head_dim":256,"vocab_size":154880,
    "linear_num_heads":64,"linear_head_dim":128,"linear_attn_config":{"kda_layers":[0,1,2]},
    "layer_types":["linear_attention","linear_attention","linear_attention",
    "deepseek_sparse_attention"]}})");
  CHECK(next.with_attention() == 2);
  CHECK(next.state_layers == 6);
  CHECK(next.note.find("Not understood") == std::string::npos);
  // 6 mixers, 2 latents, 3 dense parts, 5 times 289 experts, embeddings.
  CHECK(size_of(next) ==
      doctest::Approx(6 * 0.137 + 2 * 0.1203 + 3 * 0.151 + 5 * 7.274 + 1.269).epsilon(0.003));
  const auto twice = read(R"({"model_type":"iquestloopcoder","hidden_size":5120,
    "intermediate_size":27648,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,
    "num_hidden_layers":80,"loop_num":2,"loop_window_size":64,"vocab_size":76800,
    "tie_word_embeddings":false})");
  CHECK(size_of(twice) == doctest::Approx(39.8).epsilon(0.001));
  CHECK(twice.note.find("loop_num") != std::string::npos);
}
