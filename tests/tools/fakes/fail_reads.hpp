// SPDX-License-Identifier: Apache-2.0
// For a while files below some folders can't be read, as on a network file system whose server
// has been restarted: names and contents. Linked with a test, it stands in for calls of libc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// From now on: each open for reading, stat and pread of what is below `folders` fails so. Not
/// 0: of every other file, and which ones it says; stale handles are some files' alone.
void fail_reads(int error, std::vector<std::string> folders, std::size_t some_files);
void let_reads_pass();
/// Calls that have failed, of all times.
[[nodiscard]] long reads_failed();

}  // namespace shardsweep::testing
