// SPDX-License-Identifier: Apache-2.0
// How rows move from state to state: one table each. What a table does not allow is a defect,
// whoever asks for it; fleet and store hold each change of a row to it.
#pragma once

#include <shardsweep/rows.hpp>

#include <array>
#include <cstddef>

namespace shardsweep {

/// Allowed moves: [row][column] is from, to, both in the order of the enumeration.
template <std::size_t count>
using Moves = std::array<std::array<bool, count>, count>;

// Columns: planned, queued, running, ended.
inline constexpr Moves<4> trial_moves{{
    {true, true, false, true},   // planned: assigned, or it ends without a run
    {true, true, true, true},    // queued: given back, started
    {true, false, true, true},   // running: tried again
    {true, false, false, true},  // ended: asked for once more
}};
inline constexpr Moves<4> attempt_moves{{
    {false, false, false, false},  // planned: no attempt is
    {false, true, true, true}, {false, false, true, true},
    {false, false, false, true},  // an end is the end
}};
inline constexpr Moves<4> allocation_moves{{
    {false, false, false, false},  // planned: no allocation is
    {false, true, true, true},     // queued: until its lead has claimed it
    {false, false, true, true}, {false, false, false, true},  // closed is closed
}};
// Columns: active, paused, cancelled.
inline constexpr Moves<3> sweep_moves{{
    {true, true, true}, {true, true, true},
    {true, false, true},  // cancelled: `resume` alone brings it back
}};

template <std::size_t count, class State>
[[nodiscard]] constexpr bool may_move(const Moves<count>& moves, State from, State to) {
  return moves[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
}

}  // namespace shardsweep
