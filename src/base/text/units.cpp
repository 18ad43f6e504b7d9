// SPDX-License-Identifier: Apache-2.0
#include "text/units.hpp"

#include "text/characters.hpp"
#include "text/pieces.hpp"

#include <shardsweep/library_gaps.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

namespace shardsweep::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr std::int64_t thousand = 1000;
constexpr std::int64_t kibi = 1024;
constexpr std::int64_t minute_us = 60'000'000;

constexpr std::array<Unit, 6> count_units{{
    {"Gi", kibi* kibi* kibi},
    {"Mi", kibi* kibi},
    {"Ki", kibi},
    {"G", thousand* thousand* thousand},
    {"M", thousand* thousand},
    {"k", thousand},
}};
constexpr std::array<Unit, 13> byte_units{{
    {"TiB", kibi* kibi* kibi* kibi},
    {"GiB", kibi* kibi* kibi},
    {"MiB", kibi* kibi},
    {"KiB", kibi},
    {"TB", thousand* thousand* thousand* thousand},
    {"GB", thousand* thousand* thousand},
    {"MB", thousand* thousand},
    {"kB", thousand},
    {"B", 1},
    {"Ti", kibi* kibi* kibi* kibi},
    {"Gi", kibi* kibi* kibi},
    {"Mi", kibi* kibi},
    {"Ki", kibi},
}};
constexpr std::array<Unit, 6> duration_units{{
    // factors in microseconds
    {"d", std::int64_t{24} * 60 * minute_us},
    {"h", 60 * minute_us},
    {"min", minute_us},
    {"s", 1'000'000},
    {"ms", 1000},
    {"us", 1},
}};

tl::unexpected<std::string> wrong(std::string what) {
  return tl::unexpected<std::string>(std::move(what));
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

/// Range of a whole number, and how its bounds are printed.
struct Scale {
  const Range& range;
  std::span<const Unit> units;
  std::string (*bound_text)(std::int64_t);
  std::string_view otherwise;  ///< message for a text without a number
};

/// A number with what follows it.
struct Quantity {
  std::string_view number;
  std::string_view unit;
};

/// Splits before the first letter that is no part of a number (1e3, 0x10).
Quantity split(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    const bool exponent = (c == 'e' || c == 'E') && at > 0 && at + 1 < text.size() &&
        (is_digit(text[at + 1]) ||
            ((text[at + 1] == '-' || text[at + 1] == '+') && at + 2 < text.size() &&
                is_digit(text[at + 2])));
    if (exponent) {
      at += 2;
    } else if (is_digit(c) || c == '.' || c == '_' || c == ',' ||
        ((c == '+' || c == '-') && at == 0)) {
      ++at;
    } else {
      break;
    }
  }
  return {text.substr(0, at), text.substr(at)};
}

std::optional<double> real_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = read_real(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// Guesses which whole number `number` stands for, as digits.
std::string whole_meant(std::string_view number) {
  std::string digits;
  for (const char c : number) {
    if (c != '_' && c != ',') digits += c;
  }
  if (!digits.empty() && digits.front() == '+') digits.erase(0, 1);
  const auto value = real_of(digits);
  constexpr double exact = 9e15;  // beyond, a double does not hold every whole number
  if (!value || std::abs(*value) > exact || *value != std::floor(*value)) return {};
  return fmt::format("{}", static_cast<std::int64_t>(*value));
}

std::string leading_zero(std::string_view text, std::string_view number) {
  const auto plain = number.substr(std::min(number.find_first_not_of('0'), number.size() - 1));
  std::int64_t octal = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), octal, 8);
  if (error == std::errc() && end == number.data() + number.size()) {
    return fmt::format(
        "{} has a leading zero and could be read as {}; write {}", in_quotes(text), octal, plain);
  }
  return fmt::format("{} has a leading zero; write {}", in_quotes(text), plain);
}

std::string plain_text(std::int64_t value) {
  return std::to_string(value);
}

std::string too_small(std::string_view text, const Scale& scale) {
  return fmt::format("{} is less than {}, the minimum of '{}'", in_quotes(text),
      scale.bound_text(scale.range.least), scale.range.what);
}
std::string too_large(std::string_view text, const Scale& scale) {
  return fmt::format("{} is more than {}, the maximum of '{}'", in_quotes(text),
      scale.bound_text(scale.range.most), scale.range.what);
}

