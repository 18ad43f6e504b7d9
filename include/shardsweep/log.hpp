// SPDX-License-Identifier: Apache-2.0
// Port: what a long-running program says about itself, one line each with time and level.
#pragma once

#include <string_view>

namespace shardsweep {

void log_info(std::string_view text);
void log_warning(std::string_view text);
void log_error(std::string_view text);

}  // namespace shardsweep
