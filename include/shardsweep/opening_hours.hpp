// SPDX-License-Identifier: Apache-2.0
// When a sweep may run: windows of a week, in the local time of the login node.
#pragma once

#include <cstdint>
#include <vector>

namespace shardsweep {

struct OpeningWindow {
  std::uint8_t days = 0x7f;   ///< days on which it opens: bit 0 is Monday
  std::int32_t from_min = 0;  ///< minutes since midnight
  std::int32_t to_min = 0;    ///< end in minutes, at most 1440; not after `from_min`: of the next
                              ///< day
  friend bool operator==(const OpeningWindow&, const OpeningWindow&) = default;
};

/// No windows: always open.
struct OpeningHours {
  std::vector<OpeningWindow> windows;
  friend bool operator==(const OpeningHours&, const OpeningHours&) = default;
};

}  // namespace shardsweep
