// SPDX-License-Identifier: Apache-2.0
// `search`: in which order a sweep's trials run, and when a cell is done.
#include "adapters/config/readers.hpp"
#include "adapters/config/sweep_reader.hpp"
#include "adapters/config/text.hpp"

#include <fmt/format.h>

#include <utility>

namespace shardsweep::config {
namespace {

/// 1% or 0.01.
Parsed<double> parse_share(std::string_view text) {
  const bool percent = !text.empty() && text.back() == '%';
  auto value = parse_real(percent ? text.substr(0, text.size() - 1) : text);
  if (!value) return value;
  if (percent) *value /= 100;
  if (*value <= 0 || *value >= 1)
    return tl::make_unexpected(
        fmt::format("{} is no share between 0 and 1: write '1%' or '0.01'", in_quotes(text)));
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

Result<SearchUntil> read_until(const YamlNode& map) {
  SHARDSWEEP_TRY(expect_map(map, "'until' ('regret: 1%')"));
  SHARDSWEEP_TRY(check_keys(map, "'until'", {"regret", "confidence", "runs", "gpu_hours"}));
  SearchUntil until;
  const auto share = [&](std::string_view key, double& into) -> Result<void> {
    const auto* node = find(map, key);
    if (node == nullptr) return {};
    SHARDSWEEP_ASSIGN(into, read_real(*node, key, "a share such as 1%", parse_share));
    return {};
  };
  SHARDSWEEP_TRY(share("regret", until.regret));
  SHARDSWEEP_TRY(share("confidence", until.confidence));
  if (const auto* node = find(map, "runs")) {
    SHARDSWEEP_ASSIGN(until.runs, read_count(*node, {1, 1'000'000'000, "runs"}));
  }
  if (const auto* node = find(map, "gpu_hours")) {
    SHARDSWEEP_ASSIGN(until.gpu_hours, read_real(*node, "gpu_hours", "a number", parse_real));
    if (until.gpu_hours <= 0)
      return refuse(*node, "'gpu_hours' is more than 0; without a limit leave it out");
  }
  const auto* confidence = find(map, "confidence");
  if (confidence != nullptr && until.regret <= 0) {
    return refuse(*confidence,
                  "'confidence' says how sure it has to be that 'regret' holds: "
                  "set that too, 'regret: 1%'");
  }
  return until;
}

Result<SearchRules> read_search_rules(const YamlNode& map) {
  SHARDSWEEP_TRY(expect_map(map, "'rules' ('micro_batch: false')"));
  SHARDSWEEP_TRY(check_keys(map, "'rules'", {"micro_batch", "grad_accum", "memory"}));
  SearchRules rules;
  if (const auto* node = find(map, "micro_batch")) {
    SHARDSWEEP_ASSIGN(rules.micro_batch, read_bool(*node, "micro_batch"));
  }
  if (const auto* node = find(map, "grad_accum")) {
    SHARDSWEEP_ASSIGN(rules.grad_accum, read_bool(*node, "grad_accum"));
  }
  if (const auto* node = find(map, "memory")) {
    SHARDSWEEP_ASSIGN(rules.memory, read_bool(*node, "memory"));
  }
  return rules;
}

}  // namespace

Result<void> SweepReader::read_search(const YamlNode& map) {
  SHARDSWEEP_TRY(expect_map(map, "'search'"));
  SHARDSWEEP_TRY(check_keys(map, "'search'", {"policy", "until", "rules", "learn_across"}));
  auto& search = sweep_.search;
  if (const auto* node = find(map, "policy")) {
    SHARDSWEEP_ASSIGN(search.policy, read_search_policy(*node));
  }
  if (const auto* node = find(map, "until")) {
    SHARDSWEEP_ASSIGN(search.until, read_until(*node));
  }
  if (const auto* node = find(map, "rules")) {
    SHARDSWEEP_ASSIGN(search.rules, read_search_rules(*node));
  }
  if (const auto* node = find(map, "learn_across")) {
    SHARDSWEEP_ASSIGN(search.learn_across, read_bool(*node, "learn_across"));
  }
  if (!search.is_plain() && sweep_.measure.repeats > 1) {
    return refuse(map,
                  "a search measures each point once: 'measure.repeats' is "
                  "1 with it, and 'rerun' measures the winner again");
  }
  return {};
}

}  // namespace shardsweep::config
