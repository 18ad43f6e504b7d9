// SPDX-License-Identifier: Apache-2.0
// `search`: in which order a sweep's trials run, and when a cell is done.
#include "config/keys.hpp"
#include "config/sweep_reader.hpp"
#include "text/characters.hpp"
#include "yaml/readers.hpp"

#include <fmt/format.h>

#include <utility>

namespace shardsweep::config {
namespace {

constexpr double most_cut_short = 1000;

/// 1% or 0.01.
Parsed<double> parse_share(std::string_view text) {
  const bool percent = !text.empty() && text.back() == '%';
  auto value = parse_real(percent ? text.substr(0, text.size() - 1) : text);
  if (!value) return value;
  if (percent) *value /= 100;
  if (*value <= 0 || *value >= 1)
    return tl::make_unexpected(
        fmt::format("{} is not a share between 0 and 1; write 1% or 0.01", in_quotes(text)));
  return value;
}

Result<SearchPolicy> read_search_policy(const YamlNode& node) {
  for (std::size_t at = 0; at < search_policy_words.size(); ++at) {
    if (node.kind == YamlNode::Kind::scalar && node.text == search_policy_words[at])
      return static_cast<SearchPolicy>(at);
  }
  return refuse(node, fmt::format("expected {} for 'policy', got {}",
                                  fmt::join(search_policy_words, " or "), describe(node)));
}

Result<double> read_gpu_hours(const YamlNode& node) {
  SHARDSWEEP_ASSIGN(const double hours, read_real(node, "gpu_hours", "a number", parse_real));
  if (hours <= 0) return refuse(node, "'gpu_hours' must be above 0; remove it for no limit");
  return hours;
}

SearchUntil read_until(const YamlNode& map, Mistakes& mistakes) {
  SearchUntil until;
  if (!mistakes.take(map, expect_map(map, "'until' ('regret: 1%')"))) return until;
  check_keys(map, "'until'", keys_of("search.until"), mistakes);
  const auto share = [&](std::string_view key, double& into) {
    if (const auto* node = find(map, key)) mistakes.assign(into, *node, read_share(*node, key));
  };
  share("regret", until.regret);
  share("confidence", until.confidence);
  if (const auto* node = find(map, "runs"))
    mistakes.assign(until.runs, *node, read_count(*node, {1, 1'000'000'000, "runs"}));
  if (const auto* node = find(map, "gpu_hours"))
    mistakes.assign(until.gpu_hours, *node, read_gpu_hours(*node));
  const auto* confidence = find(map, "confidence");
  if (confidence != nullptr && find(map, "regret") == nullptr) {
    mistakes.add(*confidence, fault_at(*confidence,
                                       "'confidence' needs 'regret' beside it; "
                                       "write 'regret: 1%'"));
  }
  return until;
}

SearchRules read_search_rules(const YamlNode& map, Mistakes& mistakes) {
  SearchRules rules;
  if (!mistakes.take(map, expect_map(map, "'rules' ('micro_batch: false')"))) return rules;
  check_keys(map, "'rules'", keys_of("search.rules"), mistakes);
  const auto read = [&](std::string_view key, bool& into) {
    if (const auto* node = find(map, key)) mistakes.assign(into, *node, read_bool(*node, key));
  };
  read("micro_batch", rules.micro_batch);
  read("grad_accum", rules.grad_accum);
  read("memory", rules.memory);
  return rules;
}

/// A factor; 0: off.
Result<double> read_cut_short(const YamlNode& node) {
  const bool scalar = node.kind == YamlNode::Kind::scalar;
  if (scalar && (node.text == "off" || node.text == "false")) return 0;
  SHARDSWEEP_ASSIGN(const double factor,
                    read_real(node, "cut_short", "a factor such as 1.2, or off", parse_real));
  if (factor <= 1 || factor > most_cut_short)
    return refuse(node, fmt::format("'cut_short' must be above 1 and at most {}; it is off "
                                    "with 'cut_short: off'",
                                    most_cut_short));
  return factor;
}

}  // namespace

Result<double> read_share(const YamlNode& node, std::string_view key) {
  return read_real(node, key, "a share such as 1%", parse_share);
}

void SweepReader::read_search(const YamlNode& map) {
  if (!mistakes_.take(map, expect_map(map, "'search'"))) return;
  check_keys(map, "'search'", keys_of("search"), mistakes_);
  auto& search = sweep_.search;
  if (const auto* node = find(map, "policy"))
    mistakes_.assign(search.policy, *node, read_search_policy(*node));
  if (const auto* node = find(map, "until")) search.until = read_until(*node, mistakes_);
  if (const auto* node = find(map, "rules")) search.rules = read_search_rules(*node, mistakes_);
  if (const auto* node = find(map, "learn_across"))
    mistakes_.assign(search.learn_across, *node, read_bool(*node, "learn_across"));
  if (const auto* node = find(map, "cut_short")) {
    mistakes_.assign(search.cut_short, *node, read_cut_short(*node));
    if (search.cut_short > 0 && search.policy == SearchPolicy::exhaustive)
      mistakes_.add(*node, fault_at(*node,
                                    "an exhaustive sweep measures each trial to its end; "
                                    "remove 'cut_short', or write 'policy: best_first'"));
  }
  if (!search.is_plain() && sweep_.measure.repeats > 1) {
    mistakes_.add(map, fault_at(map,
                                "a search measures each point once; remove "
                                "'measure.repeats', and use 'rerun' to measure the best "
                                "layout again"));
  }
}

}  // namespace shardsweep::config
