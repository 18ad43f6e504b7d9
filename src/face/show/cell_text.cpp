// SPDX-License-Identifier: Apache-2.0
#include "show/cell_text.hpp"

#include "text/characters.hpp"
#include "text/numbers.hpp"

#include <shardsweep/metric.hpp>
#include <shardsweep/point.hpp>

#include <fmt/format.h>

#include <locale.h>
#include <time.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace shardsweep {
namespace {

using CodePoint = std::uint32_t;

struct Range {
  CodePoint first;
  CodePoint last;
};
// C0, DEL and C1 are commands to a terminal; the others turn the direction of what follows.
constexpr std::array<Range, 6> harmful{{{0x00, 0x1f}, {0x7f, 0x9f}, {0x061c, 0x061c},
    {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}}};

bool is_harmful(CodePoint point) {
  return std::any_of(harmful.begin(), harmful.end(),
      [point](const Range& range) { return range.first <= point && point <= range.last; });
}

/// ASCII text for a character beyond ASCII that our own texts have.
struct Substitute {
  CodePoint point;
  std::string_view text;
};
constexpr std::array<Substitute, 16> substitutes{
    {{0x00b1, "+-"}, {0x00b5, "u"}, {0x00b7, "."}, {0x00d7, "x"}, {0x2013, "-"}, {0x2014, "-"},
        {0x2018, "'"}, {0x2019, "'"}, {0x201c, "\""}, {0x201d, "\""}, {0x2026, "..."},
        {0x2192, "->"}, {0x2264, "<="}, {0x2265, ">="}, {0x2588, "#"}, {0x2591, "."}}};

/// The C library knows Unicode's widths, in a UTF-8 locale.
class WideLocale {
 public:
  WideLocale() : before_(::uselocale(utf8())) {}
  WideLocale(const WideLocale&) = delete;
  WideLocale& operator=(const WideLocale&) = delete;
  ~WideLocale() { ::uselocale(before_); }

  [[nodiscard]] std::size_t width(CodePoint point) const {
    const int columns = ::wcwidth(static_cast<wchar_t>(point));
    return columns < 0 ? 1 : static_cast<std::size_t>(columns);
  }

 private:
  /// Zero where there is none: then the locale stays as it is.
  static locale_t utf8() {
    static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    return locale;
  }
  locale_t before_;
};

struct Character {
  CodePoint point = 0;
  std::size_t length = 0;  ///< bytes; 0: no UTF-8
};

Character character_at(std::string_view text, std::size_t at) {
  const std::size_t length = character_length(text.substr(at));
  if (length == 0) return {};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (length == 1) return {byte(0), 1};
  CodePoint point = byte(0) & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i)
    point = point << 6 | (byte(i) & 0x3fU);
  return {point, length};
}

/// Three significant digits, whole thousands in groups.
std::string plain(double value) {
  constexpr double largest = 1e15;  // beyond, a double's digits are not all its own
  if (!std::isfinite(value) || std::abs(value) >= largest) return fmt::format("{:.3g}", value);
  return value < 0 ? "-" + amount_text(-value) : amount_text(value);
}

bool ends_with_any(std::string_view column, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
      [column](std::string_view ending) { return column.ends_with(ending); });
}

/// The unit of a column that is no metric.
std::string_view unit_by_name(std::string_view column) {
  if (column.ends_with("_bytes")) return "B";
  if (column.ends_with("_ms")) return "ms";
  if (column == "mfu" || column == "others_cpu" ||
      ends_with_any(column, {"_mfu", "_spread", "_share"}))
    return "%";
  if (column.ends_with("_s") && !column.ends_with("_per_s")) return "s";
  return {};
}

/// Numbers that name a thing and measure nothing: 12345, not 12,345.
bool is_label(std::string_view column) {
  return column == "id" || column.ends_with("_id") || column == "position" ||
      column.ends_with("port") || column == "revision" || column == "seed";
}

std::string number_text(std::string_view column, double value) {
  const auto by_name = unit_by_name(column);
  const auto* metric = find_metric(column);
  const auto unit = by_name.empty() && metric != nullptr ? metric->unit : by_name;
  if (unit == "%") return percent_text(value);
  if (unit == "B") return bytes_text(value);
  if (unit == "ms") return duration_text(value * 1e-3);
  if (unit == "s") return duration_text(value);
  return plain(value);
}

}  // namespace

bool is_time(std::string_view column) {
  return column == "at" || column == "since" || column == "last_seen" || column.ends_with("_at");
}

