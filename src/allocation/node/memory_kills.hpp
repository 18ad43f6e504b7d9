// SPDX-License-Identifier: Apache-2.0
// Whether the kernel killed something because memory ran out where we are: it sends SIGKILL like
// anybody else, but counts what it kills in the control group of the job or step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shardsweep {

/// The file with the count for the process whose /proc/PID/cgroup this is, below `root`
/// (/sys/fs/cgroup); empty if there is none.
[[nodiscard]] std::filesystem::path memory_kills_file(
    std::string_view cgroups, const std::filesystem::path& root);
/// Reads the count from the text of that file.
[[nodiscard]] std::optional<std::int64_t> memory_kills_in(std::string_view text);

/// Count so far in this process's own control group; empty if nothing counts.
[[nodiscard]] std::optional<std::int64_t> memory_kills();

}  // namespace shardsweep
