// SPDX-License-Identifier: Apache-2.0
// One JSON object and the values in it, checked: what reads the protocol's lines and a runner's
// records has in common.
#pragma once

#include "text/characters.hpp"

#include <shardsweep/result.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep::json {

// Ordered: a line begins with what tells it from foreign output.
using Json = nlohmann::ordered_json;

inline constexpr std::size_t longest_line = 1 << 20;  // limit in a file; a channel line has
                                                      // max_line

inline Fault malformed(std::string_view line, std::string_view why) {
  return {FaultKind::corrupt,
      "malformed line (" + std::string(why) + "): '" + one_line(line, 60) + "'"};
}

template <class T>
bool read_integer(const Json& value, T& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (!std::in_range<T>(number)) return false;
    out = static_cast<T>(number);
    return true;
  }
  const auto number = value.get<std::int64_t>();
  if (!std::in_range<T>(number)) return false;
  out = static_cast<T>(number);
  return true;
}

inline bool read_value(const Json& value, std::int32_t& out) {
  return read_integer(value, out);
}
inline bool read_value(const Json& value, std::int64_t& out) {
  return read_integer(value, out);
}
inline bool read_value(const Json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return std::isfinite(out);
}
inline bool read_value(const Json& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}
inline bool read_value(const Json& value, bool& out) {
  if (!value.is_boolean()) return false;
  out = value.get<bool>();
  return true;
}

inline Result<Json> parse_object(std::string_view text, std::size_t limit) {
  if (text.size() > limit) return tl::unexpected(malformed(text, "too long"));
  Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return tl::unexpected(malformed(text, "not a JSON object"));
  return object;
}

}  // namespace shardsweep::json
