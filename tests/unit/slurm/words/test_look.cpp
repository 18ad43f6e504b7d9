// SPDX-License-Identifier: Apache-2.0
// One look at squeue and sacct: what is known of each allocation afterwards.
#include "slurm/words/look.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <variant>

using namespace shardsweep;
using namespace shardsweep::slurm;

namespace {

AllocationHandle handle(const std::string& job_id = "") {
  return {.token = "3f9a01ab", .job_name = "s-n2_3f9a01ab", .job_id = job_id};
}

Job job(const std::string& id, const std::string& state, Source source = Source::queue) {
  return {.id = id,
      .name = "s-n2_3f9a01ab",
      .state = state,
      .reason = "None",
      .nodes = "n1",
      .source = source};
}

/// No news: at most that something was missed.
bool says_nothing(const LookResult& result) {
  return std::all_of(result.events.begin(), result.events.end(),
      [](const auto& event) { return std::holds_alternative<JobMissed>(event); });
}

/// Looks at one handle again and again.
struct Watcher {
  LookContext context{.own_uid = 1000, .now_s = 100, .settle_s = 10};
  MissedJobs missed;

  LookResult look(const std::vector<Job>& jobs, const std::string& job_id = "") {
    return conclude({handle(job_id)}, jobs, context, missed);
  }
  JobSeen seen(const std::vector<Job>& jobs, const std::string& job_id = "") {
    const LookResult result = look(jobs, job_id);
    REQUIRE_FALSE(result.events.empty());
    REQUIRE(std::holds_alternative<JobSeen>(result.events[0]));
    return std::get<JobSeen>(result.events[0]);
  }
};

}  // namespace

TEST_CASE("a job is found by its name, whoever read its id") {
  Watcher watcher;
  const JobSeen seen = watcher.seen({job("12", "RUNNING")});
  CHECK(seen.job_id == "12");
  CHECK(seen.state == JobState::running);
  Job other = job("13", "RUNNING");
  other.name = "s-n2_3f9a01ac";
  CHECK(says_nothing(watcher.look({other})));
}

TEST_CASE("an id that a controller has given to another job is not taken for ours") {
  Watcher watcher;
  Job other = job("12", "RUNNING");
  other.name = "s-n2_other";
  CHECK(says_nothing(watcher.look({other}, "12")));
}

TEST_CASE("one look proves nothing even if no answer can be on its way") {
  Watcher watcher;
  watcher.context.settle_s = 0;
  CHECK(says_nothing(watcher.look({})));
  const LookResult second = watcher.look({});
  REQUIRE(second.events.size() == 1);
  CHECK(std::holds_alternative<JobNotSeen>(second.events[0]));
}

TEST_CASE("not there: twice, and not before an answer can have arrived") {
  Watcher watcher;
  CHECK(says_nothing(watcher.look({})));
  watcher.context.now_s += 5;
  CHECK(says_nothing(watcher.look({})));
  watcher.context.now_s += 6;
  const LookResult third = watcher.look({});
  REQUIRE(third.events.size() == 1);
  CHECK(std::holds_alternative<JobNotSeen>(third.events[0]));
  // Being seen in between starts the count again.
  CHECK(says_nothing(watcher.look({})));
  (void)watcher.look({job("12", "PENDING")});
  watcher.context.now_s += 100;
  CHECK(says_nothing(watcher.look({})));
}

TEST_CASE("a first look of a new process goes on where the last one of another has ended") {
  AllocationHandle known = handle();
  const LookContext context{.own_uid = 1000, .now_s = 1, .settle_s = 10};
  const auto look = [&](const std::vector<Job>& jobs) {
    MissedJobs missed;
    return conclude({known}, jobs, context, missed).events;
  };
  REQUIRE(look({}).size() == 1);
  CHECK(std::get<JobMissed>(look({})[0]).what == Missing::job);
  known.missing = Missing::job;
  known.missing_for_s = 5;  // an answer may still be on its way
  CHECK(std::holds_alternative<JobMissed>(look({})[0]));
  known.missing_for_s = 60;
  CHECK(std::holds_alternative<JobNotSeen>(look({})[0]));
  known.missing = Missing::account;  // it was there
  CHECK(std::get<JobMissed>(look({})[0]).what == Missing::job);
}

