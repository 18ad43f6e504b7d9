// SPDX-License-Identifier: Apache-2.0
#include "config/own_causes.hpp"

#include "causes/failed_log.hpp"
#include "text/characters.hpp"
#include "text/entries.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <utility>

namespace shardsweep::config {
namespace {

/// Values of a list of maps, in the form of a built-in table's, each with the nodes of its key and
/// its value, for errors with a place.
struct PlacedValues {
  std::vector<TableValue> values{};
  std::vector<std::pair<const YamlNode*, const YamlNode*>> places{};
};

/// Text of a mistake if a user's cause has an outcome that no line of a log can show; else empty.
std::string outcome_of_no_line(std::string_view text) {
  std::vector<std::string_view> words;
  words.reserve(cause_outcomes.size());
  for (const Outcome outcome : cause_outcomes)
    words.push_back(name(outcome));
  const bool known = std::find(words.begin(), words.end(), text) != words.end();
  return known ? "" : no_word_of("outcome", words, text);
}

PlacedValues values_of(const YamlNode& list, Mistakes& mistakes) {
  PlacedValues all;
  for (const auto& item : list.items) {
    if (!mistakes.take(*item, expect_map(*item, "a rule"))) continue;
    all.values.push_back({.fresh = true});
    all.places.emplace_back(item.get(), item.get());
    for (std::size_t at = 0; at < item->keys.size(); ++at) {
      const YamlNode& said = *item->items[at];
      TableValue value{.key = item->keys[at]->text, .text = said.text};
      if (said.kind != YamlNode::Kind::scalar)
        value.wrong = fmt::format("expected a text for '{}', got {}", value.key, describe(said));
      else if (value.key == "outcome")
        value.wrong = outcome_of_no_line(said.text);
      all.values.push_back(std::move(value));
      all.places.emplace_back(item->keys[at].get(), &said);
    }
  }
  return all;
}

/// A sample that its own cause does not judge is a mistake of the item `in`.
void check_sample(const Cause& cause, const YamlNode& in, Mistakes& mistakes) {
  if (judges_its_sample(cause)) return;
  const YamlNode& sample = *find(in, "sample");
  mistakes.add(sample,
      "rule {} does not match its own sample: a line of the sample must have the pattern in the "
      "place that 'where' and 'when' name",
      in_quotes(cause.name));
}

}  // namespace

std::vector<Cause> read_own_causes(const YamlNode& list, Mistakes& mistakes) {
  if (!mistakes.take(list, expect_list(list, "'classify'"))) return {};
  if (list.items.size() > most_causes) {
    const auto& item = *list.items[most_causes];
    mistakes.add(item, "more than {} rules in 'classify'", most_causes);
    return {};
  }
  const auto [values, places] = values_of(list, mistakes);
  auto [causes, wrong] = read_entries<Cause>(values, "rule");
  for (const EntryMistake& one : wrong) {
    const YamlNode& at = one.in_key ? *places[one.value].first : *places[one.value].second;
    mistakes.add(at, one.what);
  }
  for (const Cause& cause : causes) {
    const auto item = std::find_if(list.items.begin(), list.items.end(), [&](const auto& one) {
      const YamlNode* its_name = find(*one, "name");
      return its_name != nullptr && its_name->text == cause.name;
    });
    check_sample(cause, **item, mistakes);
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
