// SPDX-License-Identifier: Apache-2.0
// Values that a published file leaves out stand in a data file (sweeps/model_types.json): for each
// `model_type` its class's defaults, its names of keys, and what the planner cannot count. So a
// model is counted by the class that its file names, and never by a guess. A value becomes one
// of a few canonical keys first; only these are read here. A key that neither the class nor the
// list of harmless ones knows is named as not understood.
#include "published/model_config.hpp"

#include "builtin/files.hpp"
#include "sweep/model_shape.hpp"
#include "text/characters.hpp"
#include "text/expression.hpp"
#include "text/pieces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::ordered_json;

struct NumberOfConfig {
  std::int64_t ModelSpec::*member;
  std::string_view key;
  bool required = false;
};
constexpr std::array<NumberOfConfig, 21> config_numbers{{
    {&ModelSpec::layers, "num_hidden_layers", true},
    {&ModelSpec::hidden, "hidden_size", true},
    {&ModelSpec::heads, "num_attention_heads", true},
    {&ModelSpec::vocab, "vocab_size", true},
    {&ModelSpec::ffn, "intermediate_size"},
    {&ModelSpec::kv_heads, "num_key_value_heads"},
    {&ModelSpec::head_dim, "head_dim"},
    {&ModelSpec::experts, "num_experts"},
    {&ModelSpec::experts_per_token, "num_experts_per_tok"},
    {&ModelSpec::expert_ffn, "moe_intermediate_size"},
    {&ModelSpec::shared_experts, "n_shared_experts"},
    {&ModelSpec::shared_ffn, "shared_expert_intermediate_size"},
    {&ModelSpec::dense_layers, "first_k_dense_replace"},
    {&ModelSpec::kv_lora_rank, "kv_lora_rank"},
    {&ModelSpec::q_lora_rank, "q_lora_rank"},
    {&ModelSpec::qk_rope_head_dim, "qk_rope_head_dim"},
    {&ModelSpec::v_head_dim, "v_head_dim"},
    {&ModelSpec::mtp_layers, "num_nextn_predict_layers"},
    {&ModelSpec::ffn_matrices, "ffn_matrices"},
    {&ModelSpec::state_width, "state_width"},
    {&ModelSpec::state_keys, "state_keys"},
}};

tl::unexpected<Fault> refuse_config(std::string what) {
  return fault(FaultKind::invalid_input, "config.json: " + std::move(what));
}

/// A section of the data file.
const Json& section(std::string_view name) {
  static const Json all = [] {
    constexpr bool throws = true;
    constexpr bool comments = true;
    const auto text = builtin::text_of("sweeps/model_types.json");
    return Json::parse(text.value_or("{}"), nullptr, throws, comments);
  }();
  return all.at(std::string(name));
}

