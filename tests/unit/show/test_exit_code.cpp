// SPDX-License-Identifier: Apache-2.0
#include "show/exit_code.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;

namespace {

SweepStatus sweep(
    const std::string& name, std::map<std::string, std::int64_t> outcomes, std::int64_t open = 0) {
  SweepStatus status;
  status.name = name;
  status.state = "active";
  status.trials = open;
  for (const auto& [word, count] : outcomes) {
    status.trials += count;
    status.by_state["ended"] += count;
    if (!info(*outcome_from(word)).final_verdict) status.undecided += count;
  }
  if (open > 0) status.by_state["planned"] = open;
  status.by_outcome = std::move(outcomes);
  return status;
}

struct Case {
  const char* what;
  std::vector<SweepStatus> sweeps;
  ExitCode code;
  const char* sentence;
};

}  // namespace

TEST_CASE("measurements that are all marked are a failure, and its reason is told") {
  auto status = sweep("a", {{"completed", 2}});
  status.marked = 1;
  status.doubt = "implausible: the loss is 9";
  CHECK(verdict_of({status}).code == ExitCode::done);
  status.marked = 2;
  const auto verdict = verdict_of({status});
  CHECK(verdict.code == ExitCode::failed);
  CHECK(verdict.sentence ==
      "exit 1: no measurement of a can be ranked: implausible: the loss is 9. `shardsweep "
      "results a` lists them.");
}

TEST_CASE("the most frequent cause of a sweep without a measurement is told") {
  auto status = sweep("a", {{"crashed", 4}});
  status.cause = "script-missing: x.py";
  CHECK(verdict_of({status}).sentence ==
      "exit 1: no trial of a was measured: 4 crashed. Most often: script-missing: x.py. "
      "`shardsweep results a` lists the causes.");
}

TEST_CASE("exit codes, and the sentence that says why") {
  const std::vector<Case> cases{
      {"measured", {sweep("a", {{"completed", 3}})}, ExitCode::done, ""},
      {"out of memory is a verdict", {sweep("a", {{"oom", 3}, {"completed", 1}})}, ExitCode::done,
          ""},
      {"nothing but out of memory", {sweep("a", {{"oom", 3}, {"skipped", 1}})}, ExitCode::done, ""},
      {"nothing but refusals", {sweep("a", {{"rejected", 4}})}, ExitCode::failed,
          "exit 1: no trial of a was measured: 4 rejected. `shardsweep results a` lists the "
          "causes."},
      {"a crash among measured ones", {sweep("a", {{"completed", 1}, {"crashed", 2}})},
          ExitCode::done, ""},
      {"nothing but crashes", {sweep("a", {{"crashed", 4}})}, ExitCode::failed,
          "exit 1: no trial of a was measured: 4 crashed. `shardsweep results a` lists the "
          "causes."},
      {"crashes and verdicts without a measurement",
          {sweep("a", {{"crashed", 4}, {"oom", 1}, {"skipped", 2}})}, ExitCode::failed,
          "exit 1: no trial of a was measured: 1 oom, 4 crashed, 2 skipped. `shardsweep results "
          "a` "
          "lists the causes."},
      {"two of them",
          {sweep("a", {{"crashed", 4}}), sweep("b", {{"crashed", 1}}),
              sweep("c", {{"completed", 1}})},
          ExitCode::failed, "exit 1: in 2 sweeps no trial has a measurement that can be ranked."},
      {"two hung", {sweep("a", {{"completed", 8}, {"hung", 2}})}, ExitCode::undecided,
          "exit 3: 2 trials of a have no final verdict: 2 hung. `shardsweep rerun a --where "
          "\"outcome = 'hung'\"` measures them again."},
      {"hung, lost and crashed", {sweep("a", {{"crashed", 8}, {"hung", 2}, {"lost", 1}})},
          ExitCode::undecided,
          "exit 3: 3 trials of a have no final verdict: 2 hung, 1 lost. `shardsweep rerun a "
          "--where \"outcome in ('hung', 'lost')\"` measures them again."},
      {"cancelled on request", {sweep("a", {{"completed", 8}, {"cancelled", 1}})},
          ExitCode::undecided, "exit 3: 1 trial of a has no final verdict: 1 cancelled."},
      {"not at its end", {sweep("a", {{"completed", 8}}, 12)}, ExitCode::undecided,
          "exit 3: 12 trials of a have no final verdict: 12 not ended."},
      {"several sweeps",
          {sweep("a", {{"hung", 1}}), sweep("b", {}, 1200), sweep("c", {{"completed", 1}})},
          ExitCode::undecided,
          "exit 3: 1,201 trials of 2 sweeps have no final verdict: 1 hung, 1,200 not ended."},
      {"none at all", {}, ExitCode::done, ""},
  };
  for (const Case& one : cases) {
    CAPTURE(one.what);
    const SweepVerdict verdict = verdict_of(one.sweeps);
    CHECK(static_cast<int>(verdict.code) == static_cast<int>(one.code));
    CHECK(verdict.sentence == one.sentence);
  }
}

TEST_CASE("a sweep whose last control runs is not over") {
  SweepStatus status = sweep("a", {{"completed", 8}});
  status.last_controls = 1;
  CHECK_FALSE(is_over(status));
  CHECK(verdict_of({status}).sentence == "exit 3: the last control run of a has not ended.");
}

TEST_CASE("every exit code is in the table once, with a meaning") {
  for (const ExitCodeInfo& row : exit_code_table)
    CHECK_FALSE(row.meaning.empty());
  CHECK(static_cast<int>(exit_code_table[3].code) == 3);
}

// N13: one old hung trial made `status` end with 3 for ever.
TEST_CASE("who names no sweep asks about what is not over, and about the last one") {
  SweepStatus old = sweep("old", {{"completed", 8}, {"hung", 1}});
  old.submitted_at = 100;
  SweepStatus last = sweep("last", {{"completed", 8}});
  last.submitted_at = 200;
  CHECK(verdict_of(current_of({old, last})).code == ExitCode::done);
  CHECK(verdict_of({old}).code == ExitCode::undecided);
  CHECK(verdict_of(current_of({old})).code == ExitCode::undecided);
  SweepStatus open = sweep("open", {{"completed", 8}}, 1);
  open.submitted_at = 50;
  const auto current = current_of({old, open, last});
  REQUIRE(current.size() == 2);
  CHECK(current[0].name == "open");
  CHECK(current[1].name == "last");
  open = sweep("controls", {{"completed", 8}});
  open.last_controls = 1;
  CHECK(current_of({open, last}).size() == 2);
  CHECK(current_of({}).empty());
}
