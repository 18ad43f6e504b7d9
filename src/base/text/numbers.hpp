// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them: the one form of each unit, in sentences and in tables.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep {

/// 1,048,576
[[nodiscard]] std::string grouped(std::int64_t value);

/// Three significant digits, and never an exponent for what is large: `0.0447`, `12.3`,
/// `1,079`.
[[nodiscard]] std::string amount_text(double value);

/// One decimal with a binary unit: `79.6 GiB`; whole bytes below 1 KiB.
[[nodiscard]] std::string bytes_text(double bytes);
/// Formats a count of bytes of any integral type.
template <std::integral Count>
[[nodiscard]] std::string size_text(Count bytes) {
  return bytes_text(static_cast<double>(bytes));
}

/// The two largest units: `12.5 ms`, `9.8 s`, `53 s`, `4 min 53 s`, `3 h 7 min`, `2 d 5 h`.
[[nodiscard]] std::string duration_text(double seconds);

/// A share as a percentage with one decimal: `45.3 %`.
[[nodiscard]] std::string percent_text(double share);

/// Microseconds since 1970 as RFC 3339 in UTC, `2026-11-22T14:03:07.250000Z`. Empty for 0
/// (never) and for a date that a calendar of four-digit years does not hold.
[[nodiscard]] std::string utc_text(std::int64_t microseconds);
/// Formats a time for a sentence: `2026-11-22 14:03:07 UTC`.
[[nodiscard]] std::string utc_in_sentence(std::int64_t microseconds);

/// Appended without reading a format, for what is written a million times.
void append_text(fmt::memory_buffer& out, std::string_view text);
void append_integer(fmt::memory_buffer& out, std::int64_t value);

/// `1 point`, `2 points`.
[[nodiscard]] std::string counted(std::int64_t count, std::string_view noun);

}  // namespace shardsweep
