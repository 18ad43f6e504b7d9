// SPDX-License-Identifier: Apache-2.0
// What a sweep file says beside its grid: exclusions, measurement, runner, environment, policy.
#include "config/container.hpp"
#include "config/keys.hpp"
#include "config/own_causes.hpp"
#include "config/sweep_reader.hpp"
#include "sweep/opening_hours.hpp"
#include "sweep/trainer_command.hpp"
#include "text/characters.hpp"
#include "text/nearest.hpp"
#include "text/secrets.hpp"
#include "yaml/readers.hpp"

#include <shardsweep/filter.hpp>
#include <shardsweep/policy.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep::config {
namespace {

constexpr std::size_t most_expression_bytes = 4096;
constexpr std::size_t most_excludes = 1000;
constexpr std::int64_t most_repeats = 1000;
constexpr std::int64_t most_rounds = 100;

/// An expression or its reason: may be folded over lines, ends without one.
Result<std::string> read_sentence(const YamlNode& node, std::string_view what) {
  SHARDSWEEP_ASSIGN(auto text, read_text(node, what, most_expression_bytes, Lines::many));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.pop_back();
  return text;
}

void move_secrets(
    std::map<std::string, std::string>& plain, std::map<std::string, std::string>& secrets) {
  for (auto entry = plain.begin(); entry != plain.end();) {
    const bool hidden = is_secret(entry->first, entry->second);
    if (hidden) secrets.emplace(entry->first, entry->second);
    entry = hidden ? plain.erase(entry) : std::next(entry);
  }
}

std::optional<ExcludeRule> read_exclude(
    const YamlNode& node, const SweepSpec& sweep, Mistakes& mistakes) {
  ExcludeRule rule;
  rule.position = position_of(node);
  const auto* when = &node;
  if (node.kind == YamlNode::Kind::map) {
    check_keys(node, "an exclusion", keys_of("exclude"), mistakes);
    when = need(node, "an exclusion", "when", mistakes);
    if (const auto* why = find(node, "why"))
      mistakes.assign(rule.why, *why, read_sentence(*why, "why"));
  } else if (node.kind != YamlNode::Kind::scalar) {
    mistakes.add(node, "expected an expression or {{when: ..., why: ...}} in 'exclude', got {}",
        describe(node));
    return std::nullopt;
  }
  if (when == nullptr || !mistakes.assign(rule.when, *when, read_sentence(*when, "when")))
    return std::nullopt;
  if (rule.when.empty()) {
    mistakes.add(*when, "the expression is empty; write one or remove the entry");
  } else if (const auto compiled = compile_filter(sweep, {rule.when}); !compiled) {
    mistakes.add(*when, compiled.error().what);
  }
  return rule;
}

std::string out_of_range(
    std::string_view text, const PolicyField& field, bool low, const std::string& bound) {
  return fmt::format("{} is {} than {}, the {} of '{}'", in_quotes(text), low ? "less" : "more",
      bound, low ? "minimum" : "maximum", field.key);
}

Result<double> read_policy_real(const YamlNode& node, const PolicyField& field) {
  const bool seconds = field.unit == PolicyUnit::seconds;
  SHARDSWEEP_ASSIGN(const auto value,
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

/// "50%"
Result<std::int64_t> read_percent(const YamlNode& node, const PolicyField& field) {
  SHARDSWEEP_ASSIGN(const auto text, read_text(node, field.key));
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool plain = error == std::errc() && stop + 1 == end && *stop == '%' && text[0] != '0';
  if (!plain || value < std::llround(field.minimum) || value > std::llround(field.maximum)) {
    return refuse(node, "expected a share such as 50% for '{}', from {}% to {}%, got {}", field.key,
        field.minimum, field.maximum, describe(node));
  }
  return value;
}

Result<std::int64_t> read_word(const YamlNode& node, const PolicyField& field) {
  const auto words = words_of(field.unit);
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (node.kind == YamlNode::Kind::scalar && node.text == words[at])
      return static_cast<std::int64_t>(at);
  }
  return refuse(
      node, "expected {} for '{}', got {}", fmt::join(words, " or "), field.key, describe(node));
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
    SHARDSWEEP_ASSIGN(*std::get<std::int64_t*>(field.in(into)),
        is_word ? read_word(node, field) : read_percent(node, field));
    return {};
  }
  const PolicyValue value = field.in(into);
  if (double* const* real = std::get_if<double*>(&value)) {
    SHARDSWEEP_ASSIGN(**real, read_policy_real(node, field));
  } else {
    const Range range{std::llround(field.minimum), std::llround(field.maximum), field.key};
    const bool bytes = field.unit == PolicyUnit::bytes;
    SHARDSWEEP_ASSIGN(
        *std::get<std::int64_t*>(value), bytes ? read_bytes(node, range) : read_count(node, range));
  }
  return {};
}

/// Advice on a key under 'slurm' that resembles none of the policy's.
std::string unlike_our_keys(std::string_view key) {
  std::vector<std::string_view> keys;
  for (const auto& field : policy_fields()) {
    if (field.section == "slurm") keys.push_back(field.key);
  }
  if (!nearest(key, keys).empty()) return {};
  return belongs_to_sbatch(key, "'slurm' in a sweep");
}

void read_policy_section(
    const YamlNode& map, std::string_view section, Policy& into, Mistakes& mistakes) {
  const auto what = fmt::format("'{}'", section);
  if (!mistakes.take(map, expect_map(map, what))) return;
  std::vector<std::string_view> keys;
  for (const auto& field : policy_fields()) {
    if (field.section == section) keys.push_back(field.key);
  }
  if (section == hours_section) keys.push_back(hours_key);
  check_keys(map, what, keys, mistakes, section == "slurm" ? unlike_our_keys : belongs_to_the_site);
  for (const auto& field : policy_fields()) {
    const auto* node = field.section == section ? find(map, field.key) : nullptr;
    if (node != nullptr) mistakes.take(*node, read_policy_field(*node, field, into));
  }
  const auto* hours = section == hours_section ? find(map, hours_key) : nullptr;
  if (hours != nullptr) mistakes.take(*hours, read_hours(*hours, into.hours));
}

}  // namespace

