// SPDX-License-Identifier: Apache-2.0
// --emit and --from-args of `best` and `plan`: a layout in a trainer's own words, to paste; a
// present configuration among the layouts that are known.
#pragma once

#include "cli/session.hpp"
#include "predict/family.hpp"
#include "trainer/point_words.hpp"

#include <shardsweep/described.hpp>
#include <shardsweep/point.hpp>
#include <shardsweep/sweep.hpp>

#include <string>
#include <string_view>

namespace shardsweep {

class Grammar;

/// A configuration without line ends and the blanks that begin its lines.
[[nodiscard]] std::string on_one_line(std::string_view configuration);

/// Reads a trainer's file of the user, which is known by its name from then on; other names are
/// those of trainers that are built in.
[[nodiscard]] Result<void> know_trainer(const std::string& name);

/// Family that --family names: one that is built in, or that of a trainer's file of the user.
[[nodiscard]] Result<const Family*> asked_family(const std::string& name);

/// --emit, --from-args, --for and --gpus.
void declare_emit(Grammar& grammar);
/// Points of a plan, by an option or argument of this name.
void declare_point(Grammar& grammar, const char* name, const std::string& begin);

/// The best layout of each cell of the named sweeps, and the named trials.
[[nodiscard]] Result<ExitCode> emit_best(const Session& session);
/// The points that --point names.
[[nodiscard]] Result<ExitCode> emit_plan(const Session& session, const PlannedSweep& planned);

/// Ranks a present configuration: among what was measured, or by what is predicted.
[[nodiscard]] Result<ExitCode> rank_among_results(const Session& session);
[[nodiscard]] Result<ExitCode> rank_in_plan(const Session& session, const PlannedSweep& planned);

/// A var of a trial: a row of Listing::vars_of_trial.
struct TrialVar {
  std::string name;
  std::string value;
};
SHARDSWEEP_DESCRIBE(TrialVar, name, value);

/// Label of a layout (sweep/layout_text.hpp). Words of a trainer that are none of ours stand as
/// they are.
[[nodiscard]] std::string layout_text(const TrainerLayout& layout);

}  // namespace shardsweep
