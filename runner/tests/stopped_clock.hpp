// SPDX-License-Identifier: Apache-2.0
// A clock that tests move by hand, for their own process: this program's clock_gettime takes
// the place of the system's. Included once in a program.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace shardbench {

inline std::atomic<std::int64_t> stopped_at_ns{0};  // 0: the system's

/// While it lives, no time passes but by pass().
class StoppedClock {
 public:
  StoppedClock() {
    timespec now{};
    (void)::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    stopped_at_ns = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  }
  ~StoppedClock() { stopped_at_ns = 0; }
  StoppedClock(const StoppedClock&) = delete;
  StoppedClock& operator=(const StoppedClock&) = delete;

  static void pass(double seconds) { stopped_at_ns += static_cast<std::int64_t>(seconds * 1e9); }
};

}  // namespace shardbench

// NOLINTNEXTLINE(misc-definitions-in-headers): included once in a program
extern "C" int clock_gettime(clockid_t clock, timespec* now) {
  const std::int64_t at = shardbench::stopped_at_ns;
  if (clock != CLOCK_MONOTONIC || at == 0)
    return static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  now->tv_sec = at / 1'000'000'000;
  now->tv_nsec = at % 1'000'000'000;
  return 0;
}
