// SPDX-License-Identifier: Apache-2.0
// Next steps with a sweep, as command lines: for `shardsweep` alone and after the
// first `run`.
#pragma once

#include "cli/session.hpp"

#include <shardsweep/results.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

struct NextStepsForm {
  std::optional<std::size_t> width{};  ///< columns of the terminal; none: lines are not folded
  bool only_reading = false;           ///< the database is a copy, and refuses other commands
};

/// The sweep that somebody most likely thinks of: one that runs, else the one submitted last.
/// `sweeps`: one at least.
[[nodiscard]] const SweepStatus& sweep_to_go_on_with(const std::vector<SweepStatus>& sweeps);

[[nodiscard]] std::string next_steps(const SweepStatus& sweep, const NextStepsForm& form);

/// Steps of somebody who has no sweep.
[[nodiscard]] std::string first_steps(const Session& session, const NextStepsForm& form);

}  // namespace shardsweep
