// SPDX-License-Identifier: Apache-2.0
// What killed processes leave in /dev/shm: memory of the node that nobody gives back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardsweep {

struct SharedFile {
  std::string name;
  std::int64_t bytes = 0;
};

/// Removes segments of NCCL that have lost their processes, and tells which they were: files
/// nccl-* of this user that nobody else may open (mode 0600) and that no process of this user
/// maps or has open. NCCL needs a segment's name only until all of its processes have mapped
/// it, so such a file is of no use to anybody. Where a process of this user can't be looked at
/// (an sshd, say), only those that were made more than a minute ago are removed: by then a name
/// has served. Files of other names are somebody's, whoever made them.
[[nodiscard]] std::vector<SharedFile> remove_abandoned_segments(
    const std::filesystem::path& folder = "/dev/shm");

}  // namespace shardsweep
