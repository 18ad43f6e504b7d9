// SPDX-License-Identifier: Apache-2.0
// Pages that commands write into files and `ui` serves: each by the command's own renderer, of the
// sweeps that Options::names has, with the command's defaults.
#pragma once

#include "cli/session.hpp"
#include "show/styled_text.hpp"

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

}  // namespace shardsweep
