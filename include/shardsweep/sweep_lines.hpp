// SPDX-License-Identifier: Apache-2.0
// A sweep and what was measured of it as JSON lines that git diffs well: `export FOLDER` writes
// them, `import FOLDER` reads them. A line says what the sweep is, then one each trial, with
// its attempts and measurements, and one each point that was left out. Each line ends with the
// check of its own text, so that a number that was edited, or half a line, is refused.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/result.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace shardsweep {

struct SweepLines {
  std::string name;
  std::string lines;
  /// The complete sweep file, without secrets; empty: it is an imported table.
  std::string file;
  std::int64_t trials = 0;
  std::int64_t open = 0;  ///< trials without an outcome: they are in no line
};

/// Limit of one import, over all sweeps: some 200,000 trials.
inline constexpr std::size_t most_bytes_of_lines = 256 << 20;

/// Lines as they were read.
struct LinesToImport {
  std::string name;   ///< name of the sweep; empty: the one in the lines
  std::string lines;  ///< lines of `where`
  std::string where;  ///< name for messages, and the origin of the trials
  std::string file;   ///< the sweep file beside it; empty: there is none
};

struct ImportedLines {
  std::string name;
  std::int64_t trials = 0;
  Timestamp last = 0;  ///< end of the last attempt; 0: not known
};
/// Fills `inbox` (new) for Store::accept_inbox. Foreign, edited or torn lines are a fault that
/// names the place and the reason.
[[nodiscard]] Result<ImportedLines> write_inbox_of_lines(
    const std::filesystem::path& inbox, const LinesToImport& from);
/// Refuses an inbox, or a folder of them, that a database would not take.
[[nodiscard]] Result<void> try_inbox(const std::filesystem::path& inbox);
/// Refuses lines that contradict the same sweep in a database, `known`. A trial that a later sweep
/// file lacks, or predicts otherwise, is no contradiction.
[[nodiscard]] Result<void> refuse_other_lines(const LinesToImport& from, const SweepLines& known);

}  // namespace shardsweep
