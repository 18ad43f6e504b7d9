// SPDX-License-Identifier: Apache-2.0
// The progress that a follower of sweeps sees: ended trials, and the best of each cell so far.
#pragma once

#include <shardsweep/answer.hpp>
#include <shardsweep/cell_key.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/evidence.hpp>
#include <shardsweep/library_gaps.hpp>
#include <shardsweep/outcome.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// One attempt's end, or a trial that ended without one.
struct FinishedTrial {
  Timestamp at = 0;
  std::string sweep;
  CellKey cell;
  std::string trial;         ///< slug
  std::string layout;        ///< "dp4 tp2 pp1 mb2 ga4 z1"
  std::int64_t attempt = 0;  ///< 0: none
  Outcome outcome = Outcome::completed;
  bool again = false;   ///< the trial has not ended: it is tried once more
  bool spared = false;  ///< skipped by a search's bound, not by a rule
  std::string cause;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> mfu;
  std::optional<double> peak_memory_bytes;
  Mark mark = Mark::none;
  std::string doubt{};  ///< why it is marked: "implausible: the loss is …"
};

struct FinishedBatch {
  std::vector<FinishedTrial> trials;  ///< oldest first
  std::int64_t last_event = 0;        ///< event after which the next look begins
  bool more = false;                  ///< the look was cut off: look again at once
};

/// The winner of a cell, as its answer says.
struct CellBest {
  std::string sweep;
  CellKey cell;
  std::string trial;
  std::string layout;
  double tokens_per_s_per_gpu = 0;
  Timestamp at = 0;     ///< time of its measurement
  CellAnswer answer{};  ///< answer whose winner it is
};

/// A job that has not ended, and how far it is with the trials that it was given.
struct AllocationProgress {
  std::string sweep;
  std::string job_name;       ///< "grid-n2_3f9a01"
  bool claimed = false;       ///< a lead works in it; else it waits for its nodes
  std::int64_t ended = 0;     ///< attempts of it that are over
  std::int64_t assigned = 0;  ///< attempts ended, running and waiting in it
  std::string trial;          ///< slug of what runs now; empty: nothing
  std::string model;
  std::string layout;
  Timestamp started_at = 0;  ///< start of the running attempt
};

/// First events of a follower.
enum class FollowFrom : std::uint8_t {
  now,
  submission,  ///< the first trial may end before the follower looks
};

/// An attempt and where its files are.
struct AttemptPlace {
  std::string sweep;
  std::string trial;  ///< slug
  std::int64_t number = 0;
  State state = State::planned;
  std::optional<Outcome> outcome;
  std::string dir;  ///< folder; after its end <dir>.tar
};

/// The attempts that a name means, oldest first, and how many trials it means.
struct NamedAttempts {
  std::vector<AttemptPlace> attempts;
  std::vector<std::string> trials;  ///< `sweep/slug` of each, 20 at most
  bool is_sweep = false;
};

}  // namespace shardsweep
