// SPDX-License-Identifier: Apache-2.0
// Each arrow of the diagram in fleet/allocation.hpp, taken by the events that take it.
#include "fleet/allocation.hpp"
#include "fleet/silence.hpp"
#include "unit/world_case.hpp"

#include <doctest/doctest.h>

#include <ostream>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// One allocation on Slurm for two trials.
struct Life : Case {
  Timestamp now = noon;

  Life() {
    rows.sweeps.at(1).backend = Backend::slurm;
    input.sweeps[1].backend = Backend::slurm;
    policy.lead_limit_s = 100;
    policy.claim_limit_s = 120;
    trial(1, 1);
    trial(2, 2);
    decide();
  }
  [[nodiscard]] std::string stage() { return std::string(word_of(stage_of(allocation()))); }
  void answer(const SchedulerEvent& event) { fold_scheduler({world, now}, event); }
  void accept() { answer(SubmitAccepted{allocation().token, "7"}); }
  void see(JobState state, Hold hold = Hold::nobody) {
    answer(JobSeen{.token = allocation().token,
        .job_id = "7",
        .state = state,
        .detail = "WORD",
        .after_claim = allocation().claimed_at != 0,
        .hold = hold});
  }
  void claim() { line(Claimed{.token = allocation().token, .job_id = "7"}); }
  void start() { line(Started{.attempt = 1, .nonce = attempt(1).nonce}); }
  void until_running() {
    accept();
    see(JobState::running);
    claim();
    start();
  }
  [[nodiscard]] bool is_cancelled() { return is_to_be_cancelled(allocation(), policy, now); }
};

}  // namespace

TEST_CASE("an allocation goes from its submission to its burial") {
  Life life;
  CHECK(life.stage() == "submitted");
  life.accept();
  CHECK(life.stage() == "pending");
  life.see(JobState::pending);
  CHECK(life.stage() == "pending");
  life.see(JobState::running);
  CHECK(life.stage() == "starting");
  life.claim();
  CHECK(life.stage() == "claimed");
  life.start();
  CHECK(life.stage() == "running");
  CHECK(takes_work(life.allocation()));
  SUBCASE("told to leave") {
    life.world.edit(life.allocation())->draining = true;
  }
  SUBCASE("or leaving by itself") {
    life.line(Bye{"idle"});
  }
  CHECK(life.stage() == "draining");
  CHECK_FALSE(takes_work(life.allocation()));
  CHECK_FALSE(life.is_cancelled());
  life.see(JobState::ended);
  CHECK(life.stage() == "ended");
  CHECK(live(life.allocation()));
  fold_gone(life.fold(), life.policy, life.allocation().id, {{1, {}}, {2, {}}}, "over");
  CHECK(life.stage() == "closed");
  CHECK_FALSE(live(life.allocation()));
}

TEST_CASE("a deferred submission waits for its time, ever longer, and then gives up") {
  Life life;
  const SubmitDeferred later{life.allocation().token, "limit", false};
  life.answer(later);
  CHECK(life.stage() == "deferred");
  CHECK_FALSE(is_due_again(life.allocation(), noon + 14 * second));
  CHECK(is_due_again(life.allocation(), noon + 15 * second));
  // Put off before the clock was set back by an hour.
  CHECK(is_due_again(life.allocation(), noon - 3600 * second));
  life.world.edit(life.allocation())->submit_after = 0;
  CHECK(life.stage() == "submitted");
  for (int i = 0; i < 4; ++i)
    life.answer(later);
  CHECK(life.allocation().submit_after == noon + 240 * second);
  CHECK_FALSE(is_put_off_too_often(life.allocation(), true));
  life.answer(later);
  CHECK(life.stage() == "ended");
  CHECK(life.allocation().submission == Submission::refused);
}

TEST_CASE("a deferred allocation that nobody needs is not due") {
  Life life;
  life.answer(SubmitDeferred{life.allocation().token, "limit"});
  life.world.edit(life.allocation())->draining = true;
  CHECK_FALSE(is_due_again(life.allocation(), noon + 3600 * second));
}

TEST_CASE("a job that no look finds is submitted again") {
  Life life;
  life.answer(SubmitUnknown{life.allocation().token, "no answer"});
  CHECK(life.stage() == "submitted");
  life.answer(JobNotSeen{life.allocation().token});
  CHECK(life.stage() == "ended");
  REQUIRE(never_seen(life.allocation()));
  submit_again(life.fold(), life.allocation());
  CHECK(life.stage() == "submitted");
}

TEST_CASE("a job that starts without a claim is cancelled after its limit") {
  Life life;
  life.accept();
  life.see(JobState::running);
  life.now += 120 * second;
  CHECK_FALSE(life.is_cancelled());
  life.now += second;
  CHECK(life.is_cancelled());
  life.claim();
  CHECK_FALSE(life.is_cancelled());
}

TEST_CASE("a pending job is cancelled where nobody wants it to start") {
  Life life;
  life.accept();
  life.see(JobState::pending);
  CHECK_FALSE(life.is_cancelled());
  SUBCASE("because there is no work left") {
    life.world.edit(life.allocation())->draining = true;
  }
  SUBCASE("or because Slurm has put it back into the queue") {
    life.until_running();
    life.see(JobState::pending);
    CHECK(life.allocation().end_outcome == Outcome::preempted);
  }
  CHECK(life.is_cancelled());
}

TEST_CASE("a lead that is silent for its limit is given up and its job cancelled") {
  Life life;
  life.until_running();
  for (const Timestamp at : {51, 102})
    judge_silence({life.world, noon + at * second}, life.policy, life.allocation());
  CHECK(life.stage() == "silent");
  CHECK(life.is_cancelled());
  life.see(JobState::ended);
  CHECK(life.stage() == "ended");
  CHECK_FALSE(life.is_cancelled());
}

