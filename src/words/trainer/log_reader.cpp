// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_reader.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/library_gaps.hpp>

#include <fmt/format.h>

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

namespace {

constexpr std::string_view parameters_fact = "parameters";
/// Exceeds any figure of a run.
constexpr double largest_fact = 1e18;
// Limit for counts of train steps and of ranks: their sums also fit a whole number.
constexpr double largest_count = 1e12;

bool is_fact(std::string_view key) {
  const auto keys = log_keys();
  return std::any_of(
      keys.begin(), keys.end(), [&](const LogKey& one) { return one.of_run && one.name == key; });
}

/// Reads a number that facts_text() wrote.
std::optional<double> exact_number(std::string_view text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto read = read_real(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || !(std::abs(value) < largest_fact))
    return std::nullopt;
  return value;
}

/// The time of day, 14:02:16,722, near the beginning of a line, in seconds.
std::optional<PrintedNumber> stamp_of(std::string_view line) {
  constexpr std::size_t longest_head = 64;
  constexpr std::size_t length = 8;
  line = line.substr(0, longest_head);
  const auto two = [&](std::size_t at) {
    return is_digit(line[at]) && is_digit(line[at + 1])
        ? std::optional((line[at] - '0') * 10 + line[at + 1] - '0')
        : std::nullopt;
  };
  for (auto at = line.find(':'); at != std::string_view::npos; at = line.find(':', at + 1)) {
    if (at < 2 || at - 2 + length > line.size() || line[at + 3] != ':') continue;
    if (at > 2 && is_digit(line[at - 3])) continue;
    const auto hours = two(at - 2);
    const auto minutes = two(at + 1);
    const auto seconds = two(at + 4);
    if (!hours || !minutes || !seconds) continue;
    PrintedNumber stamp{*hours * 3600.0 + *minutes * 60.0 + *seconds, 0.5};
    auto rest = line.substr(at - 2 + length);
    if (rest.size() < 2 || (rest.front() != ',' && rest.front() != '.')) return stamp;
    for (rest.remove_prefix(1); !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
      stamp.half_unit /= 10;
      stamp.value += (rest.front() - '0') * 2 * stamp.half_unit;
    }
    return stamp;
  }
  return std::nullopt;
}

Result<void> check_keys(std::string_view text, const CapturePattern& pattern) {
  std::vector<std::string_view> names;
  for (const LogKey& key : log_keys())
    names.push_back(key.name);
  for (const auto& piece : pattern.pieces()) {
    const bool known = piece.key.empty() || piece.is_next ||
        std::find(names.begin(), names.end(), piece.key) != names.end();
    if (known) continue;
    return fault(FaultKind::invalid_input, "pattern {}: unknown key '{}'{}; the keys are {}",
        in_quotes(text), piece.key, did_you_mean(piece.key, names), fmt::join(names, ", "));
  }
  return {};
}

}  // namespace

std::optional<Growth> growth_of(std::string_view key, std::span<const LoggedStep> steps) {
  const auto has = [&](const LoggedStep& step) { return step.values.contains(key); };
  const auto first = std::find_if(steps.begin(), steps.end(), has);
  const auto last = std::find_if(steps.rbegin(), steps.rend(), has);
  if (first == steps.end() || first->iteration == last->iteration) return std::nullopt;
  const auto& from = first->values.find(key)->second;
  const auto& to = last->values.find(key)->second;
  return Growth{to.value - from.value, static_cast<double>(last->iteration - first->iteration),
      to.half_unit + from.half_unit};
}

Result<LogReader> LogReader::make(std::span<const std::string_view> patterns) {
  LogReader reader;
  for (const auto text : patterns) {
    SHARDSWEEP_ASSIGN(CapturePattern pattern, CapturePattern::parse(text));
    SHARDSWEEP_TRY(check_keys(text, pattern));
    reader.patterns_.push_back(std::move(pattern));
  }
  return reader;
}