void SweepReader::read_trial_settings(const YamlNode& root) {
  if (const auto* list = find(root, "exclude")) read_excludes(*list);
  if (const auto* map = find(root, "measure")) read_measure(*map);
  if (const auto* runner = find(root, "runner")) read_runner(*runner);
  read_proof(root);
  read_side_runs(root);
  read_remeasure(root);
  if (const auto* map = find(root, "env")) read_env(*map);
  if (const auto* map = find(root, "container")) read_sweep_container(*map);
  read_secrets(root);
  if (const auto* list = find(root, "classify")) sweep_.rules = read_own_causes(*list, mistakes_);
  if (const auto* map = find(root, "search")) read_search(*map);
  shorten_first_runs(find(root, "measure"));
  read_policy(root, sweep_.policy, mistakes_);
}

void SweepReader::read_env(const YamlNode& map) {
  sweep_.env = read_environment(map, mistakes_);
  // Variables are set before ranks exist, so they can't use ranks' placeholders; a secret's text is
  // never shown.
  for (const auto& [name, text] : sweep_.env) {
    const YamlNode* value = is_secret(name, text) ? nullptr : find(map, name);
    if (value != nullptr) check_placeholders_in(*value, text, PlaceholderScope::point);
  }
}

/// A variable has one place. A secret named in any file is moved to `secrets`: nothing that is
/// printed or stored later has its value.
void SweepReader::read_secrets(const YamlNode& root) {
  const auto* map = find(root, "secrets");
  if (map != nullptr) sweep_.secrets = read_environment(*map, mistakes_, "'secrets'");
  const auto* list = find(root, "pass_env");
  if (list != nullptr)
    mistakes_.assign(sweep_.pass_env, *list, read_passed_names(*list, Stars::may_end));
  const auto refuse_twice = [this](const YamlNode& node, std::string_view key,
                                const std::string& name, std::string_view other) {
    mistakes_.add(node, "{} stands in '{}' and in '{}'; write it in one of them", name, other, key);
  };
  for (const auto& [name, value] : sweep_.secrets) {
    if (sweep_.env.contains(name)) refuse_twice(*map, "secrets", name, "env");
    if (sweep_.container.env.contains(name)) refuse_twice(*map, "secrets", name, "container.env");
  }
  for (const auto& name : sweep_.pass_env) {
    if (sweep_.env.contains(name)) refuse_twice(*list, "pass_env", name, "env");
    if (sweep_.secrets.contains(name)) refuse_twice(*list, "pass_env", name, "secrets");
  }
  move_secrets(sweep_.env, sweep_.secrets);
  // `env` of the sweep wins.
  move_secrets(sweep_.container.env, sweep_.secrets);
}

