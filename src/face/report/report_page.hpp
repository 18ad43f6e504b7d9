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

/// Price of an hour of a GPU.
struct Price {
  double per_gpu_hour = 0;
  std::string currency{};  ///< "EUR"; may be empty
};

struct ReportInput {
  ReportFacts facts;
  Heatmap heatmap;
  std::vector<ClusterSpec> clusters{};  ///< clusters of the sweeps that are known, each once
  std::optional<Price> price{};
  std::string made{};     ///< date of its making, and the version that made it
  std::string warning{};  ///< warning that a reader has to know first
  std::string changed{};  ///< sentences on what became slower; may be empty
  std::map<std::string, std::string> log_tails{};  ///< ends of logs, by sweep/trial
  int refresh_s = 0;  ///< the page loads itself again after so long; 0: never

  /// Bytes of a GPU, if all clusters have the same.
  [[nodiscard]] std::optional<std::int64_t> memory_limit() const;
};

/// `2.50`, `2.50 EUR`; nothing if it is no price.
[[nodiscard]] std::optional<Price> price_from(const std::string& text);

/// Line on the source of a picture's numbers: sweeps, dates, hardware.
[[nodiscard]] std::string source_line(
    ReportSources sources, const std::vector<ClusterSpec>& clusters);

/// One file without a network: from the answer at the top to the evidence at the end.
[[nodiscard]] std::string report_page(const ReportInput& input);

}  // namespace shardsweep