bool lists(const Json& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// A class, over the class that it is like.
Json class_of(std::string_view type) {
  const auto& types = section("types");
  const auto found = types.find(std::string(type));
  if (found == types.end()) return Json::object();
  Json row = Json::object();
  if (found->contains("like")) row = class_of(found->at("like").get<std::string>());
  for (const auto& [key, value] : found->items()) {
    // Values that a class says anew are computed after those that it takes over.
    row.erase(key);
    row[key] = value;
  }
  return row;
}

std::string text_at(const Json& map, std::string_view key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The names, in files, of canonical keys.
std::string canonical(const Json& row, const std::string& key) {
  if (const auto own = row.find("names"); own != row.end() && own->contains(key))
    return own->at(key).get<std::string>();
  for (const auto& [name, aliases] : section("keys").items()) {
    if (name == key || lists(aliases, key)) return name;
  }
  return key;
}

/// A key that changes no number: by itself, or by the beginning or end that it has.
bool is_harmless(std::string_view key) {
  const auto any = [&](std::string_view list, auto matches) {
    const auto& parts = section(list);
    return std::any_of(parts.begin(), parts.end(),
        [&](const Json& part) { return matches(part.get_ref<const std::string&>()); });
  };
  return lists(section("harmless"), key) ||
      any("harmless_starts", [&](const std::string& start) { return key.starts_with(start); }) ||
      any("harmless_ends", [&](const std::string& end) { return key.ends_with(end); });
}

/// A value that may tell of layers or widths, and not only of how they compute.
bool may_be_size(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>() > 1;
  return value.is_structured() && !value.empty();
}

/// Words of a list of words or numbers, or of one letter for each layer.
std::vector<std::string> words_of_layers(const Json& list) {
  std::vector<std::string> words;
  if (const auto* letters = list.get_ptr<const std::string*>()) {
    for (const char letter : *letters) {
      if (letter != '|') words.emplace_back(1, letter);
    }
  } else if (list.is_array()) {
    for (const auto& one : list)
      words.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  }
  return words;
}

/// A file's values by canonical keys, with its class's defaults.
class Config {
 public:
  explicit Config(std::string type) : type_(std::move(type)), row_(class_of(type_)) {}

  [[nodiscard]] bool is_known() const { return !row_.empty(); }
  [[nodiscard]] const std::string& type() const { return type_; }
  [[nodiscard]] const Json& row() const { return row_; }
  /// Keys that are neither read nor known to change no number, in the file's order.
  [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }
  /// Unknown keys that may change the model's size.
  [[nodiscard]] const std::vector<std::string>& unknown_sizes() const { return unknown_sizes_; }

  void take(const Json& part, const std::string& before = "") {
    for (const auto& [key, value] : part.items()) {
      const std::string path = before + key;
      if (value == "auto") continue;
      if (value.is_object() && lists(section("nested"), path)) {
        take(value, path + ".");
        continue;
      }
      const auto name = canonical(row_, path);
      if (value.is_null()) {
        none_.insert(name);
      } else if (!knows(name)) {
        if (is_harmless(key)) continue;
        unknown_.push_back(path);
        if (may_be_size(value)) unknown_sizes_.push_back(path);
      } else if (!values_.contains(name)) {
        values_[name] = value;
      }
    }
  }

  /// Texts that begin with '=' are computed from what is there; of 'set' in place of it. Without a
  /// number of layers a list of them tells it, if it is too long for a pattern.
  Result<void> complete() {
    constexpr std::size_t no_pattern = 8;
    if (const auto* kinds = list("layer_types");
        kinds != nullptr && !values_.contains("num_hidden_layers")) {
      const auto named = words_of_layers(*kinds).size();
      if (named >= no_pattern) values_["num_hidden_layers"] = named;
    }
    for (const auto& [key, value] : row_.items())
      SHARDSWEEP_TRY(put(key, value, false));
    if (const auto set = row_.find("set"); set != row_.end()) {
      for (const auto& [key, value] : set->items())
        SHARDSWEEP_TRY(put(key, value, true));
    }
    return {};
  }

  /// 0: not there. A list of one value for each layer is that value, if all are equal.
  [[nodiscard]] Result<std::int64_t> number(std::string_view key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return 0;
    const Json* value = &*found;
    if (value->is_array() && !value->empty()) {
      if (std::any_of(
              value->begin(), value->end(), [&](const Json& one) { return one != value->front(); }))
        return refuse_config(fmt::format(
            "{} differs from layer to layer ({}), but only one value for all layers is supported",
            in_quotes(key), value->dump()));
      value = &value->front();
    }
    constexpr double most = std::int64_t{1} << 26;
    const double read = value->is_number() ? value->get<double>()
        : value->is_boolean()              ? (value->get<bool>() ? 1 : 0)
                                           : -2;
    if (read == -1) return 0;  // files write -1 for none
    if (read < 0 || read > most || read != std::floor(read))
      return refuse_config(fmt::format("{} is {}, but must be a whole number from 0 to {:.0f}",
          in_quotes(key), value->dump(), most));
    return static_cast<std::int64_t>(read);
  }

  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return otherwise;
    if (found->is_number_integer()) return found->get<std::int64_t>() != 0;
    return found->is_boolean() ? found->get<bool>() : otherwise;
  }

  [[nodiscard]] const Json* list(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &*found;
  }

 private:
  [[nodiscard]] bool knows(const std::string& name) const {
    return section("keys").contains(name) || row_.contains(name) ||
        (row_.contains("reads") && lists(row_.at("reads"), name));
  }

  Result<void> put(const std::string& key, const Json& value, bool over) {
    if (lists(section("words"), key) || (values_.contains(key) && !over)) return {};
    const auto* text = value.get_ptr<const std::string*>();
    if (text == nullptr || !text->starts_with('=')) {
      if (none_.contains(key) && !over) return {};
      values_[key] = value;
      return {};
    }
    std::map<std::string, std::string, std::less<>> held;
    const auto text_of = [&](std::string_view name) -> std::optional<std::string_view> {
      const auto found = values_.find(name);
      std::string written = "0";
      if (found != values_.end() && found->is_number())
        written = fmt::to_string(std::llround(found->get<double>()));
      if (found != values_.end() && found->is_boolean()) written = found->get<bool>() ? "1" : "0";
      return held.insert_or_assign(std::string(name), std::move(written)).first->second;
    };
    auto result = computed(std::string_view(*text).substr(1), text_of);
    if (!result)
      return refuse_config(fmt::format(
          "{} of model_type {}: {}", in_quotes(key), in_quotes(type_), result.error().what));
    values_[key] = std::stoll(*result);
    return {};
  }

  std::string type_;
  Json row_;
  Json values_ = Json::object();
  std::set<std::string, std::less<>>
      none_;  ///< null in the file: the class's number does not stand
  std::vector<std::string> unknown_;
  std::vector<std::string> unknown_sizes_;
};

/// The part of a file that is read.
struct TextPart {
  bool is_text = false;  ///< text part of a model that also sees or hears
  std::string headless;  ///< the first architecture, if that one has no output embeddings
};

/// How many layers have what.
struct Kinds {
  std::int64_t attention = 0;
  std::int64_t window = 0;  ///< layers with a window
  std::int64_t state = 0;
  std::int64_t dense = 0;
  std::int64_t experts = 0;
};

/// A list shorter than the layers goes on from its start.
Result<Kinds> counted_kinds(const Json& list, std::int64_t layers, const Json& row) {
  const auto words = words_of_layers(list);
  const auto own = row.find("kinds");
  Kinds kinds;
  if (words.empty()) return kinds;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto& word = words[static_cast<std::size_t>(layer) % words.size()];
    const auto kind = text_at(own != row.end() ? *own : section("kinds"), word);
    if (kind.empty())
      return refuse_config(
          fmt::format("a layer has the kind {}, which is not supported", in_quotes(word)));
    if (kind == "attention" || kind == "window" || kind == "both") ++kinds.attention;
    if (kind == "window") ++kinds.window;
    if (kind == "state" || kind == "both") ++kinds.state;
    if (kind == "dense") ++kinds.dense;
    if (kind == "experts") ++kinds.experts;
  }
  return kinds;
}