TEST_CASE("of several jobs with one token the oldest that lives counts, the rest is cancelled") {
  Watcher watcher;
  const LookResult result = watcher.look({job("100", "PENDING"), job("99", "RUNNING")});
  CHECK(std::get<JobSeen>(result.events.at(0)).job_id == "99");
  CHECK(result.cancel == std::vector<NamedJob>{{"100", "s-n2_3f9a01ab"}});
  CHECK(std::get<JobDuplicate>(result.events.at(1)).job_id == "100");
}

TEST_CASE("an element of an array is as old as its array") {
  for (const auto& [older, newer] : {std::pair("999_3", "1000"), std::pair("99_10", "100_0"),
           std::pair("999_3", "999_10"), std::pair("999_3", "1000_0")}) {
    CAPTURE(older);
    Watcher watcher;
    const LookResult result = watcher.look({job(newer, "PENDING"), job(older, "PENDING")});
    CHECK(std::get<JobSeen>(result.events.at(0)).job_id == older);
    REQUIRE(result.cancel.size() == 1);
    CHECK(result.cancel[0].id == newer);
  }
}

TEST_CASE("of several jobs with one token none that runs is cancelled") {
  Watcher watcher;
  const LookResult result = watcher.look({job("100", "RUNNING"), job("99", "RUNNING")});
  CHECK(std::get<JobSeen>(result.events.at(0)).job_id == "99");
  CHECK(result.cancel.empty());
  CHECK(result.events.size() == 1);
}

TEST_CASE("who holds the claim counts, though it is the younger one") {
  Watcher watcher;
  const LookResult result = watcher.look({job("99", "PENDING"), job("100", "RUNNING")}, "100");
  CHECK(std::get<JobSeen>(result.events.at(0)).job_id == "100");
  CHECK(result.cancel == std::vector<NamedJob>{{"99", "s-n2_3f9a01ab"}});
}

TEST_CASE("one that gave way to another with the claim does not end the allocation") {
  Watcher watcher;
  Job loser = job("99", "FAILED", Source::accounting);
  loser.exit_code = 75;
  CHECK(watcher.seen({job("100", "RUNNING"), loser}, "99").job_id == "100");
  // One that failed by itself does.
  loser.exit_code = 1;
  CHECK(watcher.seen({job("100", "RUNNING"), loser}, "99").state == JobState::ended);
}

TEST_CASE("accounting adds who cancelled it, but never overrules a job that is in the queue") {
  Watcher watcher;
  const Job cancelled = job("12", "CANCELLED");
  const Job by_root = job("12", "CANCELLED by 0", Source::accounting);
  const Job by_us = job("12", "CANCELLED by 1000", Source::accounting);
  CHECK(watcher.seen({cancelled, by_root}, "12").outcome == Outcome::reaped);
  CHECK(watcher.seen({cancelled, by_us}, "12").outcome == Outcome::cancelled);
  // A requeued job: accounting still has how it ended the first time.
  const Job first_end = job("12", "NODE_FAIL", Source::accounting);
  CHECK(watcher.seen({job("12", "PENDING"), first_end}, "12").state == JobState::pending);
}

TEST_CASE("the last of a job's rows in accounting is its end") {
  Watcher watcher;
  const auto seen = watcher.seen(
      {job("12", "RESIZING", Source::accounting), job("12", "COMPLETED", Source::accounting)},
      "12");
  CHECK(seen.state == JobState::ended);
}

TEST_CASE("who cancelled a job, or how it failed, is waited for where accounting will tell") {
  for (const char* state : {"CANCELLED", "FAILED"}) {
    Watcher watcher;
    watcher.context.accounting = true;
    CHECK(says_nothing(watcher.look({job("12", state)}, "12")));
    SUBCASE("it tells") {
      Job told = job("12", "CANCELLED by 1000", Source::accounting);
      CHECK(watcher.seen({job("12", state), told}, "12").outcome == Outcome::cancelled);
    }
    SUBCASE("it does not tell in time") {
      watcher.context.complete = false;
      CHECK(says_nothing(watcher.look({job("12", state)}, "12")));
      watcher.context.now_s += 11;
      CHECK(watcher.seen({job("12", state)}, "12").state == JobState::ended);
    }
    SUBCASE("there is none") {
      watcher.context.accounting = false;
      CHECK(watcher.seen({job("12", state)}, "12").state == JobState::ended);
    }
  }
  Watcher watcher;
  watcher.context.accounting = true;
  CHECK(watcher.seen({job("12", "NODE_FAIL")}, "12").outcome == Outcome::node_failure);
}

