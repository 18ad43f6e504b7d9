// SPDX-License-Identifier: Apache-2.0
// For a while nothing can be read below some folders, as on a network file system whose server
// has been restarted: names and contents. Linked with a test, it stands in for calls of libc.
#pragma once

#include <string>
#include <vector>

namespace shardsweep::testing {

/// From now on: each open for reading, stat and pread of what is below `folders` fails so.
void fail_reads(int error, std::vector<std::string> folders);
void let_reads_pass();
/// Calls that have failed, of all times.
[[nodiscard]] long reads_failed();

}  // namespace shardsweep::testing
