// SPDX-License-Identifier: Apache-2.0
// The one place in which tests of real processes wait: for something that is seen, and never
// for a time.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>

namespace shardsweep::test {

/// No load makes anything here last so long. Who waits for it sees why, before CTest's own
/// limit.
inline constexpr double patience_s = 600;

/// True as soon as `done` is, which is looked at every `every_ms`.
inline bool wait_until(
    const std::function<bool()>& done, double limit_s = patience_s, int every_ms = 5) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    (void)::poll(nullptr, 0, every_ms);
  }
  return true;
}

}  // namespace shardsweep::test