TEST_CASE("what only accounting still has in the queue is not there") {
  for (const char* state : {"REQUEUED", "PENDING", "RUNNING"}) {
    Watcher watcher;
    const Job left = job("12", state, Source::accounting);
    CHECK(says_nothing(watcher.look({left}, "12")));
    watcher.context.now_s += 11;
    const LookResult second = watcher.look({left}, "12");
    REQUIRE(second.events.size() == 1);
    CHECK(std::holds_alternative<JobNotSeen>(second.events[0]));
  }
}

TEST_CASE("what a controller has lost while it waited was cancelled by nobody and is not there") {
  Job lost = job("12", "CANCELLED", Source::accounting);
  lost.nodes = "None assigned";
  lost.names_canceller = true;
  Watcher watcher;
  CHECK(says_nothing(watcher.look({lost}, "12")));
  watcher.context.now_s += 11;
  const LookResult second = watcher.look({lost}, "12");
  REQUIRE(second.events.size() == 1);
  CHECK(std::holds_alternative<JobNotSeen>(second.events[0]));

  // Whoever reads a list that never says who cancelled a job can't know that nobody did; and
  // one that had nodes had started.
  Job unnamed = lost;
  unnamed.names_canceller = false;
  CHECK(Watcher().seen({unnamed}, "12").outcome == Outcome::reaped);
  Job ran = lost;
  ran.nodes = "n1";
  CHECK(Watcher().seen({ran}, "12").outcome == Outcome::reaped);
  Job by_root = lost;
  by_root.state = "CANCELLED by 0";
  CHECK(Watcher().seen({by_root}, "12").state == JobState::ended);
  CHECK(Watcher().seen({job("12", "CANCELLED"), lost}, "12").outcome == Outcome::reaped);
}

TEST_CASE("while accounting does not answer nobody is missing") {
  Watcher watcher;
  watcher.context.complete = false;
  for (int look = 0; look < 9; ++look) {
    CHECK(says_nothing(watcher.look({})));
    watcher.context.now_s += 10;
  }
}

TEST_CASE("a job that Slurm cancels before it starts may have met a failing prolog") {
  Watcher watcher;
  const Job cancelled = job("12", "CANCELLED by 0", Source::accounting);
  CHECK(watcher.seen({cancelled}, "12").detail.find("prolog") != std::string::npos);
  AllocationHandle claimed = handle("12");
  claimed.claimed = true;
  const LookResult result = conclude({claimed}, {cancelled}, watcher.context, watcher.missed);
  CHECK(std::get<JobSeen>(result.events.at(0)).detail == "CANCELLED by 0");
}

TEST_CASE("accounting is asked about what the queue leaves open") {
  const std::vector<AllocationHandle> handles{handle()};
  CHECK(to_be_accounted(handles, {}).size() == 1);
  CHECK(to_be_accounted(handles, {job("12", "COMPLETED")}).size() == 1);
  CHECK(to_be_accounted(handles, {job("12", "RUNNING")}).empty());
  CHECK(to_be_accounted(handles, {job("12", "PENDING")}).empty());
  CHECK(to_be_accounted(handles, {job("12", "SOMETHING_NEW")}).empty());
}

TEST_CASE("a job that can never start is cancelled") {
  Watcher watcher;
  Job held = job("12", "PENDING");
  held.reason = "launch failed requeued held";
  const LookResult result = watcher.look({held});
  CHECK(result.cancel == std::vector<NamedJob>{{"12", "s-n2_3f9a01ab"}});
  CHECK(std::get<JobSeen>(result.events.at(0)).advice.find("prolog failed") != std::string::npos);
}

TEST_CASE("a submission that has not been answered is not missing, however long it takes") {
  Watcher watcher;
  watcher.context.on_its_way = {"3f9a01ab"};
  for (int look = 0; look < 5; ++look) {
    CHECK(watcher.look({}).events.empty());
    watcher.context.now_s += 60;
  }
  // sbatch hangs and has submitted: the queue knows it before the answer.
  CHECK(watcher.seen({job("12", "RUNNING")}).job_id == "12");
  // From its answer on misses are counted, and from one.
  watcher.context.on_its_way.clear();
  CHECK(says_nothing(watcher.look({})));
}
