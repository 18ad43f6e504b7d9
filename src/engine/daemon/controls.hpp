// SPDX-License-Identifier: Apache-2.0
// Where the attempts of controls lie.
#pragma once

#include "fleet/control.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/home.hpp>

#include <fmt/format.h>

#include <string>

namespace shardsweep {

[[nodiscard]] inline AttemptPaths control_paths(
    const Home& home, const AllocationRow& allocation, ControlTime time) {
  return {home.attempts() / fmt::format("control.{}.{}", allocation.token, word_of(time))};
}

[[nodiscard]] inline std::string control_nonce(const AllocationRow& allocation, ControlTime time) {
  return fmt::format("{}-control-{}", allocation.token, word_of(time));
}

}  // namespace shardsweep
