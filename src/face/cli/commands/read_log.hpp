// SPDX-License-Identifier: Apache-2.0
// Lines of a log that may be longer than memory.
#pragma once

#include <shardsweep/result.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace shardsweep {

/// Calls `take` with each whole line of a log. Of one above 64 MiB the beginning and the end are
/// read, and a sentence says so. Faults: invalid_input for a file that can't be read.
[[nodiscard]] Result<void> each_log_line(
    const std::string& file, const std::function<void(std::string_view)>& take);

}  // namespace shardsweep
