// SPDX-License-Identifier: Apache-2.0
// Numbers as sentences show them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep {

/// 1,048,576
[[nodiscard]] std::string grouped(std::int64_t value);

/// Three significant digits, and never an exponent for what is large: `0.0447`, `12.3`,
/// `1,079`.
[[nodiscard]] std::string amount_text(double value);

/// Three significant digits with a binary unit: `79.6 GiB`.
[[nodiscard]] std::string bytes_text(double bytes);

/// Appended without reading a format, for what is written a million times.
void append_text(fmt::memory_buffer& out, std::string_view text);
void append_integer(fmt::memory_buffer& out, std::int64_t value);

/// `1 point`, `2 points`.
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);

}  // namespace shardsweep
