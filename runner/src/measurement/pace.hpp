// SPDX-License-Identifier: Apache-2.0
// How fast a rank's hardware ran while train steps were timed: a layout that wins by its clocks
// alone has not won. Looks are taken between two train steps.
#pragma once

#include "device/dtype.hpp"

#include <optional>
#include <string>

namespace shardbench {

/// One look. Absent: the hardware does not tell.
struct PaceLook {
  std::optional<double> clock_mhz = {};
  std::optional<double> power_w = {};
  u64 held_back = 0;  // nvmlClocksEventReasons
};

/// Figures over several looks. 0: not told.
struct Pace {
  double clock_mhz = 0;
  double power_w = 0;
  u64 held_back = 0;  // causes in any look
};

/// Sums up looks, at most one in a pause.
class PaceSampler {
 public:
  /// Pause between two looks: each costs the driver a millisecond, and none falls into a timed
  /// train step.
  static constexpr double pause_s = 0.1;

  bool is_due() const;
  void add(const PaceLook& look);
  /// Forgets the looks: other train steps are timed from now on, and a look is due.
  void forget();
  Pace pace() const;

 private:
  struct Mean {
    double sum = 0;
    i64 count = 0;
    void add(const std::optional<double>& value);
    double value() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };
  Mean clock_mhz_;
  Mean power_w_;
  u64 held_back_ = 0;
  std::optional<double> looked_at_s_;
};

/// "power cap, too hot (driver)": reasons in a mask that hold a working GPU back. An idle GPU,
/// user-set clocks and other GPUs of its group are no reasons.
std::string throttle_text(u64 held_back);

/// The clock of the core that this thread runs on, in MHz: of cpufreq below `devices`, else of
/// `cpuinfo`. Absent: neither tells.
std::optional<double> cpu_clock_mhz(const std::string& devices = "/sys/devices/system/cpu",
    const std::string& cpuinfo = "/proc/cpuinfo");

}  // namespace shardbench
