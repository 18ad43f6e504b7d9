// SPDX-License-Identifier: Apache-2.0
// How fast a node's GPUs ran while train steps were timed, of looks from time to time. For
// runners that do not tell it themselves. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace shardsweep {

/// One look at one GPU. None: it does not tell.
struct GpuPace {
  std::optional<double> sm_clock_mhz{};
  std::optional<double> power_w{};
  std::uint64_t held_back = 0;  ///< bits for throttle_words()
};

/// 0: not told.
struct Pace {
  double sm_clock_mhz = 0;
  double power_w = 0;
  std::uint64_t held_back = 0;
  friend bool operator==(const Pace&, const Pace&) = default;
};

class PaceOfNode {
 public:
  /// `gpu`: its number.
  void add(int gpu, const GpuPace& look);
  /// The clock of the slowest GPU, which the others wait for; power as the mean over the GPUs.
  /// Medians over the looks: the last ones may be of GPUs that rest already.
  [[nodiscard]] Pace pace() const;

 private:
  struct Looks {
    std::vector<double> clocks;
    std::vector<double> powers;
    std::map<std::uint64_t, std::int64_t> held_back;  ///< how often, by bit
    std::int64_t count = 0;
  };
  std::map<int, Looks> gpus_;
};

/// Of several nodes that train together: the lowest clock with what held it back, and the mean
/// power.
[[nodiscard]] Pace pace_of(const std::vector<Pace>& nodes);

}  // namespace shardsweep
