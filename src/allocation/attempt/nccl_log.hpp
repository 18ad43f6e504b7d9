// SPDX-License-Identifier: Apache-2.0
// What NCCL complains of in the log that it is asked for when a comm_error is tried again.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// First `most` lines of a rank's NCCL log (NCCL_DEBUG=INFO) that warn or tell of an error. Each
/// loses host, process, thread and device in front, and has at most 300 bytes. A line that repeats
/// another is left out.
[[nodiscard]] std::vector<std::string> nccl_complaints(std::string_view log, std::size_t most);

}  // namespace shardsweep
