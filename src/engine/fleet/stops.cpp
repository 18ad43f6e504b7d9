// SPDX-License-Identifier: Apache-2.0
// Decision: Which sweep is held apart follows from the events `stopped` and `resume` in their
// order, and from nothing else: no column, no flag that a crash could leave behind. The report
// is a file, because a daemon that contradicts itself must not write the database.
#include "fleet/stops.hpp"

#include <fmt/format.h>

#include <utility>

namespace shardsweep {
namespace {

constexpr std::string_view after_place = ": ";
constexpr std::string_view before_file = " (see ";
constexpr int most_stops = 2;

std::string_view place_in(std::string_view detail) {
  return detail.substr(0, detail.find(after_place));
}

std::string_view file_in(std::string_view detail) {
  const auto at = detail.rfind(before_file);
  if (at == detail.npos) return "";
  detail.remove_prefix(at + before_file.size());
  return detail.substr(0, detail.rfind(')'));
}

}  // namespace

std::string stop_text(std::string_view place, std::string_view what, std::string_view file) {
  return fmt::format("{}{}{}{}{})", place, after_place, what, before_file, file);
}

std::map<SweepId, std::string> held_apart(const std::vector<StopEvent>& events) {
  std::map<std::pair<SweepId, std::string>, int> times;
  std::map<SweepId, std::string> apart;
  for (const StopEvent& event : events) {
    if (event.resumed) {
      apart.erase(event.sweep);
      continue;
    }
    const std::string place(place_in(event.detail));
    const int count = ++times[{event.sweep, place}];
    if (event.sweep == 0 || count < most_stops) continue;
    const std::string often = count == 2 ? "twice" : fmt::format("{} times", count);
    apart[event.sweep] = fmt::format(
        "paused: shardsweep stopped {} at {} while handling this sweep; see {}, which belongs "
        "into a bug report. Other sweeps go on. 'shardsweep resume' tries this one once more.",
        often, place, file_in(event.detail));
  }
  return apart;
}

}  // namespace shardsweep
