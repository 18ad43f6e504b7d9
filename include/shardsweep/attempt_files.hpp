// SPDX-License-Identifier: Apache-2.0
// The files of an attempt, one by one, from its folder while it runs and from its pack after it
// has ended. Nothing is read whole: a log may be larger than memory.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

struct AttemptFile {
  std::string name;            ///< name within the folder: "rank.0.out", "evidence/n1.json"
  std::filesystem::path path;  ///< the file itself, or the pack that holds it
  std::uint64_t offset = 0;    ///< offset of its beginning in `path`
  std::uint64_t size = 0;      ///< size when it was listed
  bool packed = false;         ///< packed: it no longer grows
};

/// Sorted by name, with numbers by their value; empty if there is neither folder nor pack.
[[nodiscard]] Result<std::vector<AttemptFile>> list_attempt_files(const AttemptPaths& attempt);

/// Files that tools of a side run have written (AttemptPaths::kept); empty: none, or none can be
/// read.
[[nodiscard]] std::vector<AttemptFile> kept_files_of(const AttemptPaths& attempt);

/// "rank.12.out" is 12; nothing for another name.
[[nodiscard]] std::optional<int> rank_of_log(const std::string& name);

/// Keeps the file open: what is read is whole, also when the folder is packed meanwhile.
class AttemptFileReader {
 public:
  [[nodiscard]] static Result<AttemptFileReader> open(const AttemptFile& file);
  AttemptFileReader(AttemptFileReader&& other) noexcept;
  AttemptFileReader& operator=(AttemptFileReader&& other) noexcept;
  AttemptFileReader(const AttemptFileReader&) = delete;
  AttemptFileReader& operator=(const AttemptFileReader&) = delete;
  ~AttemptFileReader();

  /// Current size.
  [[nodiscard]] Result<std::uint64_t> size() const;
  /// Reads up to `limit` bytes from `from` on; empty at its end.
  [[nodiscard]] Result<std::string> read(std::uint64_t from, std::size_t limit) const;

 private:
  AttemptFileReader(int descriptor, const AttemptFile& file)
      : descriptor_(descriptor), file_(file) {}
  int descriptor_;
  AttemptFile file_;
};

/// Offset at which the last `lines` lines begin. Reads from the end, block by block.
[[nodiscard]] Result<std::uint64_t> begin_of_last_lines(
    const AttemptFileReader& file, std::uint64_t lines);

}  // namespace shardsweep
