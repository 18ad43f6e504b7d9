// SPDX-License-Identifier: Apache-2.0
#include "trainer/capture.hpp"

#include "text/characters.hpp"
#include "text/escapes.hpp"
#include "text/pieces.hpp"

#include <shardsweep/library_gaps.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace shardsweep {
namespace {

std::optional<std::pair<PrintedNumber, std::size_t>> no_finite(std::string_view text) {
  for (const auto word : {"nan", "NaN", "inf", "-inf"}) {
    if (!text.starts_with(word)) continue;
    const bool nan = word[0] == 'n' || word[0] == 'N';
    const double value =
        nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return std::pair{PrintedNumber{value, 0}, std::string_view(word).size()};
  }
  return std::nullopt;
}

/// A comma that groups thousands: three digits and no more stand behind it.
bool groups(std::string_view text, std::size_t at) {
  const auto digit = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
  return at > 0 && digit(at - 1) && digit(at + 1) && digit(at + 2) && digit(at + 3) &&
      !digit(at + 4);
}

/// Digits with their sign, point and exponent, and without the commas that group them.
struct Digits {
  std::string text;
  std::size_t length = 0;  ///< bytes of the line
  int fraction = 0;        ///< digits behind the point
  std::string exponent{};  ///< "+03"
};

Digits digits_of(std::string_view line) {
  Digits found;
  bool point = false;
  std::size_t at = line.starts_with('-') || line.starts_with('+') ? 1 : 0;
  if (line.starts_with('-')) found.text = "-";
  bool any = false;
  for (; at < line.size(); ++at) {
    if (is_digit(line[at])) {
      any = true;
      if (point) ++found.fraction;
      found.text += line[at];
    } else if (line[at] == '.' && !point && at + 1 < line.size() && is_digit(line[at + 1])) {
      point = true;
      found.text += '.';
    } else if (point || !groups(line, at) || line[at] != ',') {
      break;
    }
  }
  if (!any) return {};
  found.length = at;
  if (at < line.size() && (line[at] == 'e' || line[at] == 'E')) {
    std::size_t end = at + 1;
    if (end < line.size() && (line[end] == '+' || line[end] == '-')) ++end;
    const auto first = end;
    while (end < line.size() && is_digit(line[end]))
      ++end;
    if (end > first) {
      found.exponent = line.substr(at + 1, end - at - 1);
      found.length = end;
    }
  }
  return found;
}

/// "+03" is 3; one that no double has makes the number zero or infinite.
int exponent_of(std::string_view text) {
  constexpr int beyond = 400;
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  int exponent = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (read.ec == std::errc::result_out_of_range) exponent = beyond;
  exponent = std::min(exponent, beyond);
  return minus ? -exponent : exponent;
}

double scale_of(char suffix) {
  constexpr std::string_view suffixes = "KMBTPE";
  const auto found = suffixes.find(suffix);
  return found == std::string_view::npos ? 0 : std::pow(1000.0, static_cast<double>(found) + 1);
}

}  // namespace

std::optional<std::pair<PrintedNumber, std::size_t>> read_number(
    std::string_view text, bool human) {
  if (auto special = no_finite(text)) return special;
  Digits digits = digits_of(text);
  if (digits.length == 0) return std::nullopt;
  double value = 0;
  read_real(digits.text.data(), digits.text.data() + digits.text.size(), value);
  double scale = std::pow(10.0, exponent_of(digits.exponent));
  if (human && digits.length < text.size()) {
    const double suffix = scale_of(text[digits.length]);
    const auto behind = digits.length + 1;
    if (suffix > 0 && (behind >= text.size() || !is_letter(text[behind]))) {
      scale *= suffix;
      digits.length = behind;
    }
  }
  return std::pair{
      PrintedNumber{value * scale, 0.5 * std::pow(10.0, -digits.fraction) * scale}, digits.length};
}

