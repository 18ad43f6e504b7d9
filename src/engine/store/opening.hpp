// SPDX-License-Identifier: Apache-2.0
// Opening a database that somebody else may be writing.
#pragma once

#include "store/sqlite.hpp"

#include <filesystem>

namespace shardsweep::sqlite {

/// A commit takes milliseconds; a checkpoint on a slow disk may take seconds.
inline constexpr int read_wait_ms = 5000;

/// A connection that refuses every write. On a local file system it repairs what a killed
/// writer has left, where this user may write. On others it repairs only what has stood still
/// for a minute: there a lock of another host may not be seen. Where this user may not write,
/// it reads what is there.
[[nodiscard]] Database open_for_reading(const std::filesystem::path& file);

}  // namespace shardsweep::sqlite
