// SPDX-License-Identifier: Apache-2.0
#include "show/next_steps.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;

namespace {

SweepStatus sweep(SweepId id, const std::string& name, std::int64_t ended, std::int64_t trials,
    std::int64_t running = 0) {
  SweepStatus status;
  status.id = id;
  status.name = name;
  status.state = "active";
  status.trials = trials;
  status.by_state = {{"ended", ended}, {"running", running}, {"planned", trials - ended - running}};
  if (ended > 0) status.by_outcome = {{"completed", ended}};
  status.submitted_at = 100 * id;
  return status;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

bool offers(const std::string& text, const std::string& command) {
  return text.find("\n  shardsweep " + command + ' ') != std::string::npos;
}

}  // namespace

// The newer of two sweeps was named, which waits for the nodes of the other.
TEST_CASE("of two sweeps that a daemon has, the one whose trials run is gone on with") {
  const auto text =
      next_steps({sweep(1, "runs", 2, 9, 1), sweep(2, "waits", 0, 4)}, {.daemon_runs = true});
  CHECK(first_line(text) == "'runs' runs: 2 of 9 trials have ended.");
  CHECK(text.ends_with("\n'waits' waits: 0 of 4 trials have ended."));
  CHECK(offers(text, "follow runs"));
}

TEST_CASE("a sweep that waits is told with the reason that status gives") {
  auto waits = sweep(1, "slu", 2, 4);
  waits.waiting = "its nodes: 9 are asked for, and no partition has as many";
  CHECK(first_line(next_steps({waits}, {.daemon_runs = true})) ==
      "'slu' waits: 2 of 4 trials have ended. its nodes: 9 are asked for, and no partition has as "
      "many.");
}

TEST_CASE("a sweep without a daemon is resumed, not followed") {
  const auto text = next_steps({sweep(1, "left", 7, 11, 1)}, {.daemon_runs = false});
  CHECK(first_line(text) ==
      "'left' has no daemon, so nothing new starts: 7 of 11 trials have ended.");
  CHECK(text.find("\n  shardsweep resume left ") < text.find("\n  shardsweep status left "));
  CHECK_FALSE(offers(text, "follow left"));
}

TEST_CASE("a sweep of which nothing was measured is told with its causes, and has no best") {
  auto crash = sweep(1, "crash", 4, 4);
  crash.by_outcome = {{"crashed", 4}};
  crash.cause = "script-missing: no such file";
  const auto text = next_steps({crash}, {});
  CHECK(first_line(text) ==
      "'crash' has ended: no trial was measured: 4 crashed. Most often: script-missing: no such "
      "file.");
  CHECK(offers(text, "results crash"));
  CHECK_FALSE(offers(text, "best crash"));
}

TEST_CASE("a sweep that is measured outside is gone on with by next and record") {
  auto outs = sweep(1, "outs", 0, 2);
  outs.outside = true;
  const auto text = next_steps({outs}, {});
  CHECK(first_line(text) == "'outs' is measured outside: 0 of 2 trials have ended.");
  CHECK(offers(text, "next outs"));
  CHECK(offers(text, "record ID --step-ms MS"));
  CHECK_FALSE(offers(text, "follow outs"));
  CHECK(why_it_waits(outs) == "measured outside; `shardsweep next outs` hands its points out");
}

TEST_CASE("an old sweep that waits does not hide the one that has just ended") {
  auto ended = sweep(2, "new", 4, 4);
  ended.last_end_at = 500;
  const auto text = next_steps({sweep(1, "old", 0, 4), ended}, {.daemon_runs = true});
  CHECK(first_line(text) == "'new' has ended: 4 trials, 4 completed.");
  CHECK(text.ends_with("\n'old' waits: 0 of 4 trials have ended."));
}

TEST_CASE("a cancelled sweep without a measurement has no best") {
  auto cancelled = sweep(1, "long", 11, 11);
  cancelled.state = "cancelled";
  cancelled.by_outcome = {{"cancelled", 11}};
  cancelled.undecided = 11;
  const auto text = next_steps({cancelled}, {});
  CHECK(first_line(text) == "'long' was cancelled: 11 of 11 trials have no result.");
  CHECK(offers(text, "resume long"));
  CHECK_FALSE(offers(text, "best long"));
}

TEST_CASE("a newcomer is sent to a cluster only if one answers") {
  CHECK(offers(first_steps(SlurmHere::answers, {}), "init --on-a-node"));
  CHECK_FALSE(offers(first_steps(SlurmHere::none, {}), "init --on-a-node"));
  const auto silent = first_steps(SlurmHere::silent, {});
  CHECK_FALSE(offers(silent, "init --on-a-node"));
  CHECK(offers(silent, "doctor"));
}

// `best` stood on two adjacent lines.
TEST_CASE("what a follower has told is not offered again") {
  CHECK(offers(next_steps({sweep(1, "a", 4, 4)}, {}), "best a"));
  const auto told = next_steps({sweep(1, "a", 4, 4)}, {.answer_was_told = true});
  CHECK(first_line(told) == "Next with 'a':");
  CHECK_FALSE(offers(told, "best a"));
}
