// SPDX-License-Identifier: Apache-2.0
// Decision: A lead starts nothing that cannot end before its job does.
#include "attempt/wall_time.hpp"

#include "text/pieces.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace shardsweep {
namespace {}  // namespace

bool WallTime::fits(double predicted_s) const {
  if (!left_s) return true;
  const double needed_s = predicted_s > 0 ? predicted_s * margin + grace_s : stop_before_end_s;
  return needed_s <= *left_s - stop_before_end_s;
}

bool WallTime::is_up() const {
  return left_s && *left_s <= stop_before_end_s;
}

WallTime wall_time_of(const AllocationSpec& spec, std::optional<double> left_s) {
  return {left_s, spec.limits.time_margin, spec.grace_s, spec.limits.stop_before_end_s};
}

std::optional<JobEndAnswer> job_end_in(std::string_view text) {
  const std::string_view word = trimmed(text);
  // Ask again after "Unknown", which promises nothing: it is not in this list.
  constexpr std::array<std::string_view, 5> never{
      "NONE", "None", "UNLIMITED", "Unlimited", "INFINITE"};
  if (std::find(never.begin(), never.end(), word) != never.end()) return JobEndAnswer{};
  std::int64_t seconds = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, seconds);
  // Numbers outside 2001 to 5138 are no times in seconds.
  constexpr std::int64_t earliest = 1'000'000'000;
  constexpr std::int64_t latest = 100'000'000'000;
  if (error != std::errc() || stop != end || seconds < earliest || seconds > latest)
    return std::nullopt;
  return JobEndAnswer{seconds * 1'000'000};
}

}  // namespace shardsweep
