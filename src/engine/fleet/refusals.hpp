// SPDX-License-Identifier: Apache-2.0
// Layouts that a trainer is sure to refuse, since it has refused two with the same words.
#pragma once

#include "fleet/world.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep {

/// Rule that two refusals with equal words give for other trials.
struct RefusedRule {
  std::string text;  ///< "each layout with tp 8 is refused (SLUG, SLUG): WORDS"
  /// Numbers that the rule is about, by axis; empty: all micro-batches of one lane.
  std::map<std::string_view, std::int32_t> parts{};
  std::string lane{};

  [[nodiscard]] bool covers(const TrialRow& trial) const;
  /// True if the rule ends this trial: it covers the trial, and the trial itself was not refused.
  [[nodiscard]] bool ends_by(const TrialRow& trial) const;
};

/// Rules from refused trials of one sweep.
[[nodiscard]] std::vector<RefusedRule> refused_rules(const std::vector<const TrialRow*>& refused);

/// Planned trials that would be refused if they started, and why.
[[nodiscard]] std::vector<std::pair<TrialId, std::string>> refused_alike(const World& world);

}  // namespace shardsweep
