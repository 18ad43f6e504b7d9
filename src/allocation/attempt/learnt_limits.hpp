// SPDX-License-Identifier: Apache-2.0
// Limits per phase, learnt from attempts of the same group that were measured in this
// allocation: what took seconds three times need not stand still for minutes. Pure.
//
//   limit = min(its own, max(learn_floor_s, learn_factor · longest stillness · scale))
//   scale = max(1, predicted time / longest predicted time that it was learnt from)
//
// So a limit is only ever shortened, and never below the floor. Of start, rendezvous, init and
// first train step; later steps have a limit of their own (AttemptWatch::limit_s), and the
// first one, which warms up, never counts as one of them.
#pragma once

#include "attempt/watch.hpp"

#include <shardsweep/protocol.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace shardsweep {

class LearntLimits {
 public:
  /// `spec` completed; the longest time without movement in each phase.
  void learn(const AttemptSpec& spec, const StillTimes& longest_still_s);
  /// `spec` with what its group has taught.
  [[nodiscard]] AttemptSpec applied_to(AttemptSpec spec) const;

 private:
  struct Group {
    std::int32_t attempts = 0;
    StillTimes longest_still_s{};
    double predicted_s = 0;  ///< the longest
  };
  std::map<std::string, Group> groups_;
};

}  // namespace shardsweep
