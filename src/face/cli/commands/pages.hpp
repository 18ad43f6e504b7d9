// SPDX-License-Identifier: Apache-2.0
// Pages that commands write into files and `ui` serves: each by the command's own renderer, of the
// sweeps that Options::names has, with the command's defaults.
#pragma once

#include "cli/command.hpp"
#include "cli/session.hpp"
#include "report/report_page.hpp"
#include "show/history.hpp"
#include "show/styled_text.hpp"

#include <shardsweep/results.hpp>
#include <shardsweep/table.hpp>

#include <string>
#include <vector>

namespace shardsweep {

[[nodiscard]] Result<std::string> report_html(const Session& session);
[[nodiscard]] Result<std::string> history_html(const Session& session);
/// Frontiers by memory and by nodes.
[[nodiscard]] Result<std::string> frontier_html(const Session& session);
/// The explorer without a planner inside: it asks whoever serves it. The names are of sweeps
/// whose measurements it has.
[[nodiscard]] Result<std::string> explorer_html(const Session& session);

// Parts of a page.

/// Tables of what `show` prints.
[[nodiscard]] Result<std::string> show_html(const Session& session);

/// Parts of what `status --watch` shows.
struct StatusParts {
  std::vector<std::string> sentences;  ///< troubles, the daemon, what waits
  Table sweeps;
  std::vector<StyledLine> lines;  ///< lines about one sweep and its jobs
};
[[nodiscard]] Result<StatusParts> status_parts(const Session& session);

/// The end of a log, as `logs` shows it on a terminal, without secrets.
struct LogPart {
  std::string file;
  std::string text;
  std::string why;  ///< there is no text
  bool ended = false;
  std::vector<std::string> files;  ///< names of the attempt's files
};
/// Log of the attempt or trial that Options::names has. An empty `file` means the rank that `logs`
/// prints.
[[nodiscard]] Result<LogPart> log_part(const Session& session, const std::string& file);

// Input of pages, as far as `report` and `heatmap` share it.

/// The facts of the selected sweeps, their clusters, and when the page was made. The texts of
/// sweep files are as they are stored: who prints them hides secrets first.
[[nodiscard]] Result<ReportInput> page_input(
    const Session& session, Reader& reader, const Selection& selection);

/// Sentence that says when a page was made, and by which version.
[[nodiscard]] std::string made_text(const Session& session);

/// The line below a picture; without the trials, of which there may be a million.
[[nodiscard]] Result<std::string> source_of(
    const Session& session, Reader& reader, const Selection& selection);

// Series over time as a command prints or draws them.

/// Prints a history by --format and --output. `points`: a row for each measurement; `shape` makes
/// the printed table anew, nullptr leaves it.
[[nodiscard]] Result<ExitCode> show_history(const Session& session, const Options& options,
    const History& history, bool points, Table (*shape)(const Table&) = nullptr);

}  // namespace shardsweep
