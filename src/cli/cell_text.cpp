// SPDX-License-Identifier: Apache-2.0
#include "cli/cell_text.hpp"

#include "domain/text.hpp"

#include <shardsweep/metric.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace shardsweep {
namespace {

using CodePoint = std::uint32_t;

struct Range {
  CodePoint first;
  CodePoint last;
};
// Blocks, not single characters (Unicode 15, EastAsianWidth and Emoji_Presentation).
constexpr std::array<Range, 10> wide{{{0x1100, 0x115f},
                                      {0x2e80, 0xa4cf},
                                      {0xac00, 0xd7a3},
                                      {0xf900, 0xfaff},
                                      {0xfe30, 0xfe6f},
                                      {0xff00, 0xff60},
                                      {0xffe0, 0xffe6},
                                      {0x1f300, 0x1f6ff},
                                      {0x1f900, 0x1faff},
                                      {0x20000, 0x3fffd}}};
constexpr std::array<Range, 5> without_width{
    {{0x0300, 0x036f}, {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}}};
// C0, DEL and C1 are commands to a terminal; the others turn the direction of what follows.
constexpr std::array<Range, 6> harmful{{{0x00, 0x1f},
                                        {0x7f, 0x9f},
                                        {0x061c, 0x061c},
                                        {0x200e, 0x200f},
                                        {0x2028, 0x202e},
                                        {0x2066, 0x2069}}};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, CodePoint point) {
  return std::any_of(ranges.begin(), ranges.end(), [point](const Range& range) {
    return range.first <= point && point <= range.last;
  });
}

struct Character {
  CodePoint point = 0;
  std::size_t length = 0;  ///< bytes; 0: no UTF-8
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return {};
  CodePoint point = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool none = overlong || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff);
  return none ? Character{} : Character{point, length};
}

std::string time_text(std::int64_t microseconds) {
  if (microseconds == 0) return {};
  using std::chrono::days;
  constexpr std::int64_t second = 1'000'000;
  constexpr std::int64_t day = 86'400 * second;
  const auto whole = microseconds / day - (microseconds % day < 0 ? 1 : 0);
  // A date beyond what a calendar holds is a number.
  if (whole > 2'900'000 || whole < -700'000) return std::to_string(microseconds);
  const std::chrono::year_month_day date{std::chrono::sys_days(days(whole))};
  const auto of_day = (microseconds - whole * day) / second;
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     of_day / 3600, of_day / 60 % 60, of_day % 60);
}

/// Three or four significant digits, whole thousands in groups.
std::string plain(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (std::abs(value) >= 1000 && std::abs(value) < 1e15) return grouped(std::llround(value));
  return fmt::format("{:.4g}", value);
}

std::string duration_text(double seconds) {
  constexpr double minute = 60;
  constexpr double hour = 3600;
  if (std::abs(seconds) < minute) return fmt::format("{:.3g} s", seconds);
  if (std::abs(seconds) < hour)
    return fmt::format("{}min {:02}s", std::llround(seconds) / 60, std::llround(seconds) % 60);
  return fmt::format("{}h {:02}min", std::llround(seconds / minute) / 60,
                     std::llround(seconds / minute) % 60);
}

/// The unit of a column that is no metric.
std::string_view unit_by_name(std::string_view column) {
  if (column.ends_with("_bytes")) return "B";
  if (column.ends_with("_ms")) return "ms";
  if (column.ends_with("_per_gpu")) return "tokens/s/GPU";
  if (column == "at" || column == "since" || column == "last_seen" || column.ends_with("_at"))
    return "time";
  if (column.ends_with("_s") && !column.ends_with("_per_s")) return "s";
  return {};
}

std::string number_text(std::string_view column, double value, bool whole) {
  if (column == "mfu" || column.ends_with("_spread"))
    return fmt::format("{:.1f} %", value * 100);
  const auto* metric = find_metric(column);
  const auto unit = metric != nullptr ? metric->unit : unit_by_name(column);
  if (unit == "B") return bytes_text(value);
  if (unit == "ms") return plain(value) + " ms";
  if (unit == "s") return duration_text(value);
  if (metric == nullptr && unit.empty() && whole) return fmt::format("{}", std::llround(value));
  return plain(value);
}

}  // namespace

std::string humanised(std::string_view column, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return printable(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    if (unit_by_name(column) == "time") return time_text(*integer);
    // A number without a unit stays exact: ids go beyond a double's digits.
    if (find_metric(column) == nullptr && unit_by_name(column).empty())
      return std::to_string(*integer);
    return number_text(column, static_cast<double>(*integer), true);
  }
  if (const auto* real = std::get_if<double>(&value)) return number_text(column, *real, false);
  return {};
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (character.length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (!within(harmful, character.point)) {
      out += text.substr(at, character.length);
    } else if (character.point < 0x80) {
      out += character.point == '\n'   ? "\\n"
             : character.point == '\t' ? "\\t"
                                       : fmt::format("\\x{:02x}", character.point);
    } else {
      out += fmt::format("\\u{{{:04x}}}", character.point);
    }
    at += std::max<std::size_t>(character.length, 1);
  }
  return out;
}

std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (!within(without_width, character.point)) width += within(wide, character.point) ? 2 : 1;
    at += std::max<std::size_t>(character.length, 1);
  }
  return width;
}

std::string padded(const std::string& text, std::size_t width, Align align) {
  const auto own = width_of(text);
  if (own >= width) return text;
  const std::string blanks(width - own, ' ');
  return align == Align::left ? text + blanks : blanks + text;
}

}  // namespace shardsweep
