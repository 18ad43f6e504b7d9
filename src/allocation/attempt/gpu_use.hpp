// SPDX-License-Identifier: Apache-2.0
// Who uses a node's GPUs while nothing of ours runs there? Pure.
//
// Two different troubles: memory that nobody is seen to hold has not come back from a process
// that has ended (its driver context is stuck, or it goes on where we can't see it), and
// nothing fits where it should. A process of somebody else's takes time from a measurement.
#pragma once

#include <shardsweep/record.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct GpuHolder {
  std::int64_t pid = 0;
  std::optional<std::int64_t> bytes{};  ///< empty: not told
  std::string cmdline{};                ///< empty: no such process is seen here
  friend bool operator==(const GpuHolder&, const GpuHolder&) = default;
};
struct GpuUse {
  int gpu = 0;
  std::int64_t used_bytes = 0;
  std::vector<GpuHolder> holders{};
};

/// One line each; empty: nothing.
struct GpuFindings {
  std::string held;    ///< memory that does not come back
  std::string others;  ///< foreign processes that compute there
};

class GpuBaseline {
 public:
  /// Judges the use of GPUs between attempts, when nothing of ours runs on them. A GPU's baseline
  /// is the least that was ever seen in use, and `slack_bytes` at most: a node may have been unwell
  /// from the beginning. Memory is held where more than baseline + slack is in use that no process
  /// which is seen here holds. Somebody else's process counts from 64 MiB on: what watches GPUs
  /// holds less, a compute context more.
  [[nodiscard]] GpuFindings judge(const std::vector<GpuUse>& seen, std::int64_t slack_bytes);

 private:
  std::map<int, std::int64_t> least_bytes_;  ///< smallest unexplained memory of each GPU
};

/// Names of models that differ in nothing but case: drivers have changed that.
[[nodiscard]] bool same_gpu(std::string_view a, std::string_view b);

// How fast a node's GPUs ran while train steps were timed, of looks from time to time. For
// runners that do not tell it themselves. Pure.

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

/// Times of looks: once a second between the first timed train step and the result.
class PaceLooks {
 public:
  explicit PaceLooks(std::int32_t warmup) : warmup_(warmup) {}
  /// A record of rank 0. Whoever does not say which steps are timed is believed to record all
  /// of them.
  void see(const Record& record);
  /// Rank 0 is on another node, and its train steps are timed from now on.
  void begin() { timed_ = true; }
  [[nodiscard]] bool timed() const { return timed_; }
  /// True if a look is due, which then counts as done.
  [[nodiscard]] bool take_due(double now_s);
  [[nodiscard]] PaceOfNode& looks() { return looks_; }
  [[nodiscard]] Pace pace() const { return looks_.pace(); }

 private:
  std::int32_t warmup_;  ///< steps that are not timed
  bool timed_ = false;
  std::int64_t steps_ended_ = 0;
  std::optional<double> looked_at_s_;
  PaceOfNode looks_;
};

/// Joins the pace of nodes that train together: the lowest clock with what held it back, and the
/// mean power.
[[nodiscard]] Pace pace_of(const std::vector<Pace>& nodes);

/// Short words for the bits of Pace::held_back; empty if the clocks are as they should
/// be. An idle GPU's low clocks and clocks that somebody has set are no reason.
[[nodiscard]] std::vector<std::string> throttle_words(std::uint64_t bits);

}  // namespace shardsweep
