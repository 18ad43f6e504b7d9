// SPDX-License-Identifier: Apache-2.0
// JSON text, one value at a time.
#include "base/json.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace shardbench {

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(byte));
      out += escaped.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 40> digits{};
  std::snprintf(digits.data(), digits.size(), "%.17g", value);
  return digits.data();
}

JsonObject& JsonObject::raw(std::string_view key, std::string_view json) {
  if (!body_.empty()) body_ += ",";
  body_ += json_quote(key);
  body_ += ":";
  body_ += json;
  return *this;
}

JsonObject& JsonObject::text(std::string_view key, std::string_view value) {
  return raw(key, json_quote(value));
}

JsonObject& JsonObject::number(std::string_view key, double value) {
  return raw(key, json_number(value));
}

JsonObject& JsonObject::integer(std::string_view key, std::int64_t value) {
  return raw(key, std::to_string(value));
}

JsonObject& JsonObject::boolean(std::string_view key, bool value) {
  return raw(key, value ? "true" : "false");
}

JsonObject& JsonObject::null(std::string_view key) {
  return raw(key, "null");
}

std::string json_array(const std::vector<std::string>& json_values) {
  std::string out = "[";
  for (const std::string& value : json_values) {
    if (out.size() > 1) out += ",";
    out += value;
  }
  return out + "]";
}

}  // namespace shardbench
