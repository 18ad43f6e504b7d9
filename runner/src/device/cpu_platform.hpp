// SPDX-License-Identifier: Apache-2.0
// The CPU as a platform: sockets between ranks.
#pragma once

#include "device/platform.hpp"

namespace shardbench {

PlatformKind cpu_platform();

}  // namespace shardbench
