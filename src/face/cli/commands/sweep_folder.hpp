// SPDX-License-Identifier: Apache-2.0
// Sweeps as a folder of JSON lines that is kept in git: NAME.jsonl with what was measured and
// NAME.yaml with the sweep file of each, and the baselines.
#pragma once

#include "show/exit_code.hpp"
#include "show/format.hpp"

#include <shardsweep/requests.hpp>
#include <shardsweep/result.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace shardsweep {

struct Session;

/// A name without an ending, or a folder that is there.
[[nodiscard]] bool is_sweep_folder(const std::filesystem::path& path);

/// Writes the named sweeps into the folder Options::file, or all that have a result.
[[nodiscard]] Result<ExitCode> export_folder(const Session& session);
/// Out of Options::file, all of it or nothing; `name`: of the sweep, if there is one alone.
[[nodiscard]] Result<ExitCode> import_folder(const Session& session, const std::string& name);

/// "'theirs': 3 trials, 3 new, 0 known, 0 no longer in the table"
[[nodiscard]] std::string import_text(
    const std::string& name, const Answer& answer, Format format, std::string_view source);

}  // namespace shardsweep
