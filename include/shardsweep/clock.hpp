// SPDX-License-Identifier: Apache-2.0
// Port: time. Only an implementation of Clock asks the system for the time.
#pragma once

#include <chrono>
#include <cstdint>

namespace shardsweep {

/// Microseconds since 1970-01-01 UTC: what is stored.
using Timestamp = std::int64_t;

inline constexpr double hour_s = 3600;

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Timestamp now() const = 0;
  /// Monotonic, for intervals and deadlines.
  [[nodiscard]] virtual std::chrono::steady_clock::time_point steady() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Timestamp now() const override;
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override;
};

}  // namespace shardsweep