void LogReader::read(std::string_view line, std::optional<double> now_s) {
  const std::string clean = clean_line(line);
  std::vector<std::pair<std::string_view, PrintedNumber>> numbers;
  for (const auto& pattern : patterns_) {
    auto found = pattern.capture(clean);
    numbers.insert(numbers.end(), found.begin(), found.end());
  }
  const auto is_validation = [](const auto& found) { return found.first == "validation"; };
  if (std::any_of(numbers.begin(), numbers.end(), is_validation)) return;
  const auto is_number = [](const auto& found) { return found.first == "iteration"; };
  log_.numbered = log_.numbered || std::any_of(numbers.begin(), numbers.end(), is_number);
  // The iteration tells which step the other numbers of its line belong to.
  for (const auto& [key, number] : numbers) {
    const bool is_next = key == next_iteration;
    if (is_next && log_.numbered) continue;
    if (!is_next && (key != "iteration" || !(std::abs(number.value) < largest_count))) continue;
    const auto last = steps_.empty() ? 0 : steps_.rbegin()->first;
    const auto iteration = is_next ? last + 1 : static_cast<std::int64_t>(number.value);
    auto& step = steps_[iteration];
    step.iteration = iteration;
    if (!step.at_s) step.at_s = now_s ? std::optional(PrintedNumber{*now_s, 0}) : stamp_of(clean);
    current_ = &step;
  }
  // A line without a number belongs to an unknown train step, if the log numbers its steps.
  const auto is_uncounted = [](const auto& found) { return found.first == next_iteration; };
  const bool is_stray = log_.numbered &&
      std::any_of(numbers.begin(), numbers.end(), is_uncounted) &&
      std::none_of(numbers.begin(), numbers.end(), is_number);
  for (const auto& [key, number] : numbers)
    if (!is_stray || is_fact(key)) take(key, number);
}

void LogReader::take(std::string_view key, const PrintedNumber& number) {
  if (key == "iteration" || key == next_iteration) return;
  if ((key == parameters_fact || is_fact(key)) && !(std::abs(number.value) < largest_fact)) return;
  if (key == parameters_fact) {
    log_.parameters += number.value;
    ++log_.parameter_lines;
  } else if (is_fact(key)) {
    auto& fact = log_.facts[std::string(key)];
    if (number.value > fact.value) fact = number;
  } else if (current_ != nullptr) {
    current_->values[std::string(key)] = number;
  } else {
    log_.uncounted = true;
  }
}

std::string LogReader::facts_text() const {
  std::string text;
  for (const auto& [key, number] : log_.facts)
    text += fmt::format("{} {:.17g} {:.17g}\n", key, number.value, number.half_unit);
  if (log_.parameter_lines > 0)
    text += fmt::format("{} {:.17g} {}\n", parameters_fact, log_.parameters, log_.parameter_lines);
  return text;
}

void LogReader::add_facts(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() != 3) continue;
    const auto value = exact_number(words[1]);
    const auto second = exact_number(words[2]);
    if (!value || !second) continue;
    if (words[0] == parameters_fact) {
      if (!(std::abs(*second) < largest_count)) continue;
      log_.parameters += *value;
      log_.parameter_lines += static_cast<std::int64_t>(*second);
    } else if (is_fact(words[0])) {
      auto& fact = log_.facts[std::string(words[0])];
      if (*value > fact.value) fact = {*value, *second};
    }
  }
}

bool LogReader::knows_memory() const {
  return std::any_of(log_.facts.begin(), log_.facts.end(), [](const auto& fact) {
    return fact.first.starts_with("allocated_") || fact.first.starts_with("reserved_");
  });
}

TrainerLog LogReader::finish() const {
  TrainerLog log = log_;
  for (const auto& [iteration, step] : steps_)
    log.steps.push_back(step);
  return log;
}

}  // namespace shardsweep
