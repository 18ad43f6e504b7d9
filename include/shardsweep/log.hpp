// SPDX-License-Identifier: Apache-2.0
// Port: the log of a long-running program. Each line has a time and a level.
#pragma once

#include <string_view>

namespace shardsweep {

void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

/// Limits the log of a command that does a daemon's work: its answer says what has happened.
void log_warnings_alone();

}  // namespace shardsweep
