// SPDX-License-Identifier: Apache-2.0
// Other hands and clocks: administrators, stale answers of Slurm, a daemon that was dead for
// hours, nodes whose clock is off. None of it may be charged to a trial.
#include "fleet/allocation.hpp"
#include "fleet/silence.hpp"
#include "slurm/words/job.hpp"
#include "unit/world_case.hpp"

#include <shardsweep/policy.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <variant>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// One trial on Slurm, whose job runs and was claimed at noon.
struct Claim : Case {
  Claim() {
    rows.sweeps.at(1).backend = Backend::slurm;
    input.sweeps[1].backend = Backend::slurm;
    trial(1, 1);
    decide();
    allocation().job_id = "7";
    allocation().submission = Submission::accepted;
  }
  void claim() {
    line(Claimed{.token = allocation().token, .job_id = "7"});
    line(Started{.attempt = 1, .nonce = attempt(1).nonce});
  }
  void heard(Timestamp written, Timestamp read, FromLeadBody body = Beat{}) {
    fold_line({world, read}, policy, allocation().id,
        {allocation().from_lead_n + 1, written, std::move(body)}, RecordsSummary{});
  }
  void job_ended(Outcome outcome, bool own_cancel = false) {
    fold_scheduler(fold(),
        JobSeen{.token = allocation().token,
            .job_id = "7",
            .state = JobState::ended,
            .detail = "WORD",
            .outcome = outcome,
            .after_claim = true,
            .own_cancel = own_cancel});
  }
  void gone(Timestamp at) { fold_gone({world, at}, policy, allocation().id, {{1, {}}}, "over"); }
  [[nodiscard]] AttemptRow ending() const {
    for (auto change = world.changes().rbegin(); change != world.changes().rend(); ++change) {
      const auto* put = std::get_if<PutAttempt>(&*change);
      if (put != nullptr && put->row.outcome()) return put->row;
    }
    return {};
  }
  [[nodiscard]] Timestamp ended_at() const { return ending().ended_at; }
  [[nodiscard]] std::optional<Outcome> outcome() const { return ending().outcome(); }
};

}  // namespace

TEST_CASE("what is advised about a waiting job is a key that a sweep file has") {
  constexpr std::string_view before = "set ";
  const auto is_key = [](std::string_view word) {
    const auto fields = policy_fields();
    return std::any_of(fields.begin(), fields.end(), [&](const PolicyField& field) {
      return word == fmt::format("{}.{}", field.section, field.key);
    });
  };
  for (const char* reason : {"PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit"}) {
    CAPTURE(reason);
    const std::string advice = slurm::explain_reason(reason);
    const std::size_t at = advice.find(before);
    REQUIRE(at != std::string::npos);
    const std::string word = advice.substr(at + before.size());
    CHECK(is_key(word.substr(0, word.find(' '))));
  }
}

TEST_CASE("a job whose prolog outlasts the limit of a claim was cancelled by shardsweep") {
  Claim c;
  const auto seen = [&](Timestamp at, JobState state, bool own_cancel) {
    fold_scheduler({c.world, at},
        JobSeen{.token = c.allocation().token,
            .job_id = "7",
            .state = state,
            .detail = "CANCELLED by 1000",
            .outcome = Outcome::cancelled,
            .own_cancel = own_cancel});
    return c.allocation().end_reason;
  };
  CHECK(seen(noon, JobState::running, false).empty());
  SUBCASE("it says so, and what to set") {
    const std::string why = seen(noon + 610 * second, JobState::ended, true);
    CHECK(why.find("610 s after its start") != std::string::npos);
    CHECK(why.find("daemon.claim_limit") != std::string::npos);
  }
  SUBCASE("a user's scancel is the user's") {
    CHECK(seen(noon + second, JobState::ended, false) == "CANCELLED by 1000");
  }
  SUBCASE("what had been claimed did not wait for a lead") {
    c.claim();
    CHECK(seen(noon + second, JobState::ended, true) == "CANCELLED by 1000");
  }
}