/// Layers that have attention, and those of them with a window: by a list, or each n-th.
Result<void> read_attention_layers(const Config& config, ModelSpec& model) {
  SHARDSWEEP_ASSIGN(const auto window, config.number("sliding_window"));
  const auto between = text_at(config.row(), "between");
  Kinds kinds;
  if (const auto* list = config.list("layer_types")) {
    SHARDSWEEP_ASSIGN(kinds, counted_kinds(*list, model.layers, config.row()));
  } else {
    std::int64_t every = 0;
    if (const auto* letters = config.list("attention_every");
        letters != nullptr && letters->is_string()) {
      every = static_cast<std::int64_t>(letters->get<std::string>().size());  // "LLLG"
    } else {
      SHARDSWEEP_ASSIGN(every, config.number("attention_every"));
    }
    std::int64_t apart = every > 0 ? model.layers / every : model.layers;
    if (const auto* places = config.list("attention_at"); places != nullptr && places->is_array())
      apart = static_cast<std::int64_t>(places->size());
    kinds.attention = apart;
    if (between == "state") {
      kinds.state = model.layers - apart;
    } else if (between == "both") {
      kinds.state = model.layers;
    } else {
      kinds.attention = model.layers;
      kinds.window = every > 0 ? model.layers - apart : model.layers;
    }
  }
  const bool single = kinds.dense + kinds.experts > 0;
  if (single) {
    model.ffn_layers = kinds.dense + kinds.experts;
    model.expert_layers = kinds.experts;
    // Ignore experts that no layer has.
    if (kinds.experts == 0) model.experts = 0;
  }
  if (kinds.attention == 0)
    return refuse_config("no layer has attention; such a model is not supported");
  model.state_layers = kinds.state;
  if (kinds.attention != model.layers - kinds.state) model.attention_layers = kinds.attention;
  if (window > 0 && kinds.window > 0 && config.flag("use_sliding_window", true)) {
    model.window = window;
    SHARDSWEEP_ASSIGN(const auto full, config.number("max_window_layers"));
    const auto windowed = full > 0 && config.list("layer_types") == nullptr
        ? std::max<std::int64_t>(model.layers - full, 0)
        : kinds.window;
    if (windowed == 0) model.window = 0;
    if (windowed < kinds.attention) model.window_layers = windowed;
  }
  if (model.state_layers == 0) model.state_width = model.state_keys = 0;
  return {};
}

