// SPDX-License-Identifier: Apache-2.0
#include "config/own_causes.hpp"

#include "causes/failed_log.hpp"
#include "config/keys.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::string_view what = "a rule";

template <Worded Enum>
Result<Enum> read_word(const YamlNode& node, std::string_view key) {
  std::string known;
  for (const std::string_view word : word_table<Enum>) {
    const Enum value = *from_word<Enum>(word);
    if constexpr (std::is_same_v<Enum, Outcome>) {
      if (std::find(cause_outcomes.begin(), cause_outcomes.end(), value) == cause_outcomes.end())
        continue;
    }
    if (word.empty()) continue;
    if (node.kind == YamlNode::Kind::scalar && node.text == word) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", word);
  }
  return refuse(
      node, fmt::format("expected one of {} for '{}', got {}", known, key, describe(node)));
}

Result<std::string> read_pattern(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(auto pattern, read_text(node, "pattern", most_pattern_bytes));
  if (pattern.find_first_not_of("* ") == std::string::npos)
    return refuse(
        node, "this pattern fits every line; write text of the line, with * where it varies");
  return pattern;
}

Result<std::string> read_words(const YamlNode& node, const Key<Cause, std::string>& key) {
  if (key.facts.type == KeyType::name) return read_name(node, key.name);
  if (key.name == "pattern") return read_pattern(node);
  if (key.name == "sample") return read_text(node, key.name, most_sample_bytes, Lines::many);
  return read_text(node, key.name);
}

std::optional<Cause> read_cause(const YamlNode& node, Mistakes& mistakes) {
  if (!mistakes.take(node, expect_map(node, what))) return std::nullopt;
  const auto before = mistakes.count();
  check_keys(node, what, keys_of("classify"), mistakes);
  Cause cause;
  visit_values(cause, [&](const auto& key, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const YamlNode* said =
        key.is(Flag::optional) ? find(node, key.name) : need(node, what, key.name, mistakes);
    if (said == nullptr) return;
    if constexpr (Worded<Value>) {
      mistakes.assign(value, *said, read_word<Value>(*said, key.name));
    } else {
      mistakes.assign(value, *said, read_words(*said, key));
    }
  });
  if (mistakes.count() > before) return std::nullopt;
  if (!judges_its_sample(cause)) {
    const YamlNode& sample = *find(node, "sample");
    mistakes.add(sample,
        fault_at(sample,
            fmt::format("this sample is not judged by its own rule {}: no line of it has the "
                        "pattern where 'where' and 'when' ask for it",
                in_quotes(cause.name))));
    return std::nullopt;
  }
  return cause;
}

}  // namespace

std::vector<Cause> read_own_causes(const YamlNode& list, Mistakes& mistakes) {
  std::vector<Cause> causes;
  if (!mistakes.take(list, expect_list(list, "'classify'"))) return causes;
  if (list.items.size() > most_causes) {
    const auto& item = *list.items[most_causes];
    mistakes.add(
        item, fault_at(item, fmt::format("more than {} rules in 'classify'", most_causes)));
    return causes;
  }
  for (const auto& item : list.items) {
    auto cause = read_cause(*item, mistakes);
    if (!cause) continue;
    const auto same = [&](const Cause& other) { return other.name == cause->name; };
    if (std::any_of(causes.begin(), causes.end(), same))
      mistakes.add(*item,
          fault_at(*item, fmt::format("two rules have the name {}", in_quotes(cause->name))));
    causes.push_back(*std::move(cause));
  }
  return causes;
}

std::string cause_text(const Cause& cause) {
  std::string text;
  visit_values(cause, [&](const auto& key, const auto& value) {
    if (key.is(Flag::optional) && value == Cause{}.*key.member) return;
    text += fmt::format("{}{}: ", text.empty() ? "" : ", ", key.name);
    if constexpr (Worded<std::remove_cvref_t<decltype(value)>>) {
      text += word_of(value);
    } else {
      text += yaml_text(value);
    }
  });
  return fmt::format("{{{}}}", text);
}

}  // namespace shardsweep::config
