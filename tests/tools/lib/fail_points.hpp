// SPDX-License-Identifier: Apache-2.0
// Fail points of include/shardsweep/fail_point.hpp, for tests in C++; fail_points.bash has them
// for scripts.
#pragma once

#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace shardsweep::test {

class FailPoints {
 public:
  /// `folder` is made with the first variable.
  explicit FailPoints(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// For a process that has not been at any point yet: NAME[:n]:ACTION[,…].
  void arm(const std::string& points) const {
    std::filesystem::create_directories(folder_);
    ::setenv("SHARDSWEEP_FAIL_AT", points.c_str(), 1);
    ::setenv("SHARDSWEEP_FAIL_DIR", folder_.c_str(), 1);
  }
  /// Of the process that acts there, or has acted; 0: none yet.
  [[nodiscard]] pid_t at(const std::string& name) const {
    pid_t pid = 0;
    std::ifstream(folder_ / name) >> pid;
    return pid;
  }
  /// Ends the waiting of wait-for-file.
  void go_on(const std::string& name) const { std::ofstream(folder_ / (name + ".go")).put('\n'); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace shardsweep::test