/// Layers that have experts: by a list, or each n-th between a first and a last one.
Result<void> read_expert_layers(const Config& config, ModelSpec& model) {
  if (model.ffn_layers > 0) return {};
  std::int64_t sparse = 0;
  const auto* list = config.list("mlp_layer_types");
  if (list == nullptr || !list->is_array()) list = config.list("moe_every");
  if (list != nullptr && list->is_array()) {
    const auto has_experts = [](const Json& layer) {
      return layer.is_string() ? text_at(section("kinds"), layer.get<std::string>()) == "experts"
          : layer.is_boolean() ? layer.get<bool>()
                               : layer != 0;
    };
    const auto first = std::find_if(list->begin(), list->end(), has_experts);
    model.dense_layers = first - list->begin();
    sparse = std::count_if(first, list->end(), has_experts);
  } else {
    SHARDSWEEP_ASSIGN(auto every, config.number("moe_every"));
    SHARDSWEEP_ASSIGN(const auto last, config.number("moe_layer_end_index"));
    every = std::max<std::int64_t>(every, 1);
    const auto end = last > 0 ? std::min(last + 1, model.layers) : model.layers;
    sparse = end / every - model.dense_layers / every;
    if (const auto* dense = config.list("mlp_only_layers"); dense != nullptr && dense->is_array())
      sparse -= static_cast<std::int64_t>(dense->size());
  }
  if (sparse <= 0) return refuse_config("the model has experts, but no layer with experts");
  if (sparse != model.layers - model.dense_layers) model.expert_layers = sparse;
  return {};
}

/// Multi-head latent attention: heads have keys of their own, and 'head_dim' may be there and
/// mean the rotary part.
Result<void> complete_attention(const Config& config, ModelSpec& model) {
  if (model.kv_lora_rank == 0) {
    model.q_lora_rank = model.qk_rope_head_dim = model.v_head_dim = 0;
    if (model.kv_heads == 0) model.kv_heads = model.heads;
  } else {
    for (const std::string_view key : {"qk_nope_head_dim", "v_head_dim"}) {
      SHARDSWEEP_ASSIGN(const auto values, config.number(key));
      if (values == 0)
        return refuse_config(
            fmt::format("it has 'kv_lora_rank' (latent attention) but no {}", in_quotes(key)));
    }
    SHARDSWEEP_ASSIGN(const auto nope, config.number("qk_nope_head_dim"));
    model.head_dim = nope + model.qk_rope_head_dim;
    model.kv_heads = model.heads;
  }
  if (model.head_dim > 0 && model.head_dim * model.heads == model.hidden) model.head_dim = 0;
  return read_attention_layers(config, model);
}

