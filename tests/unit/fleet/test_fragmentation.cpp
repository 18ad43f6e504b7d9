// SPDX-License-Identifier: Apache-2.0
// Out of memory in pieces: tried once more with segments that grow, and no verdict on others.
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Fragmented : Case {
  Fragmented() {
    trial(1, 1);
    trial(2, 2);
    trial(3, 4);
    decide();
    decide();
    REQUIRE(rows.attempts.size() == 3);
  }
  void out_of_memory(AttemptId id, bool fragmented) {
    line(Started{.attempt = id});
    line(Ended{.attempt = id,
             .ending = {.outcome = Outcome::oom, .cause = "full", .fragmented = fragmented}},
        RecordsSummary{});
  }
  AttemptId attempt_of(TrialId trial) {
    AttemptId last = 0;
    for (const auto& [id, attempt] : rows.attempts) {
      if (attempt.trial == trial) last = id;
    }
    return last;
  }
};

}  // namespace

TEST_CASE("memory in pieces is tried once more with segments that grow, and skips nobody") {
  Fragmented c;
  c.out_of_memory(c.attempt_of(1), true);
  CHECK(c.rows.trials[1].state == State::planned);
  CHECK(c.rows.trials[1].charged == 0);
  c.decide();
  CHECK(c.rows.trials[2].outcome != Outcome::skipped);
  const AttemptId again = c.attempt_of(1);
  CHECK(c.attempt(again).number == 2);
  CHECK(c.attempt(again).expandable);
  CHECK(!c.attempt(c.attempt_of(2)).expandable);

  // Both are kept; the second such end is the trial's, and says nothing of larger ones.
  c.out_of_memory(again, true);
  CHECK(c.rows.trials[1].outcome == Outcome::oom);
  CHECK(c.rows.trials[1].fragmented);
  CHECK(c.attempt(again).ending->fragmented);
  c.decide();
  CHECK(c.rows.trials[2].outcome != Outcome::skipped);
  CHECK(c.rows.trials[3].outcome != Outcome::skipped);
}

TEST_CASE("memory that is used up in the second attempt is a verdict as any other") {
  Fragmented c;
  c.out_of_memory(c.attempt_of(2), true);
  c.decide();
  c.out_of_memory(c.attempt_of(2), false);
  CHECK(c.rows.trials[2].outcome == Outcome::oom);
  CHECK(!c.rows.trials[2].fragmented);
  CHECK(c.world.index().beyond_memory().size() <= 1);
  CHECK(c.rows.trials[1].outcome != Outcome::skipped);
}

TEST_CASE("without that retry the end is the trial's at once") {
  Fragmented c;
  c.policy.retry_fragmented = 0;
  c.out_of_memory(c.attempt_of(1), true);
  CHECK(c.rows.trials[1].outcome == Outcome::oom);
  CHECK(c.rows.trials[1].fragmented);
  CHECK(c.world.index().beyond_memory().empty());
}

TEST_CASE("what the first rank found is kept with the attempt, of a failed one too") {
  Fragmented c;
  RecordsSummary records;
  records.environment = R"({"RANK":"0"})";
  records.image_digest = "unknown";
  c.line(Ended{.attempt = c.attempt_of(1), .ending = {.outcome = Outcome::crashed, .cause = "x"}},
      records);
  bool kept = false;
  for (const Change& change : c.world.changes()) {
    const auto* put = std::get_if<PutAttempt>(&change);
    kept = kept ||
        (put != nullptr && put->row.environment == records.environment &&
            put->row.image_digest == "unknown");
  }
  CHECK(kept);
}
