// SPDX-License-Identifier: Apache-2.0
// The page that is passed around.
#pragma once

#include "show/pivot.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/report_facts.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// What an hour of a GPU costs.
struct Price {
  double per_gpu_hour = 0;
  std::string currency{};  ///< "EUR"; may be empty
};

struct ReportInput {
  ReportFacts facts;
  Heatmap heatmap;
  std::vector<ClusterSpec> clusters{};  ///< of the sweeps, each once; those that are known
  std::optional<Price> price{};
  std::string made{};                              ///< when, by which version
  std::string warning{};                           ///< what a reader has to know first
  std::string changed{};                           ///< what became slower since; empty: nothing
  std::map<std::string, std::string> log_tails{};  ///< by sweep/trial
  int refresh_s = 0;  ///< the page loads itself again after so long; 0: never

  /// Bytes of a GPU, if all clusters have the same.
  [[nodiscard]] std::optional<std::int64_t> memory_limit() const;
};

/// `2.50`, `2.50 EUR`; nothing if it is no price.
[[nodiscard]] std::optional<Price> price_from(const std::string& text);

/// Where the numbers of a picture come from: sweeps, dates, hardware.
[[nodiscard]] std::string source_line(
    ReportSources sources, const std::vector<ClusterSpec>& clusters);

/// One file without a network: from the answer at the top to the evidence at the end.
[[nodiscard]] std::string report_page(const ReportInput& input);

}  // namespace shardsweep
