// SPDX-License-Identifier: Apache-2.0
// Level of a line of output, as loggers print it.
#pragma once

#include <string_view>

namespace shardsweep {

/// True for a warning, and for the source of one of Python's, which stands below it.
[[nodiscard]] bool is_warning(std::string_view line);

/// "E1102 03:12:44", "[E socket.cpp:7]": an error as glog prints it.
[[nodiscard]] bool is_error_of_glog(std::string_view line);

/// True if ERROR, CRITICAL or FATAL stands alone in the line, in capitals, or if glog's level is E.
[[nodiscard]] bool is_error(std::string_view line);

/// True if a logger names the level INFO before any other one, an option and what is quoted.
[[nodiscard]] bool is_information(std::string_view line);

/// "2026-11-30 04:58:43,031 ERROR trainer: …": a logger, which may print a traceback below it.
[[nodiscard]] bool is_of_logger(std::string_view line);

}  // namespace shardsweep
