// SPDX-License-Identifier: Apache-2.0
// A file that has no name of its own yet.
#pragma once

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/result.hpp>

#include <filesystem>

namespace shardsweep {

/// A pack while it is written; it gets its name when it is durable.
[[nodiscard]] inline std::filesystem::path unfinished_pack(const AttemptPaths& attempt) {
  return attempt.pack().string() + ".new";
}

}  // namespace shardsweep
