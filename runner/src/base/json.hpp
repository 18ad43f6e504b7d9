// SPDX-License-Identifier: Apache-2.0
// A writer for one JSON object on one line. Writes only; reading is for others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// Text as a JSON string, quotes included; bytes below 0x20 are escaped, UTF-8 passes through.
std::string json_quote(std::string_view text);
/// 17 significant digits: reads back as the same double. NaN and infinities become null.
std::string json_number(double value);

class JsonObject {
 public:
  JsonObject& text(std::string_view key, std::string_view value);
  JsonObject& number(std::string_view key, double value);
  JsonObject& integer(std::string_view key, std::int64_t value);
  JsonObject& boolean(std::string_view key, bool value);
  JsonObject& null(std::string_view key);
  /// The value is JSON already.
  JsonObject& raw(std::string_view key, std::string_view json);
  std::string str() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

std::string json_array(const std::vector<std::string>& json_values);

}  // namespace shardbench
