// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardsweep/result.hpp>

namespace shardsweep {

/// A TCP port of this host that was free a moment ago. Faults (unavailable): there is none.
[[nodiscard]] Result<int> free_port();

}  // namespace shardsweep