void SweepReader::read_sweep_container(const YamlNode& map) {
  sweep_.container = read_container(map, mistakes_, folder_);
  const auto* image = map.kind == YamlNode::Kind::map ? find(map, "image") : nullptr;
  if (image == nullptr) return;
  check_placeholders_in(*image, sweep_.container.image, PlaceholderScope::point);
}

void SweepReader::read_excludes(const YamlNode& list) {
  if (!mistakes_.take(list, expect_list(list, "'exclude'"))) return;
  if (list.items.size() > most_excludes) {
    const auto& item = *list.items[most_excludes];
    mistakes_.add(item, "more than 1000 exclusions");
    return;
  }
  for (const auto& item : list.items) {
    auto rule = read_exclude(*item, sweep_, mistakes_);
    if (rule) sweep_.excludes.push_back(*std::move(rule));
  }
}

void SweepReader::read_measure(const YamlNode& map) {
  if (!mistakes_.take(map, expect_map(map, "'measure'"))) return;
  check_keys(map, "'measure'", keys_of("measure"), mistakes_);
  read_values(map, sweep_.measure, mistakes_);
  const bool finals = sweep_.measure.finalists > 0;
  const auto needs_finals = [&](const YamlNode* key, std::string_view why,
                                std::string_view otherwise) {
    if (key == nullptr || finals) return;
    mistakes_.add(*key, "{}; write 'finalists: {}' beside it, or {}", why, Measure::usual_finalists,
        otherwise);
  };
  const auto* first = find(map, "first");
  if (sweep_.measure.first > 0 && !finals)
    needs_finals(first, "'first' shortens the runs before the finals, but the sweep has no finals",
        "write 'steps' in its place");
  else if (sweep_.measure.first >= sweep_.measure.steps)
    mistakes_.add(*first, "'first' has to be below 'steps', which is {}; got '{}'",
        sweep_.measure.steps, first->text);
  const auto* repeats = find(map, "repeats");
  const bool until = repeats != nullptr && repeats->kind == YamlNode::Kind::scalar &&
      repeats->text == "until_resolved";
  if (until) {
    needs_finals(repeats, "'repeats: until_resolved' ends finals", "write a number of repeats");
  } else if (repeats != nullptr) {
    const auto count = mistakes_.take(
        *repeats, read_count(*repeats, {1, finals ? most_rounds : most_repeats, "repeats"}));
    auto& into = finals ? sweep_.measure.final_rounds : sweep_.measure.repeats;
    if (count) into = static_cast<std::int32_t>(*count);
  }
  needs_finals(find(map, "node_sets"), "'node_sets' confirms finals", "remove 'node_sets'");
  needs_finals(find(map, "resolve"), "'resolve' ends finals", "remove 'resolve'");
}

/// A search needs many short runs, and its finals decide: a file has to ask for long runs.
void SweepReader::shorten_first_runs(const YamlNode* measure) {
  Measure& its = sweep_.measure;
  const bool searches = sweep_.search.policy == SearchPolicy::best_first;
  if (!searches || its.finalists == 0 || find(*measure, "first") != nullptr) return;
  if (its.steps > Measure::first_of_search) its.first = Measure::first_of_search;
}

void read_policy(const YamlNode& root, Policy& into, Mistakes& mistakes) {
  for (const auto section : policy_sections()) {
    if (const auto* map = find(root, section)) read_policy_section(*map, section, into, mistakes);
  }
}

// `search`: in which order a sweep's trials run, and when a cell is done.

