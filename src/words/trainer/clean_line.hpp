// SPDX-License-Identifier: Apache-2.0
// A line of a rank's output without what terminals and launchers add to it.
#pragma once

#include <string>
#include <string_view>

namespace shardsweep {

/// Bytes of a line that are read. Longer ones are cut: an output without newlines is no log.
inline constexpr std::size_t longest_log_line = std::size_t{16} * 1024;

/// Without colours (ESC [ … letter), carriage returns, and the rank that torchrun
/// (`[default0]:`, `[rank0]:`) or srun (`0: `) puts in front.
[[nodiscard]] std::string clean_line(std::string_view line);

}  // namespace shardsweep
