// SPDX-License-Identifier: Apache-2.0
// Signals as something to poll. Everything that can be caught is: what ends a process by
// default must not end a lead or an agent before its ranks are gone.
#pragma once

#include "machine/descriptor.hpp"

#include <csignal>
#include <vector>

namespace shardsweep::agent {

/// Blocks every signal but those of a bug (SIGSEGV and its like), ignores SIGPIPE.
void block_signals();
/// Restores signals in a child before exec: nothing blocked, nothing ignored.
void restore_signals();

class SignalSource {
 public:
  /// Call block_signals() first.
  SignalSource();
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// Signals since the last call.
  [[nodiscard]] std::vector<int> take();

 private:
  Descriptor descriptor_;
};

}  // namespace shardsweep::agent