/// Experts that see a narrower row than the layer, and the two products to it and back: as many
/// parameters and multiplications as narrower experts, and a wider shared one, have.
Result<void> narrow_experts(const Config& config, ModelSpec& model) {
  SHARDSWEEP_ASSIGN(const auto row, config.number("expert_hidden_size"));
  if (row == 0 || row >= model.hidden) return {};
  model.shared_ffn = model.shared_width() + 2 * row / model.matrices_of_ffn();
  model.shared_experts = 0;
  model.expert_ffn = model.expert_ffn * row / model.hidden;
  return {};
}

/// Products of attention layers beside the four (gates, relative positions): as many parameters
/// and multiplications as a wider feed-forward part has, or, in a hybrid, wider mixers.
Result<void> count_beside_attention(const Config& config, ModelSpec& model) {
  SHARDSWEEP_ASSIGN(const auto width, config.number("beside_attention"));
  if (model.state_layers > 0) {
    model.state_keys += width * model.with_attention() / (2 * model.state_layers);
    return {};
  }
  // A width that tensor parallelism can split.
  constexpr std::int64_t step = 128;
  const auto wider = (width / model.matrices_of_ffn() + step / 2) / step * step;
  model.ffn += wider;
  if (model.experts == 0 || wider == 0) return {};
  model.shared_ffn = model.shared_width() + wider;
  model.shared_experts = 0;
  return {};
}

Result<void> complete_ffn(const Config& config, ModelSpec& model) {
  // Mixtral and GPT-OSS call an expert's width that of the layer.
  if (model.experts > 0 && model.expert_ffn == 0) model.expert_ffn = model.ffn;
  if (model.experts == 1) model.experts = 0;
  if (model.ffn == 0) model.ffn = model.expert_ffn;
  if (model.ffn == 0) return refuse_config("it has no 'intermediate_size'");
  if (model.ffn_matrices != 2) model.ffn_matrices = 0;
  if (model.experts == 0) {
    model.experts_per_token = model.expert_ffn = model.expert_layers = 0;
    model.shared_experts = model.shared_ffn = model.dense_layers = 0;
    return count_beside_attention(config, model);
  }
  if (model.expert_ffn > 0 && model.shared_ffn % model.expert_ffn == 0) {
    if (model.shared_ffn > 0) model.shared_experts = model.shared_ffn / model.expert_ffn;
    model.shared_ffn = 0;
  }
  if (model.shared_ffn > 0) model.shared_experts = 0;
  SHARDSWEEP_TRY(narrow_experts(config, model));
  SHARDSWEEP_TRY(count_beside_attention(config, model));
  return read_expert_layers(config, model);
}

/// The first keys, and how many more there are.
std::string joined(const std::vector<std::string>& keys) {
  return join_first(keys, 8, ", ", std::identity());
}

std::string class_unknown(const Config& config) {
  return config.type().empty() ? "'model_type' is missing"
                               : fmt::format("model_type {} is unknown", in_quotes(config.type()));
}

/// A model of a class that is not here is read as Llama, unless a key may say that it is none.
Result<void> check_class(const Config& config) {
  if (config.is_known() || config.unknown_sizes().empty()) return {};
  return refuse_config(fmt::format(
      "{}, so how its keys {} change its size is unknown too. If it is built as a known class, "
      "write that class's model_type into a copy of the file; if not, describe it under 'models' "
      "in a sweep file",
      class_unknown(config), joined(config.unknown_sizes())));
}

