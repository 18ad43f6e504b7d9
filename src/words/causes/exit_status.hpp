// SPDX-License-Identifier: Apache-2.0
// Exit codes as launchers, shells and containers tell them, in whatever words.
#pragma once

#include "causes/causes.hpp"

#include <optional>
#include <string_view>

namespace shardsweep {

/// Signal that ended a process, and where the line tells it.
struct EndingSignal {
  int signal;
  Match where;
};

/// "exitcode  : -9", "exited with code 137", "exit status 247", "exited on signal 9": Python tells
/// a signal by a negative code, which as an exit code is 256 less it; shells and containers add
/// 128.
[[nodiscard]] std::optional<EndingSignal> ending_signal_in(std::string_view line);

}  // namespace shardsweep
