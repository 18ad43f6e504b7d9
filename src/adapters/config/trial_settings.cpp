// SPDX-License-Identifier: Apache-2.0
// What a sweep file says beside its grid: exclusions, measurement, runner, environment, policy.
#include "adapters/config/readers.hpp"
#include "adapters/config/sweep_reader.hpp"
#include "adapters/config/text.hpp"
#include "domain/opening_hours.hpp"

#include <shardsweep/policy.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_expression_bytes = 4096;
constexpr std::size_t most_excludes = 1000;
constexpr std::int64_t most_train_steps = 1'000'000;
constexpr std::int64_t most_repeats = 1000;

/// An expression or its reason: may be folded over lines, ends without one.
Result<std::string> read_sentence(const YamlNode& node, std::string_view what) {
  SHARDSWEEP_ASSIGN(auto text, read_text(node, what, most_expression_bytes, Lines::many));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.pop_back();
  return text;
}

Result<ExcludeRule> read_exclude(const YamlNode& node) {
  ExcludeRule rule;
  rule.position = position_of(node);
  const auto* when = &node;
  if (node.kind == YamlNode::Kind::map) {
    SHARDSWEEP_TRY(check_keys(node, "an exclusion", {"when", "why"}));
    SHARDSWEEP_ASSIGN(when, need(node, "an exclusion", "when"));
    if (const auto* why = find(node, "why")) {
      SHARDSWEEP_ASSIGN(rule.why, read_sentence(*why, "why"));
    }
  } else if (node.kind != YamlNode::Kind::scalar) {
    return refuse(node, fmt::format("expected an expression or {{when: ..., why: ...}} in "
                                    "'exclude', got {}",
                                    describe(node)));
  }
  SHARDSWEEP_ASSIGN(rule.when, read_sentence(*when, "when"));
  if (rule.when.empty()) return refuse(*when, "an exclusion without an expression");
  return rule;
}

Result<Outcome> read_rule_outcome(const YamlNode& node) {
  std::string known;
  for (const Outcome outcome : log_rule_outcomes) {
    if (node.kind == YamlNode::Kind::scalar && node.text == name(outcome)) return outcome;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name(outcome));
  }
  return refuse(node,
                fmt::format("expected one of {} for 'outcome', got {}", known, describe(node)));
}

Result<LogRule> read_rule(const YamlNode& node) {
  constexpr std::string_view what = "a rule";
  SHARDSWEEP_TRY(expect_map(node, what));
  SHARDSWEEP_TRY(check_keys(node, what, {"name", "pattern", "outcome"}));
  LogRule rule;
  SHARDSWEEP_ASSIGN(const auto* name, need(node, what, "name"));
  SHARDSWEEP_ASSIGN(rule.name, read_name(*name, "name"));
  SHARDSWEEP_ASSIGN(const auto* pattern, need(node, what, "pattern"));
  SHARDSWEEP_ASSIGN(rule.pattern, read_text(*pattern, "pattern", most_pattern_bytes));
  if (rule.pattern.find_first_not_of("* ") == std::string::npos)
    return refuse(*pattern,
                  "a pattern that fits every line: write text of the one that is "
                  "meant, with * for what varies");
  SHARDSWEEP_ASSIGN(const auto* outcome, need(node, what, "outcome"));
  SHARDSWEEP_ASSIGN(rule.outcome, read_rule_outcome(*outcome));
  return rule;
}

std::string out_of_range(std::string_view text, const PolicyField& field, bool low,
                         const std::string& bound) {
  return fmt::format("{} is {} than {}, the {} for '{}'", in_quotes(text),
                     low ? "less" : "more", bound, low ? "least" : "most", field.key);
}

Result<double> read_policy_real(const YamlNode& node, const PolicyField& field) {
  const bool seconds = field.unit == PolicyUnit::seconds;
  SHARDSWEEP_ASSIGN(
      const auto value,
      read_real(node, field.key, seconds ? "a duration such as 15min" : "a number of hours",
                seconds ? parse_duration : parse_real));
  const auto text = [&](double bound) {
    return seconds ? duration_text(bound) : fmt::format("{}", bound);
  };
  if (value < field.minimum)
    return refuse(node, out_of_range(node.text, field, true, text(field.minimum)));
  if (value > field.maximum)
    return refuse(node, out_of_range(node.text, field, false, text(field.maximum)));
  return value;
}

Result<std::int64_t> read_policy_integer(const YamlNode& node, const PolicyField& field) {
  const Range range{std::llround(field.minimum), std::llround(field.maximum), field.key};
  return field.unit == PolicyUnit::bytes ? read_bytes(node, range) : read_count(node, range);
}

/// "50%"
Result<std::int64_t> read_percent(const YamlNode& node, const PolicyField& field) {
  SHARDSWEEP_ASSIGN(const auto text, read_text(node, field.key));
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool plain = error == std::errc() && stop + 1 == end && *stop == '%' && text[0] != '0';
  if (!plain || value < std::llround(field.minimum) || value > std::llround(field.maximum)) {
    return refuse(node,
                  fmt::format("expected a share such as 50% for '{}', from {}% to {}%, got {}",
                              field.key, field.minimum, field.maximum, describe(node)));
  }
  return value;
}