/// Parts that no formula of the planner knows, as sentences.
Result<std::string> note_of(const Config& config, const ModelSpec& model, const TextPart& part) {
  std::vector<std::string> parts;
  SHARDSWEEP_ASSIGN(const auto values, config.number("v_head_dim"));
  if (!model.is_latent() && values > 0 && values != model.head_size())
    parts.push_back(
        fmt::format("values of {} in each head, counted as {}", values, model.head_size()));
  if (auto own = text_at(config.row(), "note"); !own.empty()) parts.push_back(std::move(own));
  if (part.is_text) parts.emplace_back("what is not text (its text part alone is read)");
  std::vector<std::string> sentences;
  if (!parts.empty())
    sentences.push_back(fmt::format("Predictions leave out: {}.", fmt::join(parts, "; ")));
  if (!config.is_known())
    sentences.push_back(fmt::format("{}: read as Llama.", class_unknown(config)));
  if (!part.headless.empty()) {
    sentences.push_back(fmt::format("A {} has no output embeddings.", part.headless));
  } else if (!config.is_known() && config.list("tie_word_embeddings") == nullptr) {
    sentences.push_back(fmt::format("It does not say 'tie_word_embeddings': counted as {}.",
        model.tied_embeddings ? "one matrix" : "two matrices"));
  }
  if (!config.unknown().empty())
    sentences.push_back(
        fmt::format("Not understood, and not counted: {}.", joined(config.unknown())));
  return fmt::format("{}", fmt::join(sentences, " ")).substr(0, 400);
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

/// Embeddings of OPT-350M and ELECTRA are narrower than layers, with a product between.
Result<void> check_embeddings(const Config& config, const ModelSpec& model) {
  SHARDSWEEP_ASSIGN(const auto width, config.number("embedding_width"));
  if (width == 0 || width == model.hidden) return {};
  return refuse_config(
      fmt::format("its embeddings are {} wide and its layers {}; such a model is not supported",
          width, model.hidden));
}

Result<void> read_numbers(const Config& config, ModelSpec& model) {
  for (const auto& number : config_numbers) {
    SHARDSWEEP_ASSIGN(model.*number.member, config.number(number.key));
    if (!number.required || model.*number.member > 0) continue;
    const auto defaults = config.type().empty()
        ? "no 'model_type' that would tell the default"
        : fmt::format("no default is known for model_type {}", in_quotes(config.type()));
    return refuse_config(fmt::format("it has no {}, and {}", in_quotes(number.key), defaults));
  }
  return {};
}

/// Meta's params.json has a factor in place of the width [llama's model.py: two thirds of 4 h,
/// times that, in multiples].
void complete_meta(Json& config) {
  if (config.contains("hidden_dim") || !config["dim"].is_number_integer()) return;
  const auto number = [&](std::string_view key, double otherwise) {
    const auto found = config.find(key);
    return found != config.end() && found->is_number() ? found->get<double>() : otherwise;
  };
  const double narrow = std::floor(8 * number("dim", 0) / 3);
  const double width = std::floor(number("ffn_dim_multiplier", 1) * narrow);
  const double step = std::max(1.0, number("multiple_of", 256));
  const double whole = std::ceil(width / step) * step;
  if (whole > 0 && whole < 1e9) config["hidden_dim"] = static_cast<std::int64_t>(whole);
  if (number("vocab_size", -1) < 0) config["vocab_size"] = 32000;
}

/// Python writes NaN and Infinity into its JSON, which has no such words: null says as much.
std::string without_infinity(std::string_view json) {
  constexpr std::array<std::string_view, 3> words{"-Infinity", "Infinity", "NaN"};
  std::string plain;
  bool quoted = false;
  while (!json.empty()) {
    std::size_t length = 1;
    if (json.front() == '"') quoted = !quoted;
    if (quoted && json.front() == '\\' && json.size() > 1) length = 2;
    const auto* word = quoted ? words.end()
                              : std::find_if(words.begin(), words.end(),
                                    [&](std::string_view one) { return json.starts_with(one); });
    if (word != words.end()) length = word->size();
    plain += word != words.end() ? std::string_view("null") : json.substr(0, length);
    json.remove_prefix(length);
  }
  return plain;
}

/// The part of a model that also sees or hears which is text.
const Json* text_part(const Json& whole) {
  for (const auto& name : section("text_parts")) {
    const auto part = whole.find(name.get<std::string>());
    if (part != whole.end() && part->is_object()) {
      const auto* inner = text_part(*part);
      return inner != nullptr ? inner : &*part;
    }
  }
  return nullptr;
}

/// The first architecture of a part, if it is one without output embeddings.
std::string headless_architecture(const Json& part) {
  const auto found = part.find("architectures");
  if (found == part.end() || !found->is_array() || found->empty() || !found->front().is_string())
    return "";
  const auto& name = found->front().get_ref<const std::string&>();
  const auto& ends = section("headless");
  const bool is_one = std::any_of(ends.begin(), ends.end(),
      [&](const Json& end) { return name.ends_with(end.get_ref<const std::string&>()); });
  return is_one ? name : "";
}

/// The class of a file that names none, or one that is not here, by a key that only its files
/// have. A class that is counted is never put in place of one that the file names.
std::string class_by_signs(const Json& whole, std::string type) {
  if (!class_of(type).empty()) return type;
  for (const auto& sign : section("signs")) {
    const auto found = whole.find(text_at(sign, "key"));
    if (found == whole.end() || found->is_null()) continue;
    if (sign.contains("is") && *found != sign.at("is")) continue;
    if (sign.contains("with") && !whole.contains(text_at(sign, "with"))) continue;
    if (sign.contains("without") && whole.contains(text_at(sign, "without"))) continue;
    auto of = text_at(sign, "class");
    if (type.empty() || class_of(of).contains("refuse")) return of;
  }
  return type;
}

}  // namespace

