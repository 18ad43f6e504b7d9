// SPDX-License-Identifier: Apache-2.0
// Keys of sweep and site files. What a map of a file fills is described beside its struct
// (described<ClusterSpec>, …): the row in the reference, its JSON Schema, the reader and the
// printed value follow from that entry. Keys that no member is, or whose maps have readers of
// their own, are rows of a table in keys.cpp. Axes and policy values have tables of their own.
#pragma once

#include "sweep/key_text.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/described.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardsweep::config {

struct KeyInfo {
  std::string_view section;  ///< "" for the file itself, "search.until" for a map in a map
  std::string_view key;
  KeyType type;
  std::string takes;
  std::string default_text;
  std::string meaning;
};

/// Keys of sweep files: the readers refuse any other key.
[[nodiscard]] std::span<const KeyInfo> sweep_keys();
/// The keys of a section, in the table's order.
[[nodiscard]] std::vector<std::string_view> keys_of(std::string_view section);

/// Keys of a site file; `special` values have keys of their own.
[[nodiscard]] std::span<const KeyInfo> site_keys();
[[nodiscard]] std::vector<std::string_view> site_keys_of(std::string_view section);
/// Sentence on a key that belongs in the site file and not in a sweep file; empty if it does not.
[[nodiscard]] std::string belongs_to_the_site(std::string_view key);
/// Sentence on an option of sbatch that stands in `where`, a part of a sweep file.
[[nodiscard]] std::string belongs_to_sbatch(std::string_view key, std::string_view where);

// Values of described keys.

/// The value of the key `name`, by its type; a mistake is noted, and `into` stays.
void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts, double& into,
    Mistakes& mistakes);
void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::int64_t& into, Mistakes& mistakes);
void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::int32_t& into, Mistakes& mistakes);
void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts, bool& into,
    Mistakes& mistakes);
void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::string& into, Mistakes& mistakes);
void read_value(const YamlNode& node, std::string_view name, const KeyFacts& facts,
    std::vector<std::string>& into, Mistakes& mistakes);

/// Reads T's keys in `map`, except special ones and the one that its caller reads.
template <class T>
void read_values(
    const YamlNode& map, T& into, Mistakes& mistakes, std::string_view read_by_caller = {}) {
  visit_values(into, [&](const auto& key, auto& value) {
    if constexpr (requires { read_value(map, key.name, key.facts, value, mistakes); }) {
      if (key.facts.type == KeyType::special || key.name == read_by_caller) return;
      if (const auto* node = find(map, key.name))
        read_value(*node, key.name, key.facts, value, mistakes);
    }
  });
}

/// Texts as a file writes them, read by read_value() to the same; sweep/key_text has the other
/// values.
[[nodiscard]] std::string value_text(KeyType type, const std::string& value);
[[nodiscard]] std::string value_text(KeyType type, const std::vector<std::string>& value);

/// visit(key, its value's text) for each key of `object` that says something; for members of
/// other types special(key, value) in its place.
template <class T, class Visit, class Special>
void visit_texts(const T& object, Visit&& visit, Special&& special) {
  visit_values(object, [&](const auto& key, const auto& value) {
    if constexpr (requires { value_text(key.facts.type, value); }) {
      if (!key.is(Flag::optional) || value != std::remove_cvref_t<decltype(value)>{})
        visit(key, value_text(key.facts.type, value));
    } else {
      special(key, value);
    }
  });
}

/// `1%` or `0.01`, the value of `key`.
[[nodiscard]] Result<double> read_share(const YamlNode& node, std::string_view key);

}  // namespace shardsweep::config
