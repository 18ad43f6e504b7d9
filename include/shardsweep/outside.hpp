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

/// What `next` asks for.
struct HandOut {
  std::int64_t points = 1;  ///< how many, those that `worker` still holds included
  double lease_s = 0;       ///< of new ones
  std::string worker{};     ///< who holds them; empty: nobody asks for the same again
  std::string trial{};      ///< slug of the only one that is wanted; empty: the planner chooses
};
inline constexpr std::int64_t most_handed_out = 32;  // at once: all of it is one answer
inline constexpr double longest_lease_s = 30.0 * 24 * 3600;

/// A point that is out: all that its program needs.
struct HandedOut {
  std::string id;  ///< the nonce of its attempt
  std::string trial;
  Timestamp lease_until = 0;
  std::map<std::string, std::string> values{};  ///< of axes, vars and the model, by placeholder
  std::string dir{};                            ///< of the attempt, where `files` are expected
  std::string folder{};                         ///< in which the program starts; empty: any
  bool per_node = false;                        ///< one process on each node, not for each rank
  std::int32_t world = 1;
  std::int32_t nodes = 1;
  std::int32_t ranks_per_node = 1;
  std::vector<std::string> argv{};             ///< what only a rank knows is a placeholder still
  std::map<std::string, std::string> env{};    ///< the same
  std::vector<std::string> secrets{};          ///< names of variables whose values are not told
  std::map<std::string, std::string> files{};  ///< path and text
  std::string image{};                         ///< of its container; empty: it has none
};
/// The answer to `next`.
struct HandedOutPoints {
  std::string sweep;
  std::string state;         ///< active, paused, cancelled; done: nothing waits, nothing is out
  std::int64_t waiting = 0;  ///< trials that nobody has
  std::int64_t out = 0;      ///< points that are out, these included
  std::vector<HandedOut> points{};
};
/// As one JSON document.
[[nodiscard]] std::string encode(const HandedOutPoints& points);

/// What `record` says of one of them.
struct OutsideResult {
  Outcome outcome = Outcome::completed;  ///< or oom, crashed
  double tokens_per_s = 0;               ///< of all GPUs; 0: not told
  double step_ms = 0;                    ///< of a train step; 0: not told
  double peak_memory_bytes = 0;          ///< of a GPU; 0: not told
  std::int64_t steps = 0;                ///< over which both are taken; 0: not told
  std::string evidence{};                ///< why it is no measurement, one line
  friend bool operator==(const OutsideResult&, const OutsideResult&) = default;
};

}  // namespace shardsweep
