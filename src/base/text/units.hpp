// SPDX-License-Identifier: Apache-2.0
// Numbers and units as a person writes them, strictly: what could mean two things is refused,
// and the message says how to write the one that was meant. The way back is exact.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep::config {

/// The value, or what is wrong with the text.
template <class T>
using Parsed = tl::expected<T, std::string>;

struct Range {
  std::int64_t least;
  std::int64_t most;
  std::string_view what;  ///< the key, for messages
};

/// 4096, 4Ki, 1Mi, 64k, 1M (1,000,000).
[[nodiscard]] Parsed<std::int64_t> parse_count(std::string_view text, const Range& range);
/// 80GiB, 80GB, 64Mi, 1024B; a bare number is refused.
[[nodiscard]] Parsed<std::int64_t> parse_bytes(std::string_view text, const Range& range);
/// 250ms, 1.5s, 15min, 2h, 1d, in seconds; to the microsecond.
[[nodiscard]] Parsed<double> parse_duration(std::string_view text);
/// 800ns, 3us, 1ms, in microseconds.
[[nodiscard]] Parsed<double> parse_latency(std::string_view text);
/// 450GB/s, in bytes per second.
[[nodiscard]] Parsed<double> parse_bandwidth(std::string_view text);
/// 200, 0.5, 989.4e12: finite, not negative.
[[nodiscard]] Parsed<double> parse_real(std::string_view text);
/// 1% or 0.01: above 0 and below 1.
[[nodiscard]] Parsed<double> parse_share(std::string_view text);
/// true, false.
[[nodiscard]] Parsed<bool> parse_bool(std::string_view text);

/// Prints the largest binary unit that keeps the number whole: 28MiB.
[[nodiscard]] std::string bytes_text(std::int64_t bytes);
/// Prints the largest unit that keeps the number whole: 15min, 250ms; rounded to the microsecond.
[[nodiscard]] std::string duration_text(double seconds);
/// 1048576 as '1Mi', or empty if no binary unit keeps it whole.
[[nodiscard]] std::string binary_count_text(std::int64_t count);

}  // namespace shardsweep::config