TEST_CASE("an attempt ended when its lead wrote so, not when a daemon reads it") {
  Claim c;
  c.claim();
  c.heard(noon + 3 * second, noon + 36'000 * second,
      Ended{.attempt = 1, .ending = {.outcome = Outcome::crashed}});
  CHECK(c.ended_at() == noon + 3 * second);
}

TEST_CASE("an attempt whose lead died ended with the lead's last sign of life") {
  Claim c;
  c.claim();
  c.heard(noon + 5 * second, noon + 36'000 * second);
  c.gone(noon + 36'000 * second);
  CHECK(c.ended_at() == noon + 5 * second);
}

TEST_CASE("a lead that speaks outranks a queue that does not list its job") {
  Claim c;
  c.claim();
  c.heard(noon, noon);
  const auto not_seen = [&](Timestamp at) {
    fold_scheduler({c.world, at}, JobNotSeen{c.allocation().token});
    return c.allocation().job_state == JobState::ended;
  };
  CHECK_FALSE(not_seen(noon + 30 * second));
  c.heard(noon + 50 * second, noon + 50 * second);
  CHECK_FALSE(not_seen(noon + 80 * second));
  SUBCASE("as long as it speaks") {
    CHECK(not_seen(noon + 111 * second));
  }
  SUBCASE("and until it says that it leaves") {
    c.heard(noon + 81 * second, noon + 81 * second, Bye{"drained"});
    CHECK(not_seen(noon + 82 * second));
  }
}

TEST_CASE("a job that Slurm put back and shardsweep cancelled was not cancelled by the user") {
  Claim c;
  SUBCASE("the claim is read before the end") {
    c.claim();
    c.job_ended(Outcome::cancelled, true);
  }
  SUBCASE("the claim is read after the end") {
    c.job_ended(Outcome::cancelled, true);
    c.claim();
  }
  c.gone(noon + second);
  CHECK(c.outcome() == Outcome::preempted);
  CHECK(c.rows.trials[1].state == State::planned);
  CHECK(c.rows.trials[1].charged == 0);
}

TEST_CASE("the user's own scancel is a cancellation") {
  Claim c;
  c.claim();
  c.job_ended(Outcome::cancelled);
  c.gone(noon + second);
  CHECK(c.outcome() == Outcome::cancelled);
}

TEST_CASE("a time limit that an administrator lowered is not the trial's") {
  Claim c;
  c.allocation().time_limit_s = 600;
  c.claim();
  SUBCASE("and the end is seen before the lead's lines are read") {
    c.job_ended(Outcome::timeout);
    c.heard(noon + 590 * second, noon + 600 * second,
        Ended{.attempt = 1, .ending = {.outcome = Outcome::preempted}});
    CHECK(c.outcome() == Outcome::timeout);
  }
  SUBCASE("lowered") {
    c.heard(noon + 120 * second, noon + 120 * second);
    c.job_ended(Outcome::timeout);
    c.gone(noon + 121 * second);
    CHECK(c.outcome() == Outcome::reaped);
    CHECK(c.rows.trials[1].charged == 0);
    CHECK(c.rows.trials[1].state == State::planned);
  }
  SUBCASE("as asked for") {
    c.heard(noon + 590 * second, noon + 590 * second);
    c.job_ended(Outcome::timeout);
    c.gone(noon + 600 * second);
    CHECK(c.outcome() == Outcome::timeout);
  }
}

TEST_CASE("a node whose clock is behind is not silent") {
  Claim c;
  c.policy.lead_limit_s = 100;
  c.heard(noon - 150 * second, noon, Claimed{.token = c.allocation().token});
  c.heard(noon - 150 * second, noon, Started{.attempt = 1, .nonce = c.attempt(1).nonce});
  c.allocation().job_state = JobState::running;
  // Each line comes at once, with a time that is 150 s old.
  for (int i = 0; i < 3; ++i) {
    const Timestamp now = noon + (200 + 40 * i) * second;
    c.heard(now - 150 * second, now);
    judge_silence({c.world, now}, c.policy, c.allocation());
  }
  CHECK(c.allocation().quiet_since == 0);
  CHECK_FALSE(is_given_up(c.allocation()));
  CHECK(silence_s(c.allocation(), noon + 290 * second) == doctest::Approx(10));
}
