// SPDX-License-Identifier: Apache-2.0
// Hours of a week as a person writes them ("mon-fri 20:00-08:00, sat-sun 00:00-24:00"), and
// when they begin and end. Minutes are local ones: on the two days of a year that are not of 24
// hours they are off by one hour.
#pragma once

#include <shardsweep/policy.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsweep {

inline constexpr std::int32_t minutes_of_week = 7 * 24 * 60;

/// "always", or windows with commas in between: days on which they open (none: every day), from
/// and to; a window over midnight ends on the next day. Else what is wrong, and what would be
/// right.
[[nodiscard]] tl::expected<OpeningHours, std::string> parse_opening_hours(std::string_view text);
/// The text of such hours.
[[nodiscard]] std::string opening_hours_text(const OpeningHours& hours);

/// Minutes until the hours end; 0 if they are over; a week if they never end. `minute` is one of
/// the week, from Monday 00:00.
[[nodiscard]] std::int32_t open_for_min(const OpeningHours& hours, std::int32_t minute);
/// Minutes until they begin; 0 if they have begun.
[[nodiscard]] std::int32_t opens_in_min(const OpeningHours& hours, std::int32_t minute);

/// "Mon 20:00"
[[nodiscard]] std::string week_time_text(std::int32_t minute);

}  // namespace shardsweep
