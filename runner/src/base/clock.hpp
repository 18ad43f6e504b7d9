// SPDX-License-Identifier: Apache-2.0
// The only places that read a clock or sleep.
#pragma once

#include <chrono>

namespace shardbench {

using Seconds = std::chrono::duration<double>;
using TimePoint = std::chrono::steady_clock::time_point;

inline TimePoint now() {
  return std::chrono::steady_clock::now();
}
inline double seconds_since(TimePoint start) {
  return Seconds(now() - start).count();
}

/// A point in the future by which something must have happened.
struct Deadline {
  TimePoint at;
  double limit_s;
  static Deadline in(double seconds) {
    return {now() + std::chrono::duration_cast<TimePoint::duration>(Seconds(seconds)), seconds};
  }
  bool passed() const { return now() >= at; }
  /// Remaining whole milliseconds for poll(2): at least 1, and 0 once passed.
  int left_ms() const;
};

/// Unix time with microseconds, for records.
double unix_time_s();
void sleep_ms(int milliseconds);
void sleep_us(int microseconds);

}  // namespace shardbench
