// SPDX-License-Identifier: Apache-2.0
// --emit and --from-args of `best` and `plan`: a layout in a trainer's own words, to paste; a
// present configuration among the layouts that are known.
#pragma once

#include "cli/session.hpp"

#include <string>
#include <vector>

namespace shardsweep {

/// What --emit takes: trainers and sbatch.
[[nodiscard]] std::vector<std::string> emit_words();

/// The best layout of each cell of the named sweeps, and the named trials.
[[nodiscard]] Result<ExitCode> emit_best(const Session& session);
/// The points that --point names.
[[nodiscard]] Result<ExitCode> emit_plan(const Session& session, const Planned& planned);

/// Where a present configuration ranks by what was measured, or by what is predicted.
[[nodiscard]] Result<ExitCode> rank_among_results(const Session& session);
[[nodiscard]] Result<ExitCode> rank_in_plan(const Session& session, const Planned& planned);

}  // namespace shardsweep
