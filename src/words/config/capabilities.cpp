// SPDX-License-Identifier: Apache-2.0
// Reads what a runner prints for `--capabilities`. Keys that we don't know are skipped: a newer
// runner may say more. What we do know has to have the right shape.
#include <shardsweep/capabilities.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace shardsweep {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_bytes = 1 << 20;
constexpr std::size_t most_items = 1000;

tl::unexpected<Fault> broken(std::string what) {
  return fault(FaultKind::invalid_input, "the runner's capabilities: " + std::move(what));
}

/// The items of an array at `key`; empty if the key is absent.
Result<std::vector<Json>> items_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return std::vector<Json>{};
  if (!found->is_array()) return broken(fmt::format("'{}' is not an array", key));
  if (found->size() > most_items)
    return broken(fmt::format("'{}' has more than {} items", key, most_items));
  return std::vector<Json>(found->begin(), found->end());
}

Result<std::string> text_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end()) return broken(fmt::format("'{}' is missing", key));
  if (!found->is_string()) return broken(fmt::format("'{}' is not a text", key));
  return found->get<std::string>();
}

Result<std::int64_t> integer_of(const Json& value, std::string_view what) {
  const bool fits = value.is_number_integer() &&
      !(value.is_number_unsigned() &&
          value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  if (!fits) return broken(fmt::format("'{}' is not a whole number", what));
  return value.get<std::int64_t>();
}

/// One allowed value as axis_text() would print it.
Result<std::string> word_of(const Json& value, std::string_view axis) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
  SHARDSWEEP_ASSIGN(const auto number, integer_of(value, axis));
  return std::to_string(number);
}

Result<std::vector<std::string>> words_of(const Json& object, std::string_view key) {
  SHARDSWEEP_ASSIGN(const auto items, items_of(object, key));
  std::vector<std::string> words;
  for (const auto& item : items)
    SHARDSWEEP_SET(words.emplace_back(), word_of(item, key));
  return words;
}

Result<void> read_max(const Json& object, Capabilities& into) {
  const auto found = object.find("max");
  if (found == object.end()) return {};
  if (!found->is_object()) return broken("'max' is not an object");
  for (const auto& [name, limit] : found->items()) {
    const auto* axis = find_axis(name);
    if (axis == nullptr) continue;
    auto& most = into.max[std::string(axis->name)];
    if (limit.is_null()) continue;
    SHARDSWEEP_ASSIGN(most, integer_of(limit, "max." + name));
  }
  return {};
}

Result<void> read_allowed(const Json& object, Capabilities& into) {
  for (const auto& axis : axes()) {
    if (axis.name == "dtype" || !object.contains(axis.name)) continue;
    SHARDSWEEP_ASSIGN(into.allowed[std::string(axis.name)], words_of(object, axis.name));
  }
  return {};
}

Result<void> read_gives_up(const Json& object, Capabilities& into) {
  const auto found = object.find("gives_up");
  if (found == object.end()) return {};
  if (!found->is_boolean()) return broken("'gives_up' is not true or false");
  into.gives_up = found->get<bool>();
  return {};
}

Result<void> read_rules(const Json& object, Capabilities& into) {
  SHARDSWEEP_ASSIGN(const auto rules, items_of(object, "rules"));
  for (const auto& rule : rules) {
    if (!rule.is_object()) return broken("a rule is not an object");
    RunnerRule read;
    SHARDSWEEP_ASSIGN(read.constraint, text_of(rule, "constraint"));
    SHARDSWEEP_ASSIGN(read.when, text_of(rule, "when"));
    SHARDSWEEP_ASSIGN(read.why, text_of(rule, "why"));
    into.rules.push_back(std::move(read));
  }
  return {};
}

}  // namespace

Result<Capabilities> parse_capabilities(std::string_view json) {
  if (json.size() > most_bytes) return broken("more than 1 MiB of text");
  const auto object = Json::parse(json, nullptr, false);
  if (object.is_discarded()) return broken("not valid JSON");
  if (!object.is_object()) return broken("not a JSON object");
  Capabilities read;
  SHARDSWEEP_ASSIGN(read.runner, text_of(object, "runner"));
  SHARDSWEEP_ASSIGN(read.version, text_of(object, "version"));
  SHARDSWEEP_ASSIGN(read.dtypes, words_of(object, "dtype"));
  if (read.dtypes.empty()) return broken("'dtype' is missing or empty; for example [\"fp32\"]");
  SHARDSWEEP_TRY(read_max(object, read));
  SHARDSWEEP_TRY(read_allowed(object, read));
  SHARDSWEEP_TRY(read_rules(object, read));
  SHARDSWEEP_TRY(read_gives_up(object, read));
  return read;
}

}  // namespace shardsweep