TEST_CASE("a lead on another machine is over when it says so, or says nothing for its limit") {
  Life life;
  life.until_running();
  life.world.edit(life.allocation())->backend = Backend::local;
  life.world.edit(life.allocation())->host = "far";
  life.see(JobState::unknown);  // its process is not here
  CHECK(life.stage() == "running");
  SUBCASE("it leaves") {
    life.line(Bye{"drained"});
    CHECK(life.stage() == "draining");
    life.see(JobState::unknown);
    CHECK(life.allocation().end_reason == "drained");
    CHECK_FALSE(life.allocation().end_outcome);
  }
  SUBCASE("it was killed") {
    for (const Timestamp at : {51, 102})
      judge_silence({life.world, noon + at * second}, life.policy, life.allocation());
    life.see(JobState::unknown);
    CHECK(life.allocation().end_reason == "its lead on far wrote nothing for 102 s");
    CHECK(life.allocation().end_outcome == Outcome::node_failure);
  }
  CHECK(life.stage() == "ended");
}

TEST_CASE("an allocation that was never claimed on another machine ends after its limit") {
  Life life;
  life.world.edit(life.allocation())->backend = Backend::local;
  life.accept();
  SUBCASE("its own machine saw it before") {
    life.see(JobState::running);
  }
  SUBCASE("nobody saw it before") {}
  SUBCASE("its user cancels it") {
    life.world.edit(life.allocation())->draining = true;
  }
  life.now = noon + 1000 * second;
  const auto judge = [&] {
    life.see(JobState::unknown);
    judge_silence({life.world, life.now}, life.policy, life.allocation());
  };
  for (const Timestamp seconds : {0, 60, 60}) {
    life.now += seconds * second;
    judge();
    CHECK(life.stage() != "ended");
    CHECK_FALSE(life.allocation().end_outcome);
  }
  life.now += second;
  judge();
  life.see(JobState::unknown);
  CHECK(life.stage() == "ended");
  CHECK(life.allocation().end_outcome == Outcome::node_failure);
  CHECK(life.allocation().end_reason ==
      "121 s after its start, shardsweep's agent on another machine had not begun to work (WORD)");
}

TEST_CASE("who holds a job is told apart from what it waits for") {
  Life life;
  life.accept();
  life.see(JobState::pending);
  CHECK_FALSE(is_held(life.allocation()));
  life.see(JobState::pending, Hold::user);
  CHECK(is_held(life.allocation()));
  life.see(JobState::running);
  CHECK_FALSE(is_held(life.allocation()));
  life.claim();
  life.start();
  CHECK(should_speak(life.allocation()));
  life.see(JobState::running, Hold::suspended);
  CHECK_FALSE(should_speak(life.allocation()));
}

TEST_CASE("every stage has a word of its own") {
  for (std::size_t i = 0; i < word_table<Stage>.size(); ++i)
    CHECK(from_word<Stage>(word_table<Stage>[i]) == static_cast<Stage>(i));
  CHECK(word_of(Stage::closed) == "closed");
}

TEST_CASE("a lead is heard by when its line was read, however far apart the clocks are") {
  AllocationRow row{.backend = Backend::slurm, .claimed_at = noon};
  constexpr Timestamp hour = 3600 * second;
  for (const Timestamp apart : {Timestamp{0}, hour, -hour, 150 * second, -150 * second}) {
    CAPTURE(apart);
    row.last_beat = noon + apart;
    row.heard_at = noon;
    CHECK(is_heard(row, noon + 59 * second));
    CHECK_FALSE(is_heard(row, noon + 61 * second));
    CHECK(silence_s(row, noon + 61 * second) == doctest::Approx(61));
  }
}

TEST_CASE("of a lead of which no line was read a time that can't be true says nothing") {
  AllocationRow row{.backend = Backend::slurm, .claimed_at = noon};
  row.last_beat = noon;
  CHECK(is_heard(row, noon + 59 * second));
  CHECK_FALSE(is_heard(row, noon + 61 * second));
  // Its clock is ahead: by a little, and by far.
  CHECK(is_heard(row, noon - 20 * second));
  CHECK_FALSE(is_heard(row, noon - 3600 * second));
  CHECK_FALSE(is_heard(row, noon - 150 * second));
}

TEST_CASE("a lead that has left, or has claimed nothing, is not heard") {
  AllocationRow row{.backend = Backend::slurm, .claimed_at = noon, .last_beat = noon};
  CHECK(is_heard(row, noon));
  row.said_bye = true;
  CHECK_FALSE(is_heard(row, noon));
  row.said_bye = false;
  row.claimed_at = 0;
  CHECK_FALSE(is_heard(row, noon));
  row.claimed_at = noon;
  row.backend = Backend::local;  // its processes are looked at themselves
  CHECK_FALSE(is_heard(row, noon));
}

TEST_CASE("an attempt that ran other programs ends by the clock of its start") {
  Life life;
  life.until_running();
  // Its node's clock is an hour ahead of the daemon's.
  const Timestamp ahead = noon + 3600 * second;
  life.attempt(1).started_at = ahead;
  const Ended ended{.attempt = 1, .ending = {.outcome = Outcome::lost, .found_code = "another"}};
  fold_line({life.world, noon}, life.policy, life.allocation().id,
      {life.allocation().from_lead_n + 1, ahead + 5 * second, ended}, {});
  CHECK(life.attempt(1).state == State::ended);
  CHECK(life.attempt(1).ended_at == ahead + 5 * second);
  CHECK(life.world.trial(1)->state == State::planned);
}