std::string local_time_text(std::int64_t microseconds) {
  constexpr std::int64_t second = 1'000'000;
  if (microseconds == 0) return {};
  // A date beyond what a calendar holds is a number.
  if (utc_text(microseconds).empty()) return std::to_string(microseconds);
  const auto seconds =
      static_cast<::time_t>(microseconds / second - (microseconds % second < 0 ? 1 : 0));
  std::tm local{};
  if (::localtime_r(&seconds, &local) == nullptr) return std::to_string(microseconds);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
      local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
}

std::string humanised(std::string_view column, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return printable(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    if (is_time(column)) return local_time_text(*integer);
    const auto* axis = find_axis(column);
    if (axis != nullptr && axis->kind == AxisKind::toggle) return axis_text(*axis, *integer);
    if (is_label(column)) return std::to_string(*integer);
    // A number without a unit stays exact: it may go beyond a double's digits.
    if (unit_by_name(column).empty()) return grouped(*integer);
    return number_text(column, static_cast<double>(*integer));
  }
  if (const auto* real = std::get_if<double>(&value)) return number_text(column, *real);
  return {};
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    if (character.length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (!is_harmful(character.point)) {
      out += text.substr(at, character.length);
    } else if (character.point < 0x80) {
      out += character.point == '\n' ? "\\n"
          : character.point == '\t'  ? "\\t"
                                     : fmt::format("\\x{:02x}", character.point);
    } else {
      out += fmt::format("\\u{{{:04x}}}", character.point);
    }
    at += std::max<std::size_t>(character.length, 1);
  }
  return out;
}

namespace {

/// Length of the code of colour or weight at the beginning of `text`; 0 if it has none.
std::size_t colour_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

std::string for_terminal(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t length = colour_length(text.substr(at)); length > 0) {
      out += text.substr(at, length);
      at += length;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of("\n\t\x1b", at + 1), text.size());
    if (text[at] == '\n' || text[at] == '\t') out += text[at++];
    out += printable(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string in_charset(std::string_view text, bool utf8) {
  if (utf8) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    const auto* substitute = std::find_if(substitutes.begin(), substitutes.end(),
        [&](const Substitute& each) { return each.point == character.point; });
    if (character.length <= 1) {
      out += text[at];
    } else if (substitute != substitutes.end()) {
      out += substitute->text;
    } else {
      out += fmt::format("\\u{{{:04x}}}", character.point);
    }
    at += std::max<std::size_t>(character.length, 1);
  }
  return out;
}

std::size_t width_of(std::string_view text) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return text.size();
  const WideLocale locale;
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    width += character.point < 0x80 ? 1 : locale.width(character.point);
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

namespace {

/// Bytes of `text` that fit into `width` columns; one character at least.
std::size_t fitting(std::string_view text, std::size_t width) {
  const WideLocale locale;
  std::size_t used = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto character = character_at(text, at);
    used += character.point < 0x80 ? 1 : locale.width(character.point);
    if (used > width && at > 0) return at;
    at += std::max<std::size_t>(character.length, 1);
  }
  return at;
}

/// End of the line that begins `text`: at a blank in reach, else behind a mark within a name, else
/// at the full width.
std::size_t line_end(std::string_view text, std::size_t width) {
  const auto most = fitting(text, width);
  if (most == text.size() || text[most] == ' ') return most;
  const auto blank = text.rfind(' ', most);
  if (blank != std::string_view::npos && text.find_first_not_of(' ') < blank) return blank;
  const auto mark = text.substr(0, most).find_last_of("-_/,;:");
  return mark == std::string_view::npos || mark < most / 2 ? most : mark + 1;
}

}  // namespace

std::vector<std::string> folded(std::string_view text, std::size_t width, std::size_t indent) {
  std::vector<std::string> lines;
  do {
    const auto room = lines.empty() ? width : width - std::min(width - 1, indent);
    const auto end = line_end(text, std::max<std::size_t>(room, 1));
    std::string_view line = text.substr(0, end);
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    lines.emplace_back(line);
    text = text.substr(std::min(text.size(), text.find_first_not_of(' ', end)));
  } while (!text.empty());
  return lines;
}

std::string fold_lines(
    std::string_view text, std::optional<std::size_t> width, std::size_t indent) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    std::string before;
    for (const auto& part : folded(line, width.value_or(width_of(line) + 1), indent)) {
      out += before + part + '\n';
      before = std::string(indent, ' ');
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace shardsweep
