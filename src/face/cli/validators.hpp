// SPDX-License-Identifier: Apache-2.0
// What values of options have to be, in our own words.
#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

namespace shardsweep {

/// CLI11's own words for this differ from version to version.
inline CLI::Validator whole_number(std::int64_t first, std::int64_t last) {
  const auto check = [first, last](const std::string& text) {
    std::int64_t number = 0;
    const auto* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    const bool fits =
        read.ec == std::errc() && read.ptr == end && number >= first && number <= last;
    return fits ? std::string()
                : fmt::format("'{}' is not a whole number from {} to {}", text, first, last);
  };
  return {check, ""};
}

}  // namespace shardsweep
