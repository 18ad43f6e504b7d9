// SPDX-License-Identifier: Apache-2.0
// Trials that somebody else measures: an optimizer, an agent, a person at another scheduler.
// `next` hands out points, `record` takes what they measured. Both are requests to the daemon.
// A point that is out is an attempt in an allocation of its own (Backend::outside), whose
// deadline is the lease. So its states, its one counted result and the search are those of all
// trials. A result that comes when its lease is over is kept, and not counted.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/outcome.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardsweep {

/// Request of `next`.
struct HandOut {
  std::int64_t points = 1;  ///< how many, those that `worker` still holds included
  double lease_s = 0;       ///< lease of new points
  std::string worker{};     ///< holder; empty: repeated requests get new points
  std::string trial{};      ///< slug of the only one that is wanted; empty: the planner chooses
};
inline constexpr std::int64_t most_handed_out = 32;  // limit at once: all points are in one answer
inline constexpr double longest_lease_s = 30.0 * 24 * 3600;

/// A point that is out: all that its program needs.
struct HandedOut {
  std::string id;  ///< the nonce of its attempt
  std::string trial;
  Timestamp lease_until = 0;
  std::map<std::string, std::string> values{};  ///< values of axes, vars and the model, by
                                                ///< placeholder
  std::string dir{};                            ///< folder of the attempt, where `files` are
                                                ///< expected
  std::string folder{};                         ///< folder in which the program starts; empty: any
  bool per_node = false;                        ///< one process on each node, not for each rank
  std::int32_t world = 1;
  std::int32_t nodes = 1;
  std::int32_t ranks_per_node = 1;
  std::vector<std::string> argv{};             ///< command; values that only a rank knows are
                                               ///< placeholders still
  std::map<std::string, std::string> env{};    ///< environment, with placeholders as in `argv`
  std::vector<std::string> secrets{};          ///< names of variables whose values are not told
  std::map<std::string, std::string> files{};  ///< path and text
  std::string image{};                         ///< image of its container; empty: it has none
};
/// The answer to `next`.
struct HandedOutPoints {
  std::string sweep;
  std::string state;         ///< active, paused, cancelled; done: no trial waits, no point is out
  std::int64_t waiting = 0;  ///< trials that nobody has
  std::int64_t out = 0;      ///< points that are out, these included
  std::vector<HandedOut> points{};
};
/// Encodes them as one JSON document.
[[nodiscard]] std::string encode(const HandedOutPoints& points);

/// Result of a point, as `record` tells it.
struct OutsideResult {
  Outcome outcome = Outcome::completed;  ///< or oom, crashed
  double tokens_per_s = 0;               ///< speed of all GPUs; 0: not told
  double step_ms = 0;                    ///< duration of a train step; 0: not told
  double peak_memory_bytes = 0;          ///< peak of a GPU; 0: not told
  std::int64_t steps = 0;                ///< train steps behind both figures; 0: not told
  std::string evidence{};                ///< why it is no measurement, one line
  friend bool operator==(const OutsideResult&, const OutsideResult&) = default;
};

}  // namespace shardsweep
