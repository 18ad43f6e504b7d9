// SPDX-License-Identifier: Apache-2.0
// Port: what a program's file holds, as a hash.
#pragma once

#include <shardsweep/result.hpp>

#include <filesystem>
#include <string>

namespace shardsweep {

/// 32 hex digits (text/content_hash). Of a file of more than 64 MiB its size, its first and its
/// last MiB count: it is asked for at each start.
[[nodiscard]] Result<std::string> file_hash(const std::filesystem::path& file);

}  // namespace shardsweep
