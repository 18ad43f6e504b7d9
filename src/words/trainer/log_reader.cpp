// SPDX-License-Identifier: Apache-2.0
#include "trainer/log_reader.hpp"

#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/pieces.hpp"
#include "trainer/capture.hpp"
#include "trainer/trainers.hpp"

#include <shardsweep/library_gaps.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace shardsweep {
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
