// SPDX-License-Identifier: Apache-2.0
// What becomes of a rank that does something which may end it: tried in a process of its own.
#pragma once

#include <functional>
#include <string>

namespace shardbench {

/// "ok", or "CLASS: MESSAGE" of the error that ended it.
std::string outcome_of(const std::function<void()>& what);

/// The exit status of a child process in which `what` runs; -1 when a signal ended it.
int exit_status_of(const std::function<void()>& what);

}  // namespace shardbench
