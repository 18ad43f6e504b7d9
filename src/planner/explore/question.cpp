// SPDX-License-Identifier: Apache-2.0
#include "explore/question.hpp"

#include "sweep/axis_setting.hpp"
#include "sweep/model_shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::ordered_json;

tl::unexpected<Fault> refuse_question(std::string what) {
  return fault(FaultKind::invalid_input, std::move(what));
}

Result<std::int64_t> whole(const Json& value, std::string_view key, std::int64_t least,
                           std::int64_t most) {
  // 1e6 from a page is a double.
  constexpr double exact = 9007199254740992;
  std::int64_t number = 0;
  if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float() && std::abs(value.get<double>()) <= exact &&
             value.get<double>() == std::floor(value.get<double>())) {
    number = static_cast<std::int64_t>(value.get<double>());
  } else {
    return refuse_question(fmt::format("{} takes a whole number", key));
  }
  if (number < least || number > most)
    return refuse_question(fmt::format("{} takes {} to {}, not {}", key, least, most, number));
  return number;
}

Result<double> real(const Json& value, std::string_view key, KeyType type) {
  constexpr double most = 1e30;
  const double number = value.is_number() ? value.get<double>() : -1;
  const bool is_share = type == KeyType::share;
  if (!(number >= 0) || number > (is_share ? 1 : most) || (is_share && number == 0))
    return refuse_question(fmt::format("{} takes a number {}", key,
                                       is_share ? "above 0, at most 1" : "of 0 or more"));
  return number;
}

template <class Facts>
Result<void> read_value(const Json& value, std::string_view name, const Facts& facts,
                        auto& into) {
  using Value = std::remove_cvref_t<decltype(into)>;
  if constexpr (std::same_as<Value, std::string>) {
    constexpr std::size_t longest = 400;
    if (!value.is_string() || value.get_ref<const std::string&>().size() > longest)
      return refuse_question(fmt::format("{} takes a text", name));
    into = value.get<std::string>();
  } else if constexpr (std::same_as<Value, bool>) {
    if (!value.is_boolean()) return refuse_question(fmt::format("{} is true or false", name));
    into = value.get<bool>();
  } else if constexpr (std::same_as<Value, double>) {
    SHARDSWEEP_ASSIGN(into, real(value, name, facts.type));
  } else if constexpr (std::integral<Value>) {
    const std::int64_t most =
        facts.most > 0 ? facts.most : std::int64_t{std::numeric_limits<Value>::max()};
    SHARDSWEEP_ASSIGN(const auto number, whole(value, name, facts.least, most));
    into = static_cast<Value>(number);
  } else {
    if (!value.is_object()) return refuse_question(fmt::format("{} takes a map", name));
    for (std::size_t at = 0; at < peak_words.size(); ++at) {
      const auto found = value.find(peak_words[at]);
      if (found == value.end()) continue;
      SHARDSWEEP_ASSIGN(const double peak, real(*found, peak_words[at], KeyType::real));
      if (peak > 0) into.at(at) = peak;
    }
  }
  return {};
}

/// Every key of T that is there; `required` ones have to be.
template <class T>
Result<void> read_object(const Json& map, std::string_view name, T& into,
                         std::initializer_list<std::string_view> required) {
  if (!map.is_object()) return refuse_question(fmt::format("{} takes a map", name));
  Result<void> read;
  visit_values(into, [&](const auto& key, auto& value) {
    if (!read) return;
    const auto found = map.find(key.name);
    if (found != map.end()) {
      read = read_value(*found, key.name, key.facts, value);
    } else if (std::find(required.begin(), required.end(), key.name) != required.end()) {
      read = refuse_question(fmt::format("{} has no {}", name, key.name));
    }
  });
  return read;
}

template <class T>
Result<void> read_map(const Json& question, std::string_view name, T& into,
                      std::initializer_list<std::string_view> required) {
  const auto map = question.find(name);
  return read_object(map == question.end() ? Json() : *map, name, into, required);
}

Result<ModelSpec> read_model(const Json& map) {
  ModelSpec model;
  SHARDSWEEP_TRY(read_object(map, "model", model,
                             {"layers", "hidden", "ffn", "heads", "kv_heads", "vocab"}));
  model.name = map.contains("name") && map["name"].is_string() ? map["name"].get<std::string>()
                                                               : "model";
  const auto mistakes = shape_mistakes(model);
  if (!mistakes.empty()) return refuse_question(mistakes.front().what);
  return model;
}

Result<std::string> text_of(const Json& question, std::string_view key) {
  const auto found = question.find(key);
  if (found == question.end() || found->is_null()) return std::string();
  if (!found->is_string()) return refuse_question(fmt::format("{} takes a text", key));
  return found->get<std::string>();
}

Result<std::int64_t> number_of(const Json& question, std::string_view key, std::int64_t most,
                               std::optional<std::int64_t> otherwise = {}) {
  const auto found = question.find(key);
  if (found != question.end()) return whole(*found, key, 1, most);
  if (otherwise) return *otherwise;
  return refuse_question(fmt::format("{} is missing", key));
}

/// A list of at most `most` entries that `read` reads.
template <class Read>
Result<void> read_list(const Json& map, std::string_view key, std::size_t most,
                       const Read& read) {
  const auto list = map.find(key);
  if (list == map.end() || !list->is_array() || list->size() > most)
    return refuse_question(fmt::format("{} takes a list of at most {} entries", key, most));
  for (const auto& entry : *list)
    SHARDSWEEP_TRY(read(entry));
  return {};
}

