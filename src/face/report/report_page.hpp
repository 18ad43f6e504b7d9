// SPDX-License-Identifier: Apache-2.0
// The page that is passed around.
#pragma once

#include "show/history.hpp"
#include "show/pivot.hpp"

#include <shardsweep/drawing.hpp>
#include <shardsweep/model.hpp>
#include <shardsweep/report_facts.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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

// The explorer: the planner itself, compiled to WebAssembly, in a page of one file, with a form
// to ask it and cards for its answers.

struct ExplorerInput {
  std::string_view glue;     ///< planner.js, emscripten's loader; empty: the page's server answers
  std::string_view wasm_gz;  ///< planner.wasm.gz, as bytes
  /// {"models": {name: …}, "clusters": {name: …}, "learnt": [{…}]}, as explore/question.hpp
  /// reads them.
  std::string_view presets;
};

[[nodiscard]] std::string explorer_page(const ExplorerInput& input);

// Series over time as a page and as a picture: small charts, the largest loss first.

/// One file in the report's form, without a network. `made` says when, and by which version.
[[nodiscard]] std::string history_page(const History& history, const std::string& made);

/// The same charts one below the other, of at most 24 series; the summary says how many more
/// there are.
[[nodiscard]] Drawing history_picture(const History& history);

}  // namespace shardsweep
