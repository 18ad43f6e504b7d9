// SPDX-License-Identifier: Apache-2.0
// Port: an end for a call of a library that asks nobody whether it may go on.
#pragma once

#include <chrono>
#include <string>

namespace shardsweep {

/// If it lives longer than `limit`, the process writes `words` and a line end to stderr and
/// ends at once with `exit_code`, without destructors: for programs that only read. One at a
/// time.
class Overtime {
 public:
  Overtime(std::chrono::seconds limit, const std::string& words, int exit_code);
  Overtime(const Overtime&) = delete;
  Overtime& operator=(const Overtime&) = delete;
  ~Overtime();
};

}  // namespace shardsweep
