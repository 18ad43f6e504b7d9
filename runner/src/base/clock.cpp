// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include <poll.h>
#include <time.h>

#include <algorithm>

namespace shardbench {

int Deadline::left_ms() const {
  const double left_s = Seconds(at - now()).count();
  if (left_s <= 0) return 0;
  return static_cast<int>(std::clamp(left_s * 1000.0, 1.0, 1e9));
}

double unix_time_s() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(
             std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count()) *
      1e-6;
}

void sleep_ms(int milliseconds) {
  (void)::poll(nullptr, 0, milliseconds);
}

void sleep_us(int microseconds) {
  const timespec pause{microseconds / 1000000, microseconds % 1000000 * 1000L};
  (void)::nanosleep(&pause, nullptr);
}

}  // namespace shardbench
