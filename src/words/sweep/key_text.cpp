// SPDX-License-Identifier: Apache-2.0
#include "sweep/key_text.hpp"

#include "text/numbers.hpp"
#include "text/units.hpp"

#include <fmt/format.h>

#include <concepts>
#include <string_view>
#include <type_traits>

namespace shardsweep::config {
namespace {

/// Writes a text in double quotes: YAML reads JSON's strings.
std::string yaml_string(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + '"';
}

template <class T>
std::string map_of(const T& object, const std::string& peaks = {}) {
  std::string all;
  const auto add = [&](std::string_view name, std::string_view text) {
    all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", name, text);
  };
  visit_values(object, [&](const auto& key, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if (key.is(Flag::optional) && value == Value{}) return;
    if constexpr (std::same_as<Value, std::string>)
      add(key.name, yaml_string(value));
    else if constexpr (std::is_arithmetic_v<Value>)
      add(key.name, value_text(key.facts.type, value));
    else
      add(key.name, "{" + peaks + "}");
  });
  return "{" + all + "}";
}

}  // namespace

std::string value_text(KeyType type, double value) {
  const auto unit = type == KeyType::rate ? "B/s" : type == KeyType::latency ? "us" : "";
  return fmt::format("{}{}", value, unit);
}

std::string value_text(KeyType type, std::int64_t value) {
  return type == KeyType::bytes ? bytes_text(value) : fmt::format("{}", value);
}

std::string value_text(KeyType type, std::int32_t value) {
  return value_text(type, std::int64_t{value});
}

std::string value_text(KeyType /*type*/, bool value) {
  return value ? "true" : "false";
}

std::string peaks_text(const ClusterSpec& cluster) {
  std::string peaks;
  for (std::size_t at = 0; at < peak_words.size(); ++at) {
    if (const auto& peak = cluster.peak_flops.at(at))
      peaks += fmt::format("{}{}: {}", peaks.empty() ? "" : ", ", peak_words.at(at), *peak);
  }
  return peaks;
}

std::string map_text(const ModelSpec& model) {
  return map_of(model);
}

std::string map_text(const ClusterSpec& cluster) {
  return map_of(cluster, peaks_text(cluster));
}

}  // namespace shardsweep::config
