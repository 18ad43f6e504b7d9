// SPDX-License-Identifier: Apache-2.0
// Ctrl-C ends what is shown, not the sweep.
#pragma once

#include <csignal>

namespace shardsweep {

/// While it lives, SIGINT is noted instead of ending the program.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  /// Since the guard was made.
  [[nodiscard]] static bool seen();

 private:
  struct sigaction before_ = {};
};

}  // namespace shardsweep
