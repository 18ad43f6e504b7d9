// SPDX-License-Identifier: Apache-2.0
// Environment variables of the ranks that the number of a trial depends on, wherever they come
// from: a file of the user's, a shell, a module, an image.
#pragma once

#include <string_view>

namespace shardsweep {

/// Settings of the allocator, of CUDA's queues and of NCCL. What NCCL writes about itself
/// changes no number, and a retry asks for it.
[[nodiscard]] constexpr bool is_setting(std::string_view name) {
  if (name == "CUDA_DEVICE_MAX_CONNECTIONS") return true;
  if (name.starts_with("NCCL_")) return !name.starts_with("NCCL_DEBUG");
  return name.starts_with("PYTORCH_") && name.ends_with("ALLOC_CONF");
}

}  // namespace shardsweep
