// SPDX-License-Identifier: Apache-2.0
// Files of any length, read within bounds: the beginning and the end of a long one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace shardsweep {

struct FileEnds {
  std::string text{};
  std::size_t left_out = 0;  ///< bytes between its beginning and its end
};

/// At most `limit` bytes of a file, a quarter of them from its beginning, the rest from its
/// end; empty if it is no file or can't be read. A line that the gap cuts is left out.
[[nodiscard]] FileEnds file_ends(const std::filesystem::path& path, std::size_t limit);

}  // namespace shardsweep
