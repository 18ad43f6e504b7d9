// SPDX-License-Identifier: Apache-2.0
// The name of this machine, and a free port of it.
#pragma once

#include <shardsweep/result.hpp>

#include <string>

namespace shardsweep {

[[nodiscard]] std::string host_name();

/// A TCP port of this host that was free a moment ago. Faults (unavailable): there is none.
[[nodiscard]] Result<int> free_port();

}  // namespace shardsweep
