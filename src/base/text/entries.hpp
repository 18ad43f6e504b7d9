// SPDX-License-Identifier: Apache-2.0
// Tables that are built in, in a part of YAML that needs no library: keys at the margin, lists of
// texts in quotes or of `- key: value` with further keys below, and blocks of text (`|`, `|-`).
#pragma once

#include <shardsweep/described.hpp>
#include <shardsweep/words.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardsweep {

struct TableValue {
  int line = 0;
  std::string_view section{};  ///< the last key at the margin
  std::string_view key{};      ///< empty: it is the section's own, or an item of a list of texts
  bool fresh = false;          ///< begins an item of a list
  std::string text{};          ///< without its quotes
};

/// In their order. Throws std::invalid_argument, which names the line.
[[nodiscard]] std::vector<TableValue> read_table(std::string_view yaml);

/// Sets a text or a word that `described<T>` calls `key`; false: it has no such key or word.
template <class T>
bool set_value(T& object, std::string_view key, std::string_view text) {
  bool known = false;
  visit_values(object, [&](const auto& entry, auto& value) {
    if (entry.name != key) return;
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(value)>>) {
      const auto word = from_word<std::remove_reference_t<decltype(value)>>(text);
      known = word.has_value();
      value = word.value_or(value);
    } else {
      known = true;
      value = text;
    }
  });
  return known;
}

/// A file that is one list of such objects.
template <class T>
[[nodiscard]] std::vector<T> read_entries(std::string_view yaml) {
  std::vector<T> all;
  for (const TableValue& value : read_table(yaml)) {
    if (value.fresh) all.emplace_back();
    if (all.empty() || !value.section.empty() || !set_value(all.back(), value.key, value.text))
      throw std::invalid_argument("line " + std::to_string(value.line) + ": no key or word of it");
  }
  return all;
}

}  // namespace shardsweep
