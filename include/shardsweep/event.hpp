// SPDX-License-Identifier: Apache-2.0
// What can happen, as the table `events` tells it. Outcomes, verbs of requests and states of
// nodes are events by their own words.
#pragma once

#include <shardsweep/outcome.hpp>
#include <shardsweep/requests.hpp>
#include <shardsweep/rows.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardsweep {

enum class EventKind : std::uint8_t {
  // Events of an attempt or a trial, as Outcome.
  completed,
  oom,
  hung,
  timeout,
  node_failure,
  comm_error,
  preempted,
  crashed,
  reaped,
  cancelled,
  rejected,
  lost,
  skipped,
  // Events of a request, as Verb.
  submit,
  pause,
  resume,
  cancel,
  rerun,
  stop,
  clear_node,
  remove,
  next,
  record,
  // Events of a node, as NodeState.
  node_trusted,
  node_quarantined,
  node_probation,
  node_slow,
  // Events of trials and attempts.
  started,
  spared,    ///< skipped by a search
  reopened,  ///< no longer spared
  // Events of sweeps and allocations.
  submitted,
  submitted_again,
  submission_unknown,
  refused,
  deferred,
  duplicate,
  adopted,
  claimed,
  finding,
  control_off,
  given_up,
  allocation_ended,
  paused,  ///< paused by the daemon itself
  look_failed,
  stopped,  ///< a daemon, because it contradicted itself
  remeasured,
  regressed,        ///< remeasured, and it has become slower
  still_regressed,  ///< remeasured, and it is as slow as before
  ruled_out,        ///< a trial, skipped because others like it were refused
};
SHARDSWEEP_WORDS(EventKind, "completed", "oom", "hung", "timeout", "node_failure", "comm_error",
    "preempted", "crashed", "reaped", "cancelled", "rejected", "lost", "skipped", "submit", "pause",
    "resume", "cancel", "rerun", "stop", "clear_node", "delete", "next", "record", "node trusted",
    "node quarantined", "node probation", "node slow", "started", "spared", "reopened", "submitted",
    "submitted again", "submission unknown", "refused", "deferred", "duplicate", "adopted",
    "claimed", "finding", "control off", "given up", "allocation ended", "paused", "look failed",
    "stopped", "remeasured", "regressed", "still regressed", "ruled out");

template <class Enum>
[[nodiscard]] constexpr EventKind event_after(EventKind first, Enum value) {
  return static_cast<EventKind>(static_cast<std::size_t>(first) + static_cast<std::size_t>(value));
}
[[nodiscard]] constexpr EventKind event_of(Outcome outcome) {
  return event_after(EventKind::completed, outcome);
}
[[nodiscard]] constexpr EventKind event_of(Verb verb) {
  return event_after(EventKind::submit, verb);
}
[[nodiscard]] constexpr EventKind event_of(NodeState state) {
  return event_after(EventKind::node_trusted, state);
}

static_assert(word_of(event_of(Outcome::skipped)) == word_of(Outcome::skipped));
static_assert(word_of(event_of(Outcome::comm_error)) == word_of(Outcome::comm_error));
static_assert(word_of(event_of(Verb::submit)) == word_of(Verb::submit));
static_assert(word_of(event_of(Verb::record)) == word_of(Verb::record));
static_assert(word_of(event_of(Verb::remove)) == word_of(Verb::remove));
static_assert(event_of(NodeState::probation) == EventKind::node_probation);

}  // namespace shardsweep
