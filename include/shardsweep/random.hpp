// SPDX-License-Identifier: Apache-2.0
// Port: unpredictable names (tokens, nonces) from the kernel.
#pragma once

#include <string>

namespace shardsweep {

/// `digits` lower-case hex digits.
[[nodiscard]] std::string random_hex(int digits);

}  // namespace shardsweep
