// SPDX-License-Identifier: Apache-2.0
// What a rename or a new file needs besides to outlive a power cut, and a file that has no name
// of its own yet.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/result.hpp>

#include <filesystem>

namespace shardsweep {

/// Makes a name durable: fsync of the folder that holds it.
[[nodiscard]] Result<void> sync_folder_of(const std::filesystem::path& path);

/// A pack while it is written; it gets its name when it is durable.
[[nodiscard]] inline std::filesystem::path unfinished_pack(const AttemptPaths& attempt) {
  return attempt.pack().string() + ".new";
}

}  // namespace shardsweep
