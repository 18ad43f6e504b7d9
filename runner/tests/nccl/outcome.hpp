// SPDX-License-Identifier: Apache-2.0
// What becomes of a rank that does something which may end it: tried in a process of its own.
#pragma once

#include <functional>
#include <string>

namespace shardbench {

/// "ok", or "CLASS: MESSAGE" of the error that ended it.
std::string outcome_of(const std::function<void()>& what);

}  // namespace shardbench