Result<ModelSpec> model_of_config(std::string_view json, std::string name) {
  auto whole = Json::parse(without_infinity(json), nullptr, false);
  if (!whole.is_object()) return refuse_config("the file is not a JSON object");
  auto type = text_at(whole, "model_type");
  const Json* text = text_part(whole);
  const auto whole_row = class_of(type);
  if (auto own = text_at(whole_row, "text"); !own.empty()) {
    type = std::move(own);
  } else if (text != nullptr && !text_at(*text, "model_type").empty()) {
    type = text_at(*text, "model_type");
  }
  const auto of = class_by_signs(whole, type);
  if (of == "params.json" && text == nullptr) complete_meta(whole);
  Config config(of);
  if (const auto why = text_at(config.row(), "refuse"); !why.empty())
    return refuse_config(
        type.empty() ? why : fmt::format("model_type {}: {}", in_quotes(type), why));
  config.take(text != nullptr ? *text : whole);
  if (text != nullptr && whole.contains("tie_word_embeddings"))
    config.take(Json{{"tie_word_embeddings", whole["tie_word_embeddings"]}});
  SHARDSWEEP_TRY(check_class(config));
  SHARDSWEEP_TRY(config.complete());
  ModelSpec model;
  model.name = std::move(name);
  SHARDSWEEP_TRY(read_numbers(config, model));
  SHARDSWEEP_TRY(check_embeddings(config, model));
  SHARDSWEEP_TRY(complete_attention(config, model));
  SHARDSWEEP_TRY(complete_ffn(config, model));
  const TextPart part{text != nullptr, headless_architecture(text != nullptr ? *text : whole)};
  // Default of the base class of all configurations: transformers' files leave it out. Others
  // have two matrices.
  model.tied_embeddings = !part.headless.empty() || config.flag("tie_word_embeddings", !of.empty());
  SHARDSWEEP_ASSIGN(model.note, note_of(config, model, part));
  SHARDSWEEP_TRY(check_ranges(model));
  return model;
}

}  // namespace shardsweep
