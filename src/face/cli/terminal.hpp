// SPDX-License-Identifier: Apache-2.0
// The terminal behind a file descriptor.
#pragma once

#include "show/terminal.hpp"

namespace shardsweep {

/// Of an open file descriptor, by its device, the environment and the locale's character set.
[[nodiscard]] Terminal terminal_of(int descriptor);

}  // namespace shardsweep
