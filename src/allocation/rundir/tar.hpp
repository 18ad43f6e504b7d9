// SPDX-License-Identifier: Apache-2.0
// A tar file of regular files, written and read: ustar headers, GNU's long-name entries.
#pragma once

#include "machine/descriptor.hpp"

#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

class TarWriter {
 public:
  /// Writes to an open file; whoever opened it closes it.
  explicit TarWriter(int descriptor) : descriptor_(descriptor) {}

  /// Adds the file `source` as `name`. Where it is longer than `keep_bytes`, its first and last
  /// keep_bytes / 2 with a line in between that says how much is left out.
  [[nodiscard]] Result<void> add_file(
      const std::filesystem::path& source, const std::string& name, std::uint64_t keep_bytes);
  [[nodiscard]] Result<void> finish();

 private:
  [[nodiscard]] Result<void> begin_entry(
      const std::string& name, std::uint64_t size, std::int64_t mtime);
  [[nodiscard]] Result<void> copy(
      int source, std::uint64_t from, std::uint64_t size, const std::filesystem::path& path);
  [[nodiscard]] Result<void> pad(std::uint64_t size);
  [[nodiscard]] Result<void> write(std::string_view bytes);

  int descriptor_;
};

struct TarEntry {
  std::string name;
  std::uint64_t offset = 0;  ///< offset of its first byte in the tar file
  std::uint64_t size = 0;
};
/// The regular files of a tar file, without a look into them.
[[nodiscard]] Result<std::vector<TarEntry>> list_tar(const std::filesystem::path& path);

/// Calls `wanted` with the name of each entry, `take` with the contents of those it wanted.
[[nodiscard]] Result<void> read_tar(const std::filesystem::path& path,
    const std::function<bool(const std::string&)>& wanted,
    const std::function<void(const std::string&, std::string&&)>& take);

}  // namespace shardsweep
