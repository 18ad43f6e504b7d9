// SPDX-License-Identifier: Apache-2.0
// Port: removing what runs have left. A run may lock its own folders (mode 000): as long as
// they are ours, they are opened first.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/result.hpp>

#include <filesystem>

namespace shardsweep {

/// Lets the owner read files and enter, read and change folders at and below `path`, which must be
/// a folder. Follows no links; files of other users stay unchanged.
void open_to_owner(const std::filesystem::path& path);

/// Removes a file, a link, or a folder with all that is below it. The fault names `path` and
/// why something of it is left. No fault if it was not there.
[[nodiscard]] Result<void> remove_tree(const std::filesystem::path& path);

/// An attempt's folder, its pack, and a pack that was not finished.
[[nodiscard]] Result<void> remove_attempt(const AttemptPaths& attempt);

}  // namespace shardsweep