namespace {

constexpr double most_cut_short = 1000;

Result<SearchPolicy> read_search_policy(const YamlNode& node) {
  for (std::size_t at = 0; at < search_policy_words.size(); ++at) {
    if (node.kind == YamlNode::Kind::scalar && node.text == search_policy_words[at])
      return static_cast<SearchPolicy>(at);
  }
  return refuse(node, "expected {} for 'policy', got {}", fmt::join(search_policy_words, " or "),
      describe(node));
}

SearchUntil read_until(const YamlNode& map, Mistakes& mistakes) {
  SearchUntil until;
  if (!mistakes.take(map, expect_map(map, "'until' ('regret: 1%')"))) return until;
  check_keys(map, "'until'", keys_of("search.until"), mistakes);
  read_values(map, until, mistakes);
  const auto* confidence = find(map, "confidence");
  if (confidence != nullptr && find(map, "regret") == nullptr) {
    mistakes.add(*confidence, "'confidence' needs 'regret' beside it; write 'regret: 1%'");
  }
  return until;
}

SearchRules read_search_rules(const YamlNode& map, Mistakes& mistakes) {
  SearchRules rules;
  if (!mistakes.take(map, expect_map(map, "'rules' ('micro_batch: false')"))) return rules;
  // A sweep of an older version may say `grad_accum`: today it is a rule of nanotron's file.
  auto keys = keys_of("search.rules");
  keys.push_back("grad_accum");
  check_keys(map, "'rules'", keys, mistakes);
  read_values(map, rules, mistakes);
  return rules;
}

/// A factor; 0: off.
Result<double> read_cut_short(const YamlNode& node) {
  const bool scalar = node.kind == YamlNode::Kind::scalar;
  if (scalar && (node.text == "off" || node.text == "false")) return 0;
  SHARDSWEEP_ASSIGN(const double factor,
      read_real(node, "cut_short", "a factor such as 1.05, or off", parse_real));
  if (factor <= 1 || factor > most_cut_short)
    return refuse(node,
        "'cut_short' must be above 1 and at most {}; it is off with 'cut_short: off'",
        most_cut_short);
  return factor;
}

}  // namespace

namespace {

Result<LearnFrom> read_learn_from(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar && node.text == "all") return LearnFrom{};
  if (node.kind == YamlNode::Kind::scalar && node.text == "none") return LearnFrom{false, {}};
  if (node.kind == YamlNode::Kind::scalar)
    return refuse(node,
        "'learn_from' is all, none or a list of sweeps; got '{}', write '[{}]' for the sweep of "
        "that name",
        node.text, node.text);
  SHARDSWEEP_ASSIGN(auto sweeps, read_texts(node, "learn_from"));
  return LearnFrom{false, std::move(sweeps)};
}

}  // namespace

void SweepReader::read_search(const YamlNode& map) {
  if (!mistakes_.take(map, expect_map(map, "'search'"))) return;
  check_keys(map, "'search'", keys_of("search"), mistakes_);
  auto& search = sweep_.search;
  read_values(map, search, mistakes_);
  if (const auto* node = find(map, "policy"))
    mistakes_.assign(search.policy, *node, read_search_policy(*node));
  if (const auto* node = find(map, "until")) search.until = read_until(*node, mistakes_);
  if (const auto* node = find(map, "rules")) search.rules = read_search_rules(*node, mistakes_);
  if (const auto* node = find(map, "cut_short")) {
    mistakes_.assign(search.cut_short, *node, read_cut_short(*node));
    if (search.cut_short > 0 && search.policy == SearchPolicy::exhaustive)
      mistakes_.add(*node,
          "an exhaustive sweep measures each trial to its end; remove 'cut_short', or write "
          "'policy: best_first'");
  }
  if (const auto* node = find(map, "learn_from"))
    mistakes_.assign(search.learn_from, *node, read_learn_from(*node));
  if (!search.is_plain() && sweep_.measure.repeats > 1) {
    mistakes_.add(map,
        "a search measures each point once; remove 'measure.repeats', and use 'rerun' to measure "
        "the best layout again");
  }
}

}  // namespace shardsweep::config
