// SPDX-License-Identifier: Apache-2.0
// The one table of a sweep file's keys, axes and policy values apart: the readers refuse what
// is not in it, and reference and JSON Schema are written from it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardsweep::config {

enum class KeyType : std::uint8_t {
  name,  ///< safe in paths and job names
  text,
  count,    ///< a whole number, with k, M, Ki, Mi …
  bytes,    ///< 80GiB
  rate,     ///< 450GB/s
  latency,  ///< 5us
  real,
  share,    ///< above 0, at most 1
  percent,  ///< 1% or 0.01
  boolean,
  texts,    ///< a list of texts
  special,  ///< the schema says more
};

struct KeyInfo {
  std::string_view section;  ///< "" for the file itself, "search.until" for a map in a map
  std::string_view key;
  KeyType type;
  std::string_view takes;
  std::string_view default_text;
  std::string_view meaning;
};

[[nodiscard]] std::span<const KeyInfo> sweep_keys();
/// The keys of a section, in the table's order.
[[nodiscard]] std::vector<std::string_view> keys_of(std::string_view section);

/// What a site file may hold; `special` values have keys of their own.
[[nodiscard]] std::span<const KeyInfo> site_keys();
[[nodiscard]] std::vector<std::string_view> site_keys_of(std::string_view section);

}  // namespace shardsweep::config
