// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardbench {

/// Part of a trial's identity: bumped whenever a change could change a measured number.
constexpr const char* version = "0.4.0";

}  // namespace shardbench
