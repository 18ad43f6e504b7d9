// SPDX-License-Identifier: Apache-2.0
// A sweep of the database as predictions learn from it: its file, and what its trials have
// shown.
#pragma once

#include "cli/session.hpp"
#include "plan/learnt.hpp"
#include "search/extrapolation.hpp"

#include <shardsweep/result.hpp>
#include <shardsweep/sweep.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace shardsweep {

/// The sweep as it was submitted, and what its trials have shown.
struct KnownRuns {
  std::string text;
  SweepSpec spec;
  std::vector<Experience> runs;
};

/// Faults: no such sweep; invalid_input: an imported table, or nothing was measured yet.
[[nodiscard]] Result<KnownRuns> known_runs(const Session& session, const std::string& name);

/// The medians of what each layout of a sweep has shown, with the sweep's own cluster: if that
/// is a file which `calibrate` has written, with its rates. At most so many layouts: the
/// fastest. Faults as known_runs().
[[nodiscard]] Result<Knowledge> knowledge_of(const Session& session, const std::string& name,
                                             std::size_t most);

}  // namespace shardsweep
