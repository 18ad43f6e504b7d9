// SPDX-License-Identifier: Apache-2.0
// Why a command over results has nothing to show.
#pragma once

#include "cli/session.hpp"

#include <string>

namespace shardsweep {

/// One sentence: nothing is there, nothing matches `--where`, or nothing was measured.
[[nodiscard]] Result<std::string> why_empty(Reader& reader, const Options& options);

/// The same on standard error.
[[nodiscard]] Result<void> say_why_empty(Reader& reader, const Options& options);

}  // namespace shardsweep
