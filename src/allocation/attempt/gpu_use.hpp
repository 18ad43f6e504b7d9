// SPDX-License-Identifier: Apache-2.0
// Who uses a node's GPUs while nothing of ours runs there? Pure.
//
// Two different troubles: memory that nobody is seen to hold has not come back from a process
// that has ended (its driver context is stuck, or it goes on where we can't see it), and
// nothing fits where it should. A process of somebody else's takes time from a measurement.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct GpuHolder {
  std::int64_t pid = 0;
  std::optional<std::int64_t> bytes{};  ///< empty: not told
  std::string cmdline{};                ///< empty: no such process is seen here
  friend bool operator==(const GpuHolder&, const GpuHolder&) = default;
};
struct GpuUse {
  int gpu = 0;
  std::int64_t used_bytes = 0;
  std::vector<GpuHolder> holders{};
};

/// One line each; empty: nothing.
struct GpuFindings {
  std::string held;    ///< memory that does not come back
  std::string others;  ///< foreign processes that compute there
};

class GpuBaseline {
 public:
  /// Judges the use of GPUs between attempts, when nothing of ours runs on them. A GPU's baseline
  /// is the least that was ever seen in use, and `slack_bytes` at most: a node may have been unwell
  /// from the beginning. Memory is held where more than baseline + slack is in use that no process
  /// which is seen here holds. Somebody else's process counts from 64 MiB on: what watches GPUs
  /// holds less, a compute context more.
  [[nodiscard]] GpuFindings judge(const std::vector<GpuUse>& seen, std::int64_t slack_bytes);

 private:
  std::map<int, std::int64_t> least_bytes_;  ///< smallest unexplained memory of each GPU
};

/// Names of models that differ in nothing but case: drivers have changed that.
[[nodiscard]] bool same_gpu(std::string_view a, std::string_view b);

}  // namespace shardsweep
