// SPDX-License-Identifier: Apache-2.0
// How one layout, or one side of a comparison, stands to another.
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
  undecided,  ///< the interval is too wide, or not known
};
template <>
inline constexpr std::array<std::string_view, 4> word_table<Difference>{"FASTER", "SLOWER",
                                                                        "SAME", "UNDECIDED"};

}  // namespace shardsweep
