// SPDX-License-Identifier: Apache-2.0
// Sizes of what runs have left on the disk, for `gc` and `status --wide`.
#pragma once

#include <shardsweep/home.hpp>
#include <shardsweep/rows.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

namespace shardsweep {

struct DiskUse {
  std::int64_t entries = 0;  ///< files and folders that lie in attempts/ itself
  std::uintmax_t bytes = 0;
};

/// Size of a file, or of all files below a folder.
[[nodiscard]] std::uintmax_t size_of(const std::filesystem::path& path);

/// Use by each sweep: names in attempts/ begin with the id of theirs. None: the folder can't be
/// read, as a colleague's.
[[nodiscard]] std::optional<std::map<SweepId, DiskUse>> disk_use(const Home& home);

}  // namespace shardsweep
