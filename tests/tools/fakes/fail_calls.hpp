// SPDX-License-Identifier: Apache-2.0
// The N-th call of a kind (write, sync, rename, unlink) of this process fails.
#pragma once

#include <string>

namespace shardsweep::testing {

/// From now on: calls on files below `under` count, while they may fail. 0: none does.
void fail_call(const std::string& kind, long at, int error, const std::string& under);
/// Not at first: what a test does itself is not meant.
void let_calls_fail(bool may);
[[nodiscard]] long calls_so_far();
/// The file on which the call has failed; empty: none has.
[[nodiscard]] const std::string& failed_on();

}  // namespace shardsweep::testing
