// SPDX-License-Identifier: Apache-2.0
// Words of loggers, launchers, shells and containers in a line, whatever the program: its level,
// and the signal that ended a process.
#pragma once

#include "causes/causes.hpp"

#include <optional>
#include <string_view>

namespace shardsweep {

/// True for a warning, and for the source of one of Python's, which stands below it.
[[nodiscard]] bool is_warning(std::string_view line);

/// "E1102 03:12:44", "[E socket.cpp:7]", "2024-07-29 17:14:59.920189: E a.cc:38]": an error as glog
/// and TensorFlow print it.
[[nodiscard]] bool is_error_of_glog(std::string_view line);

/// True if ERROR, CRITICAL or FATAL stands alone in the line, in capitals, or if glog's level is E.
[[nodiscard]] bool is_error(std::string_view line);

/// True if a logger names the level INFO before any other one, an option and what is quoted.
[[nodiscard]] bool is_information(std::string_view line);

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