/// Digits and nothing else, times `factor`, within `range`.
Parsed<std::int64_t> whole(
    std::string_view text, const Quantity& quantity, std::int64_t factor, const Scale& scale) {
  auto digits = quantity.number;
  const bool negative = digits.size() > 1 && digits.front() == '-';
  if (negative) digits.remove_prefix(1);
  if (!all_digits(digits)) {
    const auto meant = whole_meant(quantity.number);
    if (meant.empty()) return wrong(fmt::format("{} is not a whole number", in_quotes(text)));
    return wrong(fmt::format(
        "{} is not written as a whole number; write {}{}", in_quotes(text), meant, quantity.unit));
  }
  if (digits.size() > 1 && digits.front() == '0') return wrong(leading_zero(text, digits));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (negative && value != 0) return wrong(too_small(text, scale));
  if (error != std::errc() || value > std::numeric_limits<std::int64_t>::max() / factor)
    return wrong(too_large(text, scale));
  value *= factor;
  if (value < scale.range.least) return wrong(too_small(text, scale));
  if (value > scale.range.most) return wrong(too_large(text, scale));
  return value;
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  const auto found =
      std::find_if(units.begin(), units.end(), [&](const Unit& unit) { return unit.name == name; });
  return found == units.end() ? nullptr : &*found;
}

bool same_but_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [&](char x, char y) {
    return lower(x) == lower(y);
  });
}

/// Suggestions for a quantity of an unknown unit: its number with each unit that may be meant.
std::string units_meant(std::span<const Unit> units, const Quantity& quantity) {
  auto name = quantity.unit;
  while (!name.empty() && name.front() == ' ')
    name.remove_prefix(1);
  std::string meant;
  for (const auto& unit : units) {
    // Suggest a unit whose name begins with what stands there, in any case: G, gb and gib are GiB.
    const auto begin = unit.name.substr(0, name.size());
    const bool starts = !name.empty() && same_but_case(begin, name);
    const bool binary = name.size() <= 2 && unit.name.size() >= 2 && unit.name[1] == 'i' &&
        same_but_case(unit.name.substr(0, 1), name.substr(0, 1));
    if (!starts && !binary) continue;
    meant += fmt::format("{}'{}{}'", meant.empty() ? "" : " or ", quantity.number, unit.name);
  }
  return meant;
}

std::string unknown_unit(
    std::string_view text, const Quantity& quantity, std::span<const Unit> units) {
  const auto meant = units_meant(units, quantity);
  if (!meant.empty())
    return fmt::format("{} has an unknown unit; write {}", in_quotes(text), meant);
  std::string known;
  for (const auto& unit : units)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", unit.name);
  return fmt::format("{} has an unknown unit; the units are {}", in_quotes(text), known);
}

std::string missing_unit(std::string_view text, std::string_view a, std::string_view b) {
  return fmt::format("{} has no unit; write '{}{}' or '{}{}'", in_quotes(text), text, a, text, b);
}

/// Suggests the decimal form of a number like 0x10.
std::string hexadecimal(std::string_view text) {
  std::int64_t value = 0;
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + 2, last, value, 16);
  const auto hint = error == std::errc() && end == last ? fmt::format("; write {}", value) : "";
  return fmt::format("{} is not written as a decimal number{}", in_quotes(text), hint);
}

/// Values of 1,2,4; empty: one is missing, or they may be groups of thousands.
std::string values_in(std::string_view text) {
  constexpr std::size_t of_thousands = 3;
  if (text.find_first_not_of("0123456789,") != std::string_view::npos) return {};
  const auto parts = shardsweep::split(text, ',');
  if (std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part.empty(); }))
    return {};
  const auto other = [](std::string_view part) { return part.size() != of_thousands; };
  return std::any_of(parts.begin() + 1, parts.end(), other) ? fmt::to_string(fmt::join(parts, ", "))
                                                            : std::string();
}

