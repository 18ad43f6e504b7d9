// SPDX-License-Identifier: Apache-2.0
// Sweeps that are held apart: each has stopped daemons twice at one place. Their leads' lines
// wait, nothing of them is decided, and the others go on. `resume` is one more try. Pure: it
// follows from the events `stopped` and `resume` in their order, so that each daemon says the
// same.
#pragma once

#include <shardsweep/store.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// The detail of an event `stopped`: "engine/fleet/fold.cpp:12: what must hold (see FILE)".
[[nodiscard]] std::string stop_text(
    std::string_view place, std::string_view what, std::string_view file);

/// Why each is held apart, as the event of its pause says it.
[[nodiscard]] std::map<SweepId, std::string> held_apart(const std::vector<StopEvent>& events);

}  // namespace shardsweep
