// SPDX-License-Identifier: Apache-2.0
// The verdicts of the whole program: how one layout, or one side of a comparison, stands to
// another. The words stand in files of users and are never renamed.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

enum class Difference : std::uint8_t {
  faster,     ///< the whole interval of the change is above zero
  slower,     ///< the whole interval is below zero
  same,       ///< the whole interval is too small to matter
  undecided,  ///< undecided: see Open
};
SHARDSWEEP_WORDS(Difference, "FASTER", "SLOWER", "SAME", "UNDECIDED");

/// Why a verdict is UNDECIDED.
enum class Open : std::uint8_t {
  nothing,          ///< decided
  too_little_data,  ///< too few runs of one of the two, or unknown noise
  overlapping,      ///< overlapping intervals
  clocks,           ///< faster by its clock alone
  load,             ///< other users' programs used the CPUs in one of the two
  mixed_state,      ///< network, machine or sets of nodes were not the same
};
SHARDSWEEP_WORDS(Open, "", "too little data", "overlapping", "clocks", "load", "mixed state");

}  // namespace shardsweep
