// SPDX-License-Identifier: Apache-2.0
// The verdict page of `selftest`: trials of known outcome, held to it.
#pragma once

#include <shardsweep/results.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

/// A trial of the self test, as the database has it.
struct SelfTestTrial {
  std::string slug;
  std::string layout;
  std::string fault;    ///< fault that it had to make; "none": a healthy trial
  std::string outcome;  ///< empty: not ended
  std::string cause;
  std::int32_t ranks = 1;
  std::int64_t leaked = 0;
  double loss = 0;                     ///< loss after seven train steps; 0: not known
  std::int64_t peak_memory_bytes = 0;  ///< 0: not known, as the next one
  std::int64_t predicted_memory_bytes = 0;
  double bus_bandwidth = 0;  ///< bytes per second of an all-reduce over all ranks; 0: not known
};
SHARDSWEEP_DESCRIBE(SelfTestTrial, slug, layout, fault, outcome, cause, ranks, leaked, loss,
    peak_memory_bytes, predicted_memory_bytes, bus_bandwidth);

struct SelfTestVerdict {
  std::string check;
  bool passed = false;
  std::string detail;
  friend bool operator==(const SelfTestVerdict&, const SelfTestVerdict&) = default;
};

/// Largest distance between the losses of all layouts: fp32 sums have another order in each.
inline constexpr double selftest_loss_tolerance = 1e-5;
/// Measured over predicted memory. In so small a model buffers weigh more than in a real one.
inline constexpr double selftest_memory_tolerance = 0.20;

/// One verdict each: gradients, bus bandwidth, memory, hang, leak, kill.
[[nodiscard]] std::vector<SelfTestVerdict> judge_selftest(const std::vector<SelfTestTrial>& trials);
[[nodiscard]] Table selftest_table(const std::vector<SelfTestVerdict>& verdicts);

}  // namespace shardsweep
