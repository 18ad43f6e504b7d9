// SPDX-License-Identifier: Apache-2.0
// Tables that are built in, in a part of YAML that needs no library: keys at the margin, lists of
// texts in quotes or of `- key: value` with further keys below, and blocks of text (`|`, `|-`).
// Lists of objects, these and those of users' files (yaml/), are read and judged by one function.
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/words.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsweep {

struct TableValue {
  int line = 0;
  std::string_view section{};  ///< the last key at the margin
  std::string_view key{};      ///< empty: it is the section's own, or an item of a list of texts
  bool fresh = false;          ///< begins an item of a list
  std::string text{};          ///< text without its quotes
  std::string wrong{};         ///< mistake in the value; empty: none
};

/// Values in the order of the text. Throws std::invalid_argument, which names the line.
[[nodiscard]] std::vector<TableValue> read_table(std::string_view yaml);

/// Mistakes in words: of a text for this key, empty if there is none; and of a text that is no word
/// of the key.
[[nodiscard]] std::string mistake_in(
    std::string_view key, const KeyFacts& facts, std::string_view text);
[[nodiscard]] std::string no_word_of(
    std::string_view key, std::span<const std::string_view> words, std::string_view text);

/// Mistake in an item, at the value of that number: in its key or in what stands there.
struct EntryMistake {
  std::size_t value = 0;
  std::string what{};
  bool in_key = false;
};
template <class T>
struct ReadEntries {
  std::vector<T> entries{};  ///< entries without a mistake
  std::vector<EntryMistake> mistakes{};
};

/// Keys and names of the items of one list, and what messages call an item: "rule".
struct EntryKeys {
  std::string_view noun;
  std::vector<std::string_view> known{};
  std::vector<std::string_view> required{};
  std::set<std::string> names{};
};
/// Notes unknown and missing keys of the item of `values` whose first value has the number `at`,
/// and a name that another has.
void check_item(EntryKeys& keys, std::span<const TableValue> values, std::size_t at,
    std::vector<EntryMistake>& mistakes);

/// Sets what a key says; returns what is wrong with its text, in words, or nothing.
template <class Key, class Value>
[[nodiscard]] std::string set_key(const Key& key, Value& value, const TableValue& said) {
  if constexpr (std::is_enum_v<Value>) {
    const auto word = said.text.empty() ? std::nullopt : from_word<Value>(said.text);
    value = word.value_or(value);
    if (!said.wrong.empty()) return said.wrong;
    return word ? "" : no_word_of(key.name, word_table<Value>, said.text);
  } else {
    value = said.text;
    return said.wrong.empty() ? mistake_in(key.name, key.facts, said.text) : said.wrong;
  }
}

/// Items of a list as objects, by what `described<T>` says of their keys. An item may begin with a
/// value without a key.
template <class T>
[[nodiscard]] ReadEntries<T> read_entries(
    std::span<const TableValue> values, std::string_view noun) {
  ReadEntries<T> read;
  EntryKeys keys{noun};
  visit_fields<T>([&](const auto& key) {
    keys.known.push_back(key.name);
    if (!key.is(Flag::optional)) keys.required.push_back(key.name);
  });
  for (std::size_t at = 0; at < values.size();) {
    const std::size_t before = read.mistakes.size();
    const auto next = std::find_if(values.begin() + static_cast<std::ptrdiff_t>(at) + 1,
        values.end(), [](const TableValue& value) { return value.fresh; });
    const auto end = static_cast<std::size_t>(next - values.begin());
    check_item(keys, values.subspan(at, end - at), at, read.mistakes);
    T object;
    for (; at < end; ++at) {
      visit_values(object, [&](const auto& key, auto& value) {
        if (key.name != values[at].key) return;
        auto wrong = set_key(key, value, values[at]);
        if (!wrong.empty()) read.mistakes.push_back({at, std::move(wrong)});
      });
    }
    if (read.mistakes.size() == before) read.entries.push_back(std::move(object));
  }
  return read;
}

/// A file that is one list of such objects. Throws std::invalid_argument for its first mistake.
template <class T>
[[nodiscard]] std::vector<T> read_entries(std::string_view yaml) {
  const std::vector<TableValue> values = read_table(yaml);
  ReadEntries<T> read = read_entries<T>(values, "rule");
  if (read.mistakes.empty()) return std::move(read.entries);
  const EntryMistake& first = read.mistakes.front();
  throw std::invalid_argument(
      "line " + std::to_string(values[first.value].line) + ": " + first.what);
}

}  // namespace shardsweep
