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
  undecided,  ///< none of these is sure: see Open
};
template <>
inline constexpr std::array<std::string_view, 4> word_table<Difference>{
    "FASTER", "SLOWER", "SAME", "UNDECIDED"};

/// Why a verdict is UNDECIDED.
enum class Open : std::uint8_t {
  nothing,          ///< it is not
  too_little_data,  ///< one of the two ran once, or the noise is not known
  overlapping,      ///< their intervals overlap
  clocks,           ///< faster by its clock alone
  load,             ///< others used the CPUs in one of the two
  mixed_state,      ///< network, machine or sets of nodes were not the same
};
template <>
inline constexpr std::array<std::string_view, 6> word_table<Open>{
    "", "too little data", "overlapping", "clocks", "load", "mixed state"};

}  // namespace shardsweep