/// None: the question has none, or it is another family's.
Result<std::shared_ptr<const Learnt>> read_learnt(const Json& question,
                                                  const SuggestRequest& request) {
  const auto found = question.find("learnt");
  if (found == question.end() || found->is_null()) return nullptr;
  if (!found->is_object()) return refuse_question("learnt takes a map");
  Knowledge knowledge;
  SHARDSWEEP_ASSIGN(knowledge.name, text_of(*found, "name"));
  SHARDSWEEP_ASSIGN(knowledge.family, text_of(*found, "family"));
  if (knowledge.family != request.family->name) return nullptr;
  constexpr std::size_t most_models = 200;
  SHARDSWEEP_TRY(
      read_list(*found, "models", most_models, [&](const Json& entry) -> Result<void> {
        SHARDSWEEP_ASSIGN(auto model, read_model(entry));
        knowledge.models.push_back(std::move(model));
        return Result<void>();
      }));
  SHARDSWEEP_TRY(
      read_list(*found, "runs", most_measured_runs, [&](const Json& entry) -> Result<void> {
        return read_object(entry, "a measured run", knowledge.runs.emplace_back(),
                           {"model", "gpus", "seq_len", "dtype", "layout", "outcome"});
      }));
  SHARDSWEEP_ASSIGN(auto learnt, learn(knowledge, request.cluster, *request.family));
  return std::make_shared<const Learnt>(std::move(learnt));
}

Result<void> read_presets(const Json& question, Question& into) {
  const auto found = question.find("presets");
  if (found == question.end() || !found->is_object()) return {};
  SHARDSWEEP_ASSIGN(into.preset_of_model, text_of(*found, "model"));
  SHARDSWEEP_ASSIGN(into.preset_of_cluster, text_of(*found, "cluster"));
  return {};
}

template <class T>
Json json_of(const T& object) {
  Json map = Json::object();
  visit_values(object, [&](const auto& key, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if (key.is(Flag::optional) && value == Value{}) return;
    if constexpr (std::is_arithmetic_v<Value> || std::same_as<Value, std::string>) {
      map[std::string(key.name)] = value;
    } else {
      Json peaks = Json::object();
      for (std::size_t at = 0; at < value.size(); ++at) {
        if (value[at]) peaks[std::string(peak_words[at])] = *value[at];
      }
      map[std::string(key.name)] = std::move(peaks);
    }
  });
  return map;
}

}  // namespace

Result<Question> read_question(const Json& question) {
  constexpr std::int64_t most_gpus = 1 << 20;
  constexpr std::int64_t most_tokens = std::int64_t{1} << 40;
  constexpr std::int64_t most_layouts = 100;
  Question read;
  auto& request = read.request;
  const auto model = question.find("model");
  SHARDSWEEP_ASSIGN(request.model, read_model(model == question.end() ? Json() : *model));
  SHARDSWEEP_TRY(read_map(question, "cluster", request.cluster, {"gpus_per_node", "memory"}));
  SHARDSWEEP_ASSIGN(const auto family, text_of(question, "family"));
  SHARDSWEEP_ASSIGN(request.family, find_family(family.empty() ? "shardbench" : family));
  SHARDSWEEP_ASSIGN(const auto gpus, number_of(question, "gpus", most_gpus));
  SHARDSWEEP_ASSIGN(request, on_gpus(std::move(request), static_cast<std::int32_t>(gpus)));
  SHARDSWEEP_ASSIGN(const auto length, number_of(question, "seq_len", 1 << 24));
  request.seq_len = static_cast<std::int32_t>(length);
  SHARDSWEEP_ASSIGN(request.global_batch_tokens,
                    number_of(question, "batch_tokens", most_tokens));
  SHARDSWEEP_ASSIGN(const auto top, number_of(question, "top", most_layouts, 5));
  request.most = static_cast<std::size_t>(top);
  SHARDSWEEP_ASSIGN(const auto dtype, text_of(question, "dtype"));
  if (!dtype.empty()) {
    SHARDSWEEP_ASSIGN(const auto word, axis_value_from(*find_axis("dtype"), dtype));
    request.dtype = static_cast<Dtype>(word);
  }
  SHARDSWEEP_ASSIGN(const auto locks, text_of(question, "locks"));
  SHARDSWEEP_ASSIGN(request.locks, read_layout_settings(locks));
  SHARDSWEEP_ASSIGN(const auto layout, text_of(question, "layout"));
  read.layout = read_layout_settings(layout);
  SHARDSWEEP_ASSIGN(read.trainer, text_of(question, "trainer"));
  SHARDSWEEP_ASSIGN(request.learnt, read_learnt(question, request));
  SHARDSWEEP_TRY(read_presets(question, read));
  return read;
}

Json question_of(const ModelSpec& model) {
  Json map = {{"name", model.name}};
  map.update(json_of(model));
  return map;
}

Json question_of(const ClusterSpec& cluster) {
  return json_of(cluster);
}

Json question_of(const Knowledge& knowledge) {
  Json models = Json::array();
  for (const auto& model : knowledge.models)
    models.push_back(question_of(model));
  Json runs = Json::array();
  for (const auto& run : knowledge.runs)
    runs.push_back(json_of(run));
  return {{"name", knowledge.name},
          {"family", knowledge.family},
          {"cluster", question_of(knowledge.cluster)},
          {"models", std::move(models)},
          {"runs", std::move(runs)}};
}

}  // namespace shardsweep
