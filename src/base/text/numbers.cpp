// SPDX-License-Identifier: Apache-2.0
#include "text/numbers.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <string_view>

namespace shardsweep {

std::string grouped(std::int64_t value) {
  auto text = std::to_string(value);
  const std::size_t first = text.front() == '-' ? 1 : 0;
  for (auto at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string amount_text(double value) {
  constexpr double large = 999.5;  // larger numbers would need an exponent for three digits
  return value < large ? fmt::format("{:.3g}", value)
                       : grouped(static_cast<std::int64_t>(std::llround(value)));
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 6> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr double step = 1024;
  constexpr double next = step - 0.05;  // larger values would print as 1024.0
  if (std::abs(bytes) < step) return fmt::format("{:.0f} B", bytes);
  std::size_t unit = 0;
  while (std::abs(bytes) >= (unit == 0 ? step : next) && unit + 1 < units.size()) {
    bytes /= step;
    ++unit;
  }
  return fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string duration_text(double seconds) {
  constexpr double in_ms = 1e3;
  constexpr double minute_s = 60;
  constexpr std::int64_t hour_min = 60;
  constexpr std::int64_t two_days_h = 48;
  constexpr std::int64_t day_h = 24;
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return "-" + duration_text(-seconds);
  if (seconds > 0 && seconds < 0.9995) return amount_text(seconds * in_ms) + " ms";
  if (seconds < minute_s - 0.05) return amount_text(seconds) + " s";
  const auto whole = std::llround(seconds);
  const auto minutes = whole / 60;
  if (minutes < hour_min) return fmt::format("{} min {} s", minutes, whole % 60);
  const auto hours = minutes / hour_min;
  if (hours < two_days_h) return fmt::format("{} h {} min", hours, minutes % hour_min);
  return fmt::format("{} d {} h", grouped(hours / day_h), hours % day_h);
}

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string utc_text(std::int64_t microseconds) {
  constexpr std::int64_t second = 1'000'000;
  constexpr std::int64_t day = 86'400 * second;
  const auto whole = microseconds / day - (microseconds % day < 0 ? 1 : 0);
  constexpr std::int64_t first_day = -719'162;  // 0001-01-01
  constexpr std::int64_t last_day = 2'932'896;  // 9999-12-31
  if (microseconds == 0 || whole < first_day || whole > last_day) return {};
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(whole))};
  const auto of_day = microseconds - whole * day;
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      of_day / second / 3600, of_day / second / 60 % 60, of_day / second % 60, of_day % second);
}

std::string utc_in_sentence(std::int64_t microseconds) {
  const std::string text = utc_text(microseconds);
  return text.empty() ? text : text.substr(0, 10) + " " + text.substr(11, 8) + " UTC";
}

void append_text(fmt::memory_buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

void append_integer(fmt::memory_buffer& out, std::int64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.data() + digits.size());
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

}  // namespace shardsweep
