// SPDX-License-Identifier: Apache-2.0
// What the lists of all ranks cost together, from the lists alone: does the train step come to
// its end, how long does it take, and how long does a rank wait.
#pragma once

#include "schedules/schedule.hpp"

#include <string>
#include <vector>

namespace shardbench {

/// Costs of one piece, in any unit. A backward is both halves; messages take no time.
struct PieceCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
};

/// Bounded: a message ends when both sides have come to it. Buffered: a sender goes on at once.
enum class Channels { bounded, buffered };

struct Timeline {
  std::string stuck;  // empty: every rank comes to its end, and each message is the expected one
  double length = 0;
  double busy = 0;  // work of one rank; all have the same
  /// Waiting of a rank, as a share of its work.
  double bubble() const { return length / busy - 1; }
};

Timeline timeline_of(
    ScheduleKind kind, const Pipeline& pipeline, const PieceCosts& costs, Channels channels);

}  // namespace shardbench
