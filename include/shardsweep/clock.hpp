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

/// The wall's time at its making, and from there without the steps that somebody sets it by: how
/// long something took is then how long it took. For processes that end with their allocation.
class AnchoredClock final : public Clock {
 public:
  explicit AnchoredClock(const Clock& clock)
      : clock_(clock), anchor_(clock.now()), anchored_(clock.steady()) {}
  [[nodiscard]] Timestamp now() const override {
    const auto since = clock_.steady() - anchored_;
    return anchor_ + std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override {
    return clock_.steady();
  }

 private:
  const Clock& clock_;
  Timestamp anchor_;
  std::chrono::steady_clock::time_point anchored_;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Timestamp now() const override;
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override;
};

}  // namespace shardsweep
