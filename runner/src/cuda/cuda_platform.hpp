// SPDX-License-Identifier: Apache-2.0
// A GPU as a platform: NCCL between GPUs, or staged over the host's memory and sockets, so that
// several ranks can share one GPU.
#pragma once

#include "device/platform.hpp"

namespace shardbench {

PlatformKind cuda_platform();

}  // namespace shardbench