Result<std::int64_t> read_word(const YamlNode& node, const PolicyField& field) {
  const auto words = words_of(field.unit);
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (node.kind == YamlNode::Kind::scalar && node.text == words[at])
      return static_cast<std::int64_t>(at);
  }
  return refuse(node, fmt::format("expected {} for '{}', got {}", fmt::join(words, " or "),
                                  field.key, describe(node)));
}

Result<void> read_hours(const YamlNode& node, OpeningHours& into) {
  SHARDSWEEP_ASSIGN(const auto text, read_text(node, hours_key));
  auto hours = parse_opening_hours(text);
  if (!hours) return refuse(node, hours.error());
  into = std::move(*hours);
  return {};
}

Result<void> read_policy_field(const YamlNode& node, const PolicyField& field, Policy& into) {
  const bool is_word = !words_of(field.unit).empty();
  if (field.unit == PolicyUnit::percent || is_word) {
    SHARDSWEEP_ASSIGN(into.*std::get<std::int64_t Policy::*>(field.member),
                      is_word ? read_word(node, field) : read_percent(node, field));
    return {};
  }
  if (const auto* real = std::get_if<double Policy::*>(&field.member)) {
    SHARDSWEEP_ASSIGN(into.**real, read_policy_real(node, field));
  } else {
    const auto integer = std::get<std::int64_t Policy::*>(field.member);
    SHARDSWEEP_ASSIGN(into.*integer, read_policy_integer(node, field));
  }
  return {};
}

Result<void> read_policy_section(const YamlNode& map, std::string_view section, Policy& into) {
  const auto what = fmt::format("'{}'", section);
  SHARDSWEEP_TRY(expect_map(map, what));
  std::vector<std::string_view> keys;
  for (const auto& field : policy_fields()) {
    if (field.section == section) keys.push_back(field.key);
  }
  if (section == hours_section) keys.push_back(hours_key);
  SHARDSWEEP_TRY(check_keys(map, what, keys));
  for (const auto& field : policy_fields()) {
    const auto* node = field.section == section ? find(map, field.key) : nullptr;
    if (node != nullptr) SHARDSWEEP_TRY(read_policy_field(*node, field, into));
  }
  const auto* hours = section == hours_section ? find(map, hours_key) : nullptr;
  if (hours != nullptr) SHARDSWEEP_TRY(read_hours(*hours, into.hours));
  return {};
}

}  // namespace

Result<void> SweepReader::read_trial_settings(const YamlNode& root) {
  if (const auto* list = find(root, "exclude")) SHARDSWEEP_TRY(read_excludes(*list));
  if (const auto* map = find(root, "measure")) SHARDSWEEP_TRY(read_measure(*map));
  if (const auto* runner = find(root, "runner")) SHARDSWEEP_TRY(read_runner(*runner));
  if (const auto* map = find(root, "env")) {
    SHARDSWEEP_ASSIGN(sweep_.env, read_environment(*map));
  }
  if (const auto* list = find(root, "classify")) SHARDSWEEP_TRY(read_rules(*list));
  if (const auto* map = find(root, "search")) SHARDSWEEP_TRY(read_search(*map));
  return read_policy(root);
}

Result<void> SweepReader::read_rules(const YamlNode& list) {
  SHARDSWEEP_TRY(expect_list(list, "'classify'"));
  if (list.items.size() > most_log_rules)
    return refuse(*list.items[most_log_rules], "more than 100 rules in 'classify'");
  for (const auto& item : list.items) {
    SHARDSWEEP_ASSIGN(LogRule rule, read_rule(*item));
    for (const LogRule& other : sweep_.rules) {
      if (other.name == rule.name)
        return refuse(*item, fmt::format("two rules are called {}", in_quotes(rule.name)));
    }
    sweep_.rules.push_back(std::move(rule));
  }
  return {};
}

Result<void> SweepReader::read_excludes(const YamlNode& list) {
  SHARDSWEEP_TRY(expect_list(list, "'exclude'"));
  if (list.items.size() > most_excludes)
    return refuse(*list.items[most_excludes], "more than 1000 exclusions");
  for (const auto& item : list.items) {
    SHARDSWEEP_ASSIGN(sweep_.excludes.emplace_back(), read_exclude(*item));
  }
  return {};
}

Result<void> SweepReader::read_measure(const YamlNode& map) {
  SHARDSWEEP_TRY(expect_map(map, "'measure'"));
  SHARDSWEEP_TRY(check_keys(map, "'measure'", {"warmup", "steps", "repeats"}));
  const auto read = [&](std::int32_t& into, const Range& range) -> Result<void> {
    const auto* node = find(map, range.what);
    if (node == nullptr) return {};
    SHARDSWEEP_ASSIGN(const auto count, read_count(*node, range));
    into = static_cast<std::int32_t>(count);
    return {};
  };
  SHARDSWEEP_TRY(read(sweep_.measure.warmup, {0, most_train_steps, "warmup"}));
  SHARDSWEEP_TRY(read(sweep_.measure.steps, {1, most_train_steps, "steps"}));
  return read(sweep_.measure.repeats, {1, most_repeats, "repeats"});
}

Result<void> SweepReader::read_policy(const YamlNode& root) {
  for (const auto section : policy_sections()) {
    if (const auto* map = find(root, section))
      SHARDSWEEP_TRY(read_policy_section(*map, section, sweep_.policy));
  }
  return {};
}

}  // namespace shardsweep::config
