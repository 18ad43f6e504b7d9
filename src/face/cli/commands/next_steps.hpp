// SPDX-License-Identifier: Apache-2.0
// What somebody does next with a sweep: as command lines, for `shardsweep` alone and after the
// first `run`.
#pragma once

#include <shardsweep/results.hpp>

#include <string>

namespace shardsweep {

[[nodiscard]] std::string next_steps(const SweepStatus& sweep);

}  // namespace shardsweep
