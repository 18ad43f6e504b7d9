// SPDX-License-Identifier: Apache-2.0
#include "explore/question.hpp"

#include "plan/described_json.hpp"
#include "sweep/axis_setting.hpp"
#include "text/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Result<void> read_map(const Json& question, std::string_view name, T& into,
    std::initializer_list<std::string_view> required) {
  const auto map = question.find(name);
  return read_object(map == question.end() ? Json() : *map, name, into, required);
}

Result<std::string> text_of(const Json& question, std::string_view key) {
  const auto found = question.find(key);
  if (found == question.end() || found->is_null()) return std::string();
  if (!found->is_string()) return refuse_json("{} takes a text", key);
  return found->get<std::string>();
}

Result<std::int64_t> number_of(const Json& question, std::string_view key, std::int64_t most,
    std::optional<std::int64_t> otherwise = {}) {
  const auto found = question.find(key);
  if (found != question.end() && found->is_string()) {
    const auto count = config::parse_count(found->get<std::string>(), {1, most, key});
    return count ? Result<std::int64_t>(*count) : refuse_json("{}: {}", key, count.error());
  }
  if (found != question.end()) return whole_in_json(*found, key, 1, most);
  if (otherwise) return *otherwise;
  return refuse_json("{} is missing", key);
}

/// A list of at most `most` entries that `read` reads.
template <class Read>
Result<void> read_list(const Json& map, std::string_view key, std::size_t most, const Read& read) {
  const auto list = map.find(key);
  if (list == map.end() || !list->is_array() || list->size() > most)
    return refuse_json("{} takes a list of at most {} entries", key, most);
  for (const auto& entry : *list)
    SHARDSWEEP_TRY(read(entry));
  return {};
}

/// Null: the question has none, or it is another family's.
Result<std::shared_ptr<const LearntPredictor>> read_learnt(
    const Json& question, const SuggestRequest& request) {
  const auto found = question.find("learnt");
  if (found == question.end() || found->is_null()) return nullptr;
  if (!found->is_object()) return refuse_json("learnt takes a map");
  Knowledge knowledge;
  SHARDSWEEP_ASSIGN(knowledge.name, text_of(*found, "name"));
  SHARDSWEEP_ASSIGN(knowledge.family, text_of(*found, "family"));
  if (knowledge.family != request.family->name) return nullptr;
  if (found->contains("cluster"))
    SHARDSWEEP_TRY(read_map(*found, "cluster", knowledge.cluster, {"gpus_per_node", "memory"}));
  constexpr std::size_t most_models = 200;
  SHARDSWEEP_TRY(read_list(*found, "models", most_models, [&](const Json& entry) -> Result<void> {
    SHARDSWEEP_ASSIGN(auto model, read_model(entry));
    knowledge.models.push_back(std::move(model));
    return Result<void>();
  }));
  SHARDSWEEP_TRY(
      read_list(*found, "runs", most_measured_runs, [&](const Json& entry) -> Result<void> {
        return read_object(entry, "a measured run", knowledge.runs.emplace_back(),
            {"model", "gpus", "seq_len", "dtype", "layout", "outcome"});
      }));
  SHARDSWEEP_ASSIGN(
      auto learnt, learn(knowledge, request.cluster, *request.family, dtype_of(request)));
  return std::make_shared<const LearntPredictor>(std::move(learnt));
}

Result<void> read_presets(const Json& question, Question& into) {
  const auto found = question.find("presets");
  if (found == question.end() || !found->is_object()) return {};
  SHARDSWEEP_ASSIGN(into.preset_of_model, text_of(*found, "model"));
  SHARDSWEEP_ASSIGN(into.preset_of_cluster, text_of(*found, "cluster"));
  return {};
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
  request.family = &default_family(request.cluster);
  if (!family.empty()) SHARDSWEEP_SET(request.family, find_family(family));
  SHARDSWEEP_ASSIGN(const auto gpus, number_of(question, "gpus", most_gpus));
  SHARDSWEEP_ASSIGN(request, on_gpus(std::move(request), static_cast<std::int32_t>(gpus)));
  SHARDSWEEP_ASSIGN(const auto length, number_of(question, "seq_len", 1 << 24));
  request.seq_len = static_cast<std::int32_t>(length);
  SHARDSWEEP_ASSIGN(request.global_batch_tokens, number_of(question, "batch_tokens", most_tokens));
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
  return {{"name", knowledge.name}, {"family", knowledge.family},
      {"cluster", question_of(knowledge.cluster)}, {"models", std::move(models)},
      {"runs", std::move(runs)}};
}

}  // namespace shardsweep
