// SPDX-License-Identifier: Apache-2.0
// What a struct's described<> says, as a map of JSON, and back: questions to the planner, their
// answers and files of knowledge have one reader and one writer. Faults (invalid_input) name
// the key and what it takes.
#pragma once

#include "sweep/model_shape.hpp"

#include <shardsweep/described.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/result.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep {

template <class... Values>
tl::unexpected<Fault> refuse_json(fmt::format_string<Values...> what, Values&&... values) {
  return fault(FaultKind::invalid_input, fmt::format(what, std::forward<Values>(values)...));
}

inline Result<std::int64_t> whole_in_json(const nlohmann::ordered_json& value, std::string_view key,
    std::int64_t least, std::int64_t most) {
  // 1e6 from a page is a double.
  constexpr double exact = 9007199254740992;
  std::int64_t number = 0;
  if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float() && std::abs(value.get<double>()) <= exact &&
      value.get<double>() == std::floor(value.get<double>())) {
    number = static_cast<std::int64_t>(value.get<double>());
  } else {
    return refuse_json("{} takes a whole number", key);
  }
  if (number < least || number > most)
    return refuse_json("{} takes {} to {}, not {}", key, least, most, number);
  return number;
}

inline Result<double> real_in_json(
    const nlohmann::ordered_json& value, std::string_view key, KeyType type) {
  constexpr double most = 1e30;
  const double number = value.is_number() ? value.get<double>() : -1;
  const bool is_share = type == KeyType::share;
  if (!(number >= 0) || number > (is_share ? 1 : most) || (is_share && number == 0))
    return refuse_json(
        "{} takes a number {}", key, is_share ? "above 0, at most 1" : "of 0 or more");
  return number;
}

template <class Facts>
Result<void> read_value(
    const nlohmann::ordered_json& value, std::string_view name, const Facts& facts, auto& into) {
  using Held = std::remove_cvref_t<decltype(into)>;
  if constexpr (std::same_as<Held, std::string>) {
    constexpr std::size_t longest = 400;
    if (!value.is_string() || value.get_ref<const std::string&>().size() > longest)
      return refuse_json("{} takes a text", name);
    into = value.get<std::string>();
  } else if constexpr (std::same_as<Held, bool>) {
    if (!value.is_boolean()) return refuse_json("{} is true or false", name);
    into = value.get<bool>();
  } else if constexpr (std::same_as<Held, double>) {
    SHARDSWEEP_ASSIGN(into, real_in_json(value, name, facts.type));
  } else if constexpr (std::integral<Held>) {
    const std::int64_t most =
        facts.most > 0 ? facts.most : std::int64_t{std::numeric_limits<Held>::max()};
    SHARDSWEEP_ASSIGN(const auto number, whole_in_json(value, name, facts.least, most));
    into = static_cast<Held>(number);
  } else {
    if (!value.is_object()) return refuse_json("{} takes a map", name);
    for (std::size_t at = 0; at < peak_words.size(); ++at) {
      const auto found = value.find(peak_words[at]);
      if (found == value.end()) continue;
      SHARDSWEEP_ASSIGN(const double peak, real_in_json(*found, peak_words[at], KeyType::real));
      if (peak > 0) into.at(at) = peak;
    }
  }
  return {};
}

/// Every key of T that is there; `required` ones have to be.
template <class T>
Result<void> read_object(const nlohmann::ordered_json& map, std::string_view name, T& into,
    std::initializer_list<std::string_view> required) {
  if (!map.is_object()) return refuse_json("{} takes a map", name);
  Result<void> read;
  visit_values(into, [&](const auto& key, auto& value) {
    if (!read) return;
    const auto found = map.find(key.name);
    if (found != map.end()) {
      read = read_value(*found, key.name, key.facts, value);
    } else if (std::find(required.begin(), required.end(), key.name) != required.end()) {
      read = refuse_json("{} has no {}", name, key.name);
    }
  });
  return read;
}

/// Reads a model; sizes that belong together are required together, and a missing name is `model`.
inline Result<ModelSpec> read_model(const nlohmann::ordered_json& map) {
  ModelSpec model;
  SHARDSWEEP_TRY(
      read_object(map, "model", model, {"layers", "hidden", "ffn", "heads", "kv_heads", "vocab"}));
  model.name =
      map.contains("name") && map["name"].is_string() ? map["name"].get<std::string>() : "model";
  const auto mistakes = shape_mistakes(model);
  if (!mistakes.empty()) return refuse_json("{}", mistakes.front().what);
  return model;
}

/// Optional keys that say nothing are left out.
template <class T>
nlohmann::ordered_json json_of(const T& object) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  visit_values(object, [&](const auto& key, const auto& value) {
    using Held = std::remove_cvref_t<decltype(value)>;
    if (key.is(Flag::optional) && value == Held{}) return;
    if constexpr (std::is_arithmetic_v<Held> || std::same_as<Held, std::string>) {
      map[std::string(key.name)] = value;
    } else {
      nlohmann::ordered_json peaks = nlohmann::ordered_json::object();
      for (std::size_t at = 0; at < value.size(); ++at) {
        if (value[at]) peaks[std::string(peak_words[at])] = *value[at];
      }
      map[std::string(key.name)] = std::move(peaks);
    }
  });
  return map;
}

}  // namespace shardsweep