/// The list that somebody meant who wrote 1-8, 1..8 or 1:8, in powers of two as degrees are, or
/// 1,2,4; empty: nobody meant one.
std::string list_meant(std::string_view text) {
  if (const auto values = values_in(text); !values.empty())
    return fmt::format("{} is not a list; write [{}]", in_quotes(text), values);
  const auto between = text.find_first_not_of("0123456789");
  const auto behind = text.find_last_not_of("0123456789") + 1;
  if (between == std::string_view::npos || between == 0 || behind == text.size()) return {};
  const auto sign = text.substr(between, behind - between);
  if (sign != "-" && sign != ".." && sign != ":") return {};
  const auto last = number_from<std::int64_t>(text.substr(behind)).value_or(0);
  std::string list;
  for (auto value = number_from<std::int64_t>(text.substr(0, between)).value_or(0);
       value > 0 && value <= std::min(last, std::int64_t{kibi}); value *= 2)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", value);
  return list.empty() ? list : fmt::format("{} is not a list; write [{}]", in_quotes(text), list);
}

Parsed<std::int64_t> parse_scaled(std::string_view text, const Scale& scale) {
  const auto quantity = split(text);
  if (std::none_of(quantity.number.begin(), quantity.number.end(), is_digit))
    return wrong(fmt::format("{} is {}", in_quotes(text), scale.otherwise));
  if (auto list = list_meant(text); !list.empty()) return wrong(std::move(list));
  if (quantity.unit.empty()) return whole(text, quantity, 1, scale);
  if (quantity.number == "0" && quantity.unit.front() == 'x') return wrong(hexadecimal(text));
  const auto* unit = find_unit(scale.units, quantity.unit);
  if (unit == nullptr) return wrong(unknown_unit(text, quantity, scale.units));
  return whole(text, quantity, unit->factor, scale);
}

/// A decimal number times `factor`, exactly; none if it is no number or has more digits
/// than that.
std::optional<std::int64_t> exact_product(std::string_view number, std::int64_t factor) {
  const auto dot = std::min(number.find('.'), number.size());
  const auto before = number.substr(0, dot);
  const auto after = dot < number.size() ? number.substr(dot + 1) : std::string_view("0");
  constexpr std::size_t most_digits = 15;  // fits, whatever they are
  if (!all_digits(before) || !all_digits(after)) return std::nullopt;
  if (before.size() > most_digits || after.size() > most_digits) return std::nullopt;
  std::int64_t value = 0;
  std::from_chars(before.data(), before.data() + before.size(), value);
  if (value > std::numeric_limits<std::int64_t>::max() / factor - 1) return std::nullopt;
  value *= factor;
  std::int64_t scale = factor;
  for (const char digit : after) {
    if (digit != '0' && (scale == 0 || scale % 10 != 0)) return std::nullopt;
    scale /= 10;
    value += scale * (digit - '0');
  }
  return value;
}

/// 450GB where 450GB/s is meant.
std::string rate_without_time(std::string_view text, const Quantity& quantity,
    std::string_view suffix, std::span<const Unit> units) {
  const auto* unit = find_unit(units, quantity.unit);
  return fmt::format("{} is not a rate; write '{}{}{}'", in_quotes(text), quantity.number,
      unit != nullptr ? unit->name : std::string_view("GB"), suffix);
}

Parsed<double> parse_scaled_real(
    std::string_view text, std::string_view suffix, std::span<const Unit> units) {
  double number = 0;
  const auto [end, error] = read_real(text.data(), text.data() + text.size(), number);
  const auto used = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || !std::isfinite(number) || number < 0 || !is_digit(text[0]))
    return wrong(fmt::format("{} is not a {}", in_quotes(text),
        suffix.empty() ? "latency; write 5us" : "rate; write 450GB/s"));
  auto rest = text.substr(used);
  const Quantity quantity{text.substr(0, used), rest};
  if (rest.size() < suffix.size() || rest.substr(rest.size() - suffix.size()) != suffix)
    return wrong(rate_without_time(text, quantity, suffix, units));
  rest.remove_suffix(suffix.size());
  const auto* unit = find_unit(units, rest);
  if (unit == nullptr) return wrong(unknown_unit(text, {quantity.number, rest}, units));
  const auto value = number * static_cast<double>(unit->factor);
  if (!std::isfinite(value)) return wrong(fmt::format("{} is too large", in_quotes(text)));
  return value;
}

}  // namespace

Parsed<std::int64_t> parse_count(std::string_view text, const Range& range) {
  return parse_scaled(text, {range, count_units, plain_text, "not a whole number"});
}

