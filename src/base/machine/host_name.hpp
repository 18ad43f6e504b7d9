// SPDX-License-Identifier: Apache-2.0
// What this machine calls itself.
#pragma once

#include <string>

namespace shardsweep {

[[nodiscard]] std::string host_name();

}  // namespace shardsweep
