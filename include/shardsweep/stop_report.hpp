// SPDX-License-Identifier: Apache-2.0
// What a daemon leaves behind that has stopped because it contradicted itself: a text for a bug
// report, in `<database>.d/faults`, and beside it a short note to the next daemon. That one
// stores what the note says, and removes the note.
#pragma once

#include <shardsweep/home.hpp>
#include <shardsweep/rows.hpp>

#include <string>
#include <vector>

namespace shardsweep {

struct StopReport {
  std::string place;
  std::string condition;
  std::string what;
  std::string values;
  SweepId sweep = 0;  ///< 0: not known
  std::string sweep_name;
  Timestamp at = 0;
  std::vector<std::string> events;  ///< last observations and decisions, the oldest first
};

/// A stop that no daemon has stored yet.
struct StopNote {
  std::string file;  ///< file of the report
  std::string place;
  SweepId sweep = 0;
  std::string what;
};

/// Writes report and note. The report's path. Of a hundred reports the oldest goes.
[[nodiscard]] Result<std::string> write_stop(const Home& home, const StopReport& report);
/// The oldest first.
[[nodiscard]] std::vector<StopNote> untold_stops(const Home& home);
void forget_note(const StopNote& note);
/// Reports are there, told or not.
[[nodiscard]] bool has_stopped(const Home& home);

}  // namespace shardsweep