Parsed<std::int64_t> parse_bytes(std::string_view text, const Range& range) {
  const auto quantity = split(text);
  if (quantity.number.find('.') != std::string_view::npos &&
      find_unit(byte_units, quantity.unit) != nullptr && real_of(quantity.number))
    return wrong(
        fmt::format("{} has a fraction; write a whole number of a smaller unit", in_quotes(text)));
  if (quantity.unit.empty() && all_digits(quantity.number))
    return wrong(missing_unit(text, "B", "GiB"));
  return parse_scaled(text, {range, byte_units, bytes_text, "not a size; write 17MiB"});
}

Parsed<double> parse_duration(std::string_view text) {
  const auto quantity = split(text);
  if (quantity.number.empty() || !is_digit(quantity.number.front())) {
    return wrong(
        fmt::format("{} is not a duration; write '15min', '250ms', '2h' or '1d'", in_quotes(text)));
  }
  if (quantity.unit.empty()) return wrong(missing_unit(text, "s", "min"));
  if (quantity.unit == "m") {
    return wrong(fmt::format("{} could be minutes or milliseconds; write '{}min' or '{}ms'",
        in_quotes(text), quantity.number, quantity.number));
  }
  const auto* unit = find_unit(duration_units, quantity.unit);
  if (unit == nullptr) {
    return wrong(
        fmt::format("{} is not a duration; write '15min', '250ms', '2h' or '1d'", in_quotes(text)));
  }
  const auto us = exact_product(quantity.number, unit->factor);
  if (!us) {
    return wrong(
        fmt::format("{} is not a whole number of microseconds, or too long", in_quotes(text)));
  }
  return static_cast<double>(*us) / 1e6;
}

Parsed<double> parse_latency(std::string_view text) {
  static constexpr std::array<Unit, 2> units{{{"us", 1}, {"ms", 1000}}};
  return parse_scaled_real(text, "", units);
}

Parsed<double> parse_bandwidth(std::string_view text) {
  return parse_scaled_real(text, "/s", std::span(byte_units).subspan(4, 5));
}

Parsed<double> parse_real(std::string_view text) {
  const auto value = real_of(text);
  if (!value || !is_digit(text[0]))
    return wrong(fmt::format("{} is not a number of 0 or more", in_quotes(text)));
  if (text.size() > 1 && text[0] == '0' && is_digit(text[1]))
    return wrong(fmt::format("{} has a leading zero; remove it", in_quotes(text)));
  return *value;
}

Parsed<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  auto value = parse_real(percent ? text.substr(0, text.size() - 1) : text);
  if (!value) return value;
  if (percent) *value /= 100;
  if (*value <= 0 || *value >= 1)
    return wrong(
        fmt::format("{} is not a share between 0 and 1; write 1% or 0.01", in_quotes(text)));
  return value;
}

Parsed<bool> parse_bool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  for (const auto word : {"yes", "on", "True", "TRUE", "Yes", "On", "1", "y"}) {
    if (text == word)
      return wrong(fmt::format("{} is not true or false; write true", in_quotes(text)));
  }
  for (const auto word : {"no", "off", "False", "FALSE", "No", "Off", "0", "n"}) {
    if (text == word)
      return wrong(fmt::format("{} is not true or false; write false", in_quotes(text)));
  }
  return wrong(fmt::format("{} is not true or false; write one of them", in_quotes(text)));
}

std::string bytes_text(std::int64_t bytes) {
  for (const auto& unit : std::span(byte_units).first(4)) {
    if (bytes != 0 && bytes % unit.factor == 0)
      return fmt::format("{}{}", bytes / unit.factor, unit.name);
  }
  return fmt::format("{}B", bytes);
}

std::string duration_text(double seconds) {
  const auto us = static_cast<std::int64_t>(std::llround(seconds * 1e6));
  if (us == 0) return "0s";
  for (const auto& unit : duration_units) {
    if (us % unit.factor == 0) return fmt::format("{}{}", us / unit.factor, unit.name);
  }
  return fmt::format("{}us", us);
}

std::string binary_count_text(std::int64_t count) {
  for (const auto& unit : std::span(count_units).first(3)) {
    if (count % unit.factor == 0) return fmt::format("{}{}", count / unit.factor, unit.name);
  }
  return {};
}

}  // namespace shardsweep::config
