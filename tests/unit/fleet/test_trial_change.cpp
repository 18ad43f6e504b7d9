// SPDX-License-Identifier: Apache-2.0
#include "fleet/trial_change.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <ostream>

using namespace shardsweep;
using shardsweep::testing::Case;

namespace {

TrialRow ended(Outcome outcome) {
  TrialRow row{.id = 1, .sweep = 1, .slug = "t1", .lane = "l"};
  row.state = State::ended;
  row.outcome = outcome;
  row.cause = "measured";
  return row;
}

}  // namespace

TEST_CASE("an outcome holds until a new attempt says more") {
  const auto after = [](Outcome prior, Outcome end, bool counted) {
    TrialRow row = ended(prior);
    plan_again(row);
    end_trial(row, {.outcome = end, .cause = "", .counted = counted});
    return *row.outcome;
  };
  for (const OutcomeInfo& end : outcome_table) {
    CAPTURE(end.name);
    const bool counted = end.outcome == Outcome::completed;
    CHECK(after(Outcome::completed, end.outcome, counted) == Outcome::completed);
  }
  CHECK(after(Outcome::oom, Outcome::cancelled, false) == Outcome::oom);
  CHECK(after(Outcome::oom, Outcome::skipped, false) == Outcome::oom);
  CHECK(after(Outcome::oom, Outcome::completed, true) == Outcome::completed);
  CHECK(after(Outcome::oom, Outcome::hung, false) == Outcome::hung);
  CHECK(after(Outcome::hung, Outcome::cancelled, false) == Outcome::hung);
  // What a node or a command did says nothing about the layout.
  CHECK(after(Outcome::lost, Outcome::cancelled, false) == Outcome::cancelled);
  CHECK(after(Outcome::cancelled, Outcome::cancelled, false) == Outcome::cancelled);
}

TEST_CASE("a rerun that fails leaves the measurement counted") {
  Case c;
  c.policy.retry_on_trial = 0;
  c.trial(1, 1) = ended(Outcome::completed);
  plan_again(c.rows.trials.at(1));
  c.decide();
  c.line(Claimed{});
  c.line(Started{.attempt = 1});
  (void)c.world.take_changes();
  c.end(1, Outcome::crashed);
  CHECK(c.rows.trials.at(1).outcome == Outcome::completed);
  for (const Change& change : c.world.changes()) {
    if (const auto* put = std::get_if<PutAttempt>(&change)) CHECK_FALSE(put->row.counted);
    if (const auto* set = std::get_if<SetTrial>(&change)) CHECK(set->row.cause == "measured");
  }
}

TEST_CASE("a rerun with a marked result replaces no counted measurement") {
  Case c;
  c.policy.retry_on_trial = 0;
  c.trial(1, 1) = ended(Outcome::completed);
  plan_again(c.rows.trials.at(1));
  c.decide();
  c.line(Claimed{});
  c.line(Started{.attempt = 1});
  (void)c.world.take_changes();
  RecordsSummary records;
  records.result = AddMeasurement{};
  records.result->mark = Mark::contaminated;
  c.line(Ended{.attempt = 1, .ending = {.outcome = Outcome::completed, .cause = ""}}, records);
  CHECK(c.rows.trials.at(1).outcome == Outcome::completed);
  for (const Change& change : c.world.changes()) {
    if (const auto* put = std::get_if<PutAttempt>(&change)) CHECK_FALSE(put->row.counted);
  }
}
