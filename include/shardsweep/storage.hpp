// SPDX-License-Identifier: Apache-2.0
// Port: can a folder take what is written into it?
#pragma once

#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace shardsweep {

enum class StorageProblem : std::uint8_t { full, read_only, denied, gone, broken };

struct StorageFault {
  StorageProblem problem = StorageProblem::broken;
  std::string detail;  ///< the system's own words
  friend bool operator==(const StorageFault&, const StorageFault&) = default;
};

/// Storage problem that an errno means; none: something else is wrong.
[[nodiscard]] std::optional<StorageProblem> storage_problem(int error);

/// True if only this host's processes use the file system that holds `file`: they see each other's
/// writes at once, and can share memory.
[[nodiscard]] bool is_local_file_system(const std::filesystem::path& file);

/// Looks for a file of this name. NFS believes for up to a minute that a name is missing which
/// another host has made since; opening the folder asks the server anew. A fault: nobody can say,
/// because the file system answers with an error (EIO, ESTALE).
[[nodiscard]] Result<bool> look_for(const std::filesystem::path& file);
/// Looks for a file; for callers that ask again anyway. False also if the file system can't say.
[[nodiscard]] bool is_there(const std::filesystem::path& file);

/// Writes nothing: asks the file system. It does not know quotas.
[[nodiscard]] std::optional<StorageFault> look_at_storage(const std::filesystem::path& folder);
/// "only 4.1 % of the space is left (3.2 GiB)": less than a tenth, and so little that a sweep may
/// use it up. None: there is more, or nobody can say. It does not know quotas.
struct FreeSpace {
  std::uint64_t free = 0;
  std::uint64_t all = 0;  ///< 0: not counted
};
[[nodiscard]] std::optional<std::string> little_left(FreeSpace bytes, FreeSpace files);
[[nodiscard]] std::optional<std::string> little_left(const std::filesystem::path& folder);
/// Writes a small file and removes it.
[[nodiscard]] std::optional<StorageFault> try_storage(const std::filesystem::path& folder);

/// "the disk of /home/x is full (Disk quota exceeded)".
[[nodiscard]] std::string describe(const StorageFault& fault, const std::filesystem::path& folder);

}  // namespace shardsweep
