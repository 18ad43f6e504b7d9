// SPDX-License-Identifier: Apache-2.0
// The page that is passed around.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/report_facts.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace shardsweep {

struct ReportInput {
  ReportFacts facts;
  Heatmap heatmap;
  std::optional<std::int64_t> memory_limit{};      ///< bytes per GPU
  std::string made{};                              ///< when, by which version
  std::string warning{};                           ///< what a reader has to know first
  std::map<std::string, std::string> log_tails{};  ///< by sweep/trial
  int refresh_s = 0;  ///< the page loads itself again after so long; 0: never
};

/// One file without a network: from the answer at the top to the evidence at the end.
[[nodiscard]] std::string report_page(const ReportInput& input);

}  // namespace shardsweep
