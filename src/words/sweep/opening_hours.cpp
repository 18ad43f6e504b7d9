// SPDX-License-Identifier: Apache-2.0
// Decision: Slurm itself keeps the hours of the day (`--deadline`), since the daemon may be
// dead at closing time.
#include "sweep/opening_hours.hpp"

#include "text/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace shardsweep {
namespace {

constexpr std::array<std::string_view, 7> day_words{
    "mon", "tue", "wed", "thu", "fri", "sat", "sun"};
constexpr std::int32_t day_min = 24 * 60;
constexpr std::size_t most_windows = 50;
constexpr std::string_view example =
    "write 'always', '20:00-08:00' or 'mon-fri 20:00-08:00, sat-sun 00:00-24:00'";

using Wrong = tl::unexpected<std::string>;

std::optional<std::size_t> day_of(std::string_view word) {
  const auto found = std::find(day_words.begin(), day_words.end(), word);
  if (found == day_words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - day_words.begin());
}

/// "mon", "fri-mon"
tl::expected<std::uint8_t, std::string> parse_days(std::string_view text) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto first = day_of(text.substr(0, dash));
  const auto last = dash == text.size() ? first : day_of(text.substr(dash + 1));
  if (!first || !last)
    return Wrong(
        fmt::format("'{}' is not a day of the week; write {}", text, fmt::join(day_words, ", ")));
  std::uint8_t days = 0;
  for (std::size_t day = *first;; day = (day + 1) % day_words.size()) {
    days = static_cast<std::uint8_t>(days | (1U << day));
    if (day == *last) return days;
  }
}

/// "08:30"; "24:00" is the end of a day.
std::optional<std::int32_t> parse_time(std::string_view text) {
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  const auto number = [&](std::size_t at) {
    std::int32_t value = -1;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 2, value);
    return error == std::errc() && end == text.data() + at + 2 ? value : -1;
  };
  const std::int32_t hour = number(0);
  const std::int32_t minute = number(3);
  if (hour < 0 || minute < 0 || minute > 59 || hour * 60 + minute > day_min) return std::nullopt;
  return hour * 60 + minute;
}

tl::expected<OpeningWindow, std::string> parse_window(std::string_view text) {
  OpeningWindow window;
  const std::size_t blank = text.find(' ');
  std::string_view times = text;
  if (blank != std::string_view::npos) {
    const auto days = parse_days(text.substr(0, blank));
    if (!days) return Wrong(days.error());
    window.days = *days;
    times = trimmed(text.substr(blank));
  }
  const std::size_t dash = std::min(times.find('-'), times.size());
  const auto from = parse_time(times.substr(0, dash));
  const auto to = parse_time(times.substr(std::min(dash + 1, times.size())));
  if (!from || !to || *from == day_min)
    return Wrong(fmt::format("'{}' are not hours; {}", text, example));
  if (*from == *to)
    return Wrong(fmt::format("'{}' begins when it ends; write 00:00-24:00 for a whole day", text));
  window.from_min = *from;
  window.to_min = *to;
  return window;
}

std::string time_text(std::int32_t minute) {
  return fmt::format("{:02}:{:02}", minute / 60, minute % 60);
}

/// The days as ranges: of more than one there is a window each.
std::string days_text(std::uint8_t days) {
  for (std::size_t first = 0; first < day_words.size(); ++first) {
    for (std::size_t length = 1; length < day_words.size(); ++length) {
      unsigned range = 0;
      for (std::size_t i = 0; i < length; ++i)
        range |= 1U << ((first + i) % day_words.size());
      if (range != days) continue;
      const auto last = day_words[(first + length - 1) % day_words.size()];
      return length == 1 ? std::string(last) + " " : fmt::format("{}-{} ", day_words[first], last);
    }
  }
  return "";
}

/// Minutes until the window with this minute ends; 0: no window has it.
std::int32_t rest_of_window(const OpeningHours& hours, std::int32_t minute) {
  std::int32_t rest = 0;
  for (const OpeningWindow& window : hours.windows) {
    std::int32_t length = window.to_min - window.from_min;
    if (length <= 0) length += day_min;
    for (std::int32_t day = 0; day < 7; ++day) {
      if ((window.days & (1U << static_cast<unsigned>(day))) == 0) continue;
      const std::int32_t begin = day * day_min + window.from_min;
      const std::int32_t since = (minute - begin + minutes_of_week) % minutes_of_week;
      rest = std::max(rest, length - since);
    }
  }
  return rest;
}

}  // namespace

tl::expected<OpeningHours, std::string> parse_opening_hours(std::string_view text) {
  OpeningHours hours;
  if (trimmed(text) == "always") return hours;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    auto window = parse_window(trimmed(text.substr(0, comma)));
    if (!window) return Wrong(window.error());
    hours.windows.push_back(*window);
    if (hours.windows.size() > most_windows) return Wrong("more than 50 windows of hours");
    if (comma == text.size()) return hours;
    text.remove_prefix(comma + 1);
  }
}

std::string opening_hours_text(const OpeningHours& hours) {
  std::string text;
  for (const OpeningWindow& window : hours.windows) {
    text += fmt::format("{}{}{}-{}", text.empty() ? "" : ", ", days_text(window.days),
        time_text(window.from_min), time_text(window.to_min));
  }
  return text.empty() ? "always" : text;
}

std::int32_t open_for_min(const OpeningHours& hours, std::int32_t minute) {
  if (hours.windows.empty()) return minutes_of_week;
  std::int32_t open = 0;
  while (open < minutes_of_week) {
    const std::int32_t rest = rest_of_window(hours, (minute + open) % minutes_of_week);
    if (rest == 0) break;
    open += rest;
  }
  return std::min(open, minutes_of_week);
}

std::int32_t opens_in_min(const OpeningHours& hours, std::int32_t minute) {
  if (hours.windows.empty() || rest_of_window(hours, minute) > 0) return 0;
  std::int32_t closed = minutes_of_week;
  for (const OpeningWindow& window : hours.windows) {
    for (std::int32_t day = 0; day < 7; ++day) {
      if ((window.days & (1U << static_cast<unsigned>(day))) == 0) continue;
      const std::int32_t begin = day * day_min + window.from_min;
      closed = std::min(closed, (begin - minute + minutes_of_week) % minutes_of_week);
    }
  }
  return closed;
}

std::string week_time_text(std::int32_t minute) {
  constexpr std::array<std::string_view, 7> names{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
  minute %= minutes_of_week;
  return fmt::format(
      "{} {}", names.at(static_cast<std::size_t>(minute / day_min)), time_text(minute % day_min));
}

}  // namespace shardsweep