namespace {

constexpr double per_minute = 60;
constexpr double per_hour = 3600;
constexpr double per_day = 86400;

/// Seconds of a unit at the beginning of `text`, and its bytes with the blank or comma behind it.
std::optional<std::pair<double, std::size_t>> read_unit(std::string_view text) {
  struct Unit {
    std::string_view word;
    double seconds;
  };
  constexpr auto units = std::to_array<Unit>({{" days, ", per_day}, {" day, ", per_day},
      {"d", per_day}, {"h", per_hour}, {"m", per_minute}, {"s", 1}});
  for (const auto& [word, seconds] : units) {
    if (!text.starts_with(word)) continue;
    const auto behind = text.substr(word.size());
    if (word.size() == 1 && !behind.empty() && is_letter(behind.front())) continue;
    return std::pair{seconds, word.size() + (word.size() == 1 && behind.starts_with(' ') ? 1 : 0)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::pair<PrintedNumber, std::size_t>> read_clock(std::string_view text) {
  PrintedNumber clock{0, 0.5};
  std::size_t length = 0;
  double fields = 0;  // count of fields: hours, minutes, seconds
  bool colons = false;
  bool any = false;
  while (length < text.size() && is_digit(text[length])) {
    const Digits digits = digits_of(text.substr(length));
    double value = 0;
    read_real(digits.text.data(), digits.text.data() + digits.text.size(), value);
    const auto rest = text.substr(length + digits.length);
    const double half = 0.5 * std::pow(10.0, -digits.fraction);
    if (colons || rest.starts_with(':')) {
      fields = fields * per_minute + value;
      clock.half_unit = half;
      colons = true;
      any = true;
      length += digits.length;
      if (digits.fraction > 0 || !rest.starts_with(':') || rest.size() < 2 || !is_digit(rest[1]))
        break;
      ++length;
      continue;
    }
    const auto unit = read_unit(rest);
    if (!unit) break;
    clock.value += value * unit->first;
    clock.half_unit = half * unit->first;
    any = true;
    length += digits.length + unit->second;
  }
  if (!any) return std::nullopt;
  clock.value += fields;
  return std::pair{clock, length};
}

namespace {

struct ParsedKey {
  std::string key;
  bool human = false;
  bool is_clock = false;
  bool is_next = false;
  std::vector<std::string> words{};
  std::string_view rest;
};

/// `text` begins behind the opening brace.
Result<ParsedKey> parse_key(std::string_view text, std::string_view whole) {
  const auto close = text.find('}');
  if (close == std::string_view::npos)
    return fault(FaultKind::invalid_input, "pattern {}: a '{{' has no '}}'", in_quotes(whole));
  ParsedKey parsed{.key = std::string(text.substr(0, close)), .rest = text.substr(close + 1)};
  if (parsed.key == next_iteration) {
    parsed.is_next = true;
    return parsed;
  }
  if (parsed.key.ends_with(":human")) {
    parsed.human = true;
    parsed.key.erase(parsed.key.size() - 6);
  } else if (parsed.key.ends_with(":clock")) {
    parsed.is_clock = true;
    parsed.key.erase(parsed.key.size() - 6);
  } else if (const auto colon = parsed.key.find(':'); colon != std::string::npos) {
    for (const std::string_view word : split(std::string_view(parsed.key).substr(colon + 1), '|'))
      parsed.words.emplace_back(word);
    parsed.key.resize(colon);
  }
  const bool name = !parsed.key.empty() &&
      std::all_of(parsed.key.begin(), parsed.key.end(),
          [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  if (!name)
    return fault(FaultKind::invalid_input,
        "pattern {}: '{{{}}}' is not a key; write for example {{step_ms}}", in_quotes(whole),
        parsed.key);
  return parsed;
}

/// The number of the word that stands there as a whole.
std::optional<std::pair<PrintedNumber, std::size_t>> read_word(
    std::string_view text, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.empty() || !text.starts_with(word)) continue;
    const bool ends =
        text.size() == word.size() || !(is_letter(text[word.size()]) || text[word.size()] == '_');
    if (ends) return std::pair{PrintedNumber{static_cast<double>(i), 0}, word.size()};
  }
  return std::nullopt;
}

}  // namespace

Result<CapturePattern> CapturePattern::parse(std::string_view text) {
  CapturePattern pattern;
  const std::string_view whole = text;
  bool any_key = false;
  bool anywhere = true;
  Piece piece;
  while (!text.empty()) {
    const auto mark = text.find_first_of("*{");
    piece.literal = text.substr(0, mark);
    piece.anywhere = anywhere;
    text.remove_prefix(std::min(mark, text.size()));
    if (text.starts_with('{')) {
      if (piece.literal.empty() && !pattern.pieces_.empty())
        return fault(FaultKind::invalid_input,
            "pattern {}: text must stand in front of each {{key}}", in_quotes(whole));
      SHARDSWEEP_ASSIGN(const ParsedKey parsed, parse_key(text.substr(1), whole));
      piece.key = parsed.key;
      piece.human = parsed.human;
      piece.is_clock = parsed.is_clock;
      piece.words = parsed.words;
      piece.is_next = parsed.is_next;
      text = parsed.rest;
      any_key = true;
    }
    pattern.pieces_.push_back(std::exchange(piece, {}));
    anywhere = text.starts_with('*');
    if (anywhere) text.remove_prefix(1);
  }
  if (!any_key)
    return fault(FaultKind::invalid_input,
        "pattern {}: no key takes a number; write for example {{step_ms}} in the number's place",
        in_quotes(whole));
  return pattern;
}

std::vector<std::pair<std::string_view, PrintedNumber>> CapturePattern::capture(
    std::string_view line) const {
  std::vector<std::pair<std::string_view, PrintedNumber>> found;
  for (const Piece& piece : pieces_) {
    // The leftmost place with a number behind it.
    for (;;) {
      const auto at = line.find(piece.literal);
      if (at == std::string_view::npos || (!piece.anywhere && at != 0)) return {};
      std::string_view rest = line.substr(at + piece.literal.size());
      if (piece.is_next) found.emplace_back(piece.key, PrintedNumber{});
      if (piece.key.empty() || piece.is_next) {
        line = rest;
        break;
      }
      std::string_view number = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
      const auto read = piece.is_clock ? read_clock(number)
          : piece.words.empty()        ? read_number(number, piece.human)
                                       : read_word(number, piece.words);
      if (read) {
        found.emplace_back(piece.key, read->first);
        line = number.substr(read->second);
        break;
      }
      if (!piece.anywhere || piece.literal.empty()) return {};
      line.remove_prefix(at + 1);
    }
  }
  return found;
}

namespace {

std::size_t digits_at(std::string_view text) {
  const auto* end = std::find_if_not(text.begin(), text.end(), is_digit);
  return static_cast<std::size_t>(end - text.begin());
}

/// The bytes of a rank's label at the beginning of `text`; 0: there is none.
std::size_t label_length(std::string_view text) {
  constexpr std::array<std::string_view, 3> words{"[default", "[rank", "["};
  for (const auto word : words) {
    if (!text.starts_with(word)) continue;
    const auto digits = digits_at(text.substr(word.size()));
    if (digits == 0 || !text.substr(word.size() + digits).starts_with("]:")) continue;
    return word.size() + digits + 2;
  }
  const auto digits = digits_at(text);
  return digits > 0 && text.substr(digits).starts_with(": ") ? digits + 2 : 0;
}

}  // namespace

std::string clean_line(std::string_view line) {
  std::string text = without_escapes(line.substr(0, longest_log_line));
  std::erase(text, '\r');
  // torchrun's label may stand behind srun's.
  for (std::size_t length = 0; (length = label_length(text)) > 0;)
    text.erase(0, length);
  return text;
}

}  // namespace shardsweep
