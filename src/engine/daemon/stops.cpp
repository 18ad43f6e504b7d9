// SPDX-License-Identifier: Apache-2.0
#include "daemon/stops.hpp"

#include "fleet/stops.hpp"

#include <shardsweep/log.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardsweep {

Result<void> Stops::read() {
  untold_.clear();
  apart_.clear();
  if (!has_stopped(parts_.home)) return {};
  SHARDSWEEP_ASSIGN(std::vector<StopEvent> events, parts_.store.stop_events());
  untold_ = untold_stops(parts_.home);
  // Notes of a daemon that died between its commit and the removal of the notes are stored already.
  const auto stored = [&events](const StopNote& note) {
    return std::any_of(events.begin(), events.end(),
        [&](const StopEvent& event) { return event.detail.find(note.file) != std::string::npos; });
  };
  for (const StopNote& note : untold_) {
    if (stored(note)) forget_note(note);
  }
  std::erase_if(untold_, stored);
  for (const StopNote& note : untold_)
    events.push_back({note.sweep, false, stop_text(note.place, note.what, note.file)});
  apart_ = held_apart(events);
  std::set<SweepId> ids;
  for (const auto& [id, why] : apart_)
    ids.insert(id);
  sweeps_.hold_apart(std::move(ids));
  return {};
}

void Stops::record() {
  std::set<SweepId> concerned;
  for (const StopNote& note : untold_) {
    // The sweep may have been deleted since.
    const SweepId sweep = world_.sweep(note.sweep) == nullptr ? 0 : note.sweep;
    world_.record(AddEvent{.at = parts_.clock.now(),
        .sweep = sweep,
        .kind = EventKind::stopped,
        .detail = stop_text(note.place, note.what, note.file)});
    concerned.insert(sweep);
  }
  for (const auto& [id, why] : apart_) {
    const SweepRow* sweep = world_.sweep(id);
    if (sweep == nullptr || !concerned.contains(id)) continue;
    if (sweep->state == SweepState::active) world_.edit(*sweep)->state = SweepState::paused;
    world_.record(
        AddEvent{.at = parts_.clock.now(), .sweep = id, .kind = EventKind::paused, .detail = why});
    log_error(fmt::format("{} {}", sweep->name, why));
  }
}

void Stops::told() {
  for (const StopNote& note : std::exchange(untold_, {}))
    forget_note(note);
}

Fault Stops::stop(const BrokenInvariant& broken) {
  const SweepRow* sweep = world_.sweep(broken.sweep);
  const auto written = write_stop(parts_.home,
      {.place = broken.place,
          .condition = broken.condition,
          .what = broken.what_holds,
          .values = broken.values,
          .sweep = broken.sweep,
          .sweep_name = sweep == nullptr ? "" : sweep->name,
          .at = parts_.clock.now(),
          .events = recent.all(world_.changes())});
  std::string text = fmt::format(
      "the daemon found a defect in itself at {} and stops before it stores anything wrong. "
      "Running jobs go on, and the next daemon continues from the database. ",
      broken.place);
  text += written ? fmt::format("Please attach {} to a bug report.", *written)
                  : fmt::format("Please report this: {} ({})", broken.what(), written.error().what);
  return {FaultKind::internal, std::move(text)};
}

}  // namespace shardsweep
