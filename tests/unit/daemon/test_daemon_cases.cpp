// SPDX-License-Identifier: Apache-2.0
// The daemon in memory: each refusal, deferral, lost answer, outage, skew and death as a short
// case. A test says what Slurm and the leads do; the daemon and its database are real.
#include "unit/daemon/daemon_case.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <algorithm>

using namespace shardsweep;
using shardsweep::testing::Case;
using shardsweep::testing::must;
using shardsweep::testing::one;
using shardsweep::testing::PlayedJob;
using shardsweep::testing::PlayedSite;
using shardsweep::testing::PlayedSweep;
using shardsweep::testing::Sbatch;

TEST_CASE("status says what a sweep waits for while its nodes run no trial") {
  Case c({.settings = "control: {tp: 8}\n", .micro_batch = {1}});
  c.slurm.start(c.job(), c.random);
  c.pass(30, 5);
  CHECK(c.status().waiting.ends_with(": its nodes are there, its lead has not started yet"));
  REQUIRE(c.job().lead->claim(c.slurm.lead_time(c.job())));
  c.pass(12);
  CHECK(c.status().waiting.ends_with(": no trial has started on its nodes yet"));
  c.job().lead->hear(c.random, c.slurm.lead_time(c.job()));
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  REQUIRE(c.job().lead->runs_extra());
  c.pass(12);
  CHECK(c.status().waiting.ends_with(": a control run is on its nodes"));
}

TEST_CASE("status says what a sweep waits for while the one job that it may have leaves") {
  Case c({.settings = "control: {tp: 8}\nlimits: {max_allocations: 1}\nlane: {length: 1}\n"});
  c.start_job(c.job());
  c.run_attempt(c.job(), Outcome::completed);
  REQUIRE(c.trials() == "queued planned");  // that was the control
  c.pass(12);
  c.run_attempt(c.job(), Outcome::completed);
  c.pass(12);
  REQUIRE(c.trials() == "completed planned");
  CHECK(c.status().waiting.ends_with(": it gives its nodes back"));
  c.job().lead->hear(c.random, c.slurm.lead_time(c.job()));
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  REQUIRE(c.job().lead->runs_extra());
  c.pass(12);
  CHECK(c.status().waiting.ends_with(": a control run is on its nodes"));
}

TEST_CASE("a sweep is submitted and measured, and its daemon leaves") {
  Case c;
  CHECK(c.slurm.jobs.size() == 1);
  c.complete();
  CHECK(c.trials() == "completed completed");
  CHECK(c.count("measurements") == 2);
  CHECK(c.slurm.calls.submissions == 1);
  CHECK(c.sql("SELECT state || submission FROM allocations") == "endedaccepted");
}

// ---- submissions

TEST_CASE("a submission without an answer is looked up and adopted") {
  Case c(Sbatch::lost);
  CHECK(c.sql("SELECT submission FROM allocations") == "committed");
  c.pass(60);
  CHECK(c.sql("SELECT submission || ' ' || job_id FROM allocations") == "accepted 1");
  CHECK(c.event("adopted") == "found as 1");
  c.complete();
  CHECK(c.slurm.calls.submissions == 1);
}

TEST_CASE("a submission that never arrived is made again under its token") {
  Case c(Sbatch::unsent);
  c.pass(120);
  CHECK(c.slurm.calls.submissions == 2);
  CHECK(c.count("allocations") == 1);
  CHECK(c.event("submitted again") == "no job with its token exists");
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a late answer changes nothing of a job that was found meanwhile") {
  Case c(Sbatch::late);
  c.pass(12);
  c.start_job(c.job());
  c.pass(40);
  CHECK(c.sql("SELECT submission || ' ' || job_state FROM allocations") == "accepted running");
  c.complete();
  CHECK(c.slurm.calls.submissions == 1);
}

TEST_CASE("refusals in a row pause the sweep with a sentence") {
  Case c(Sbatch::refuses, 10);
  c.pass(60);
  CHECK(c.slurm.calls.submissions == 3);
  CHECK(c.status().state == "paused");
  CHECK(c.status().waiting.find("invalid partition") != std::string::npos);
  CHECK(c.trials() == "planned planned");
}

TEST_CASE("a resumed sweep goes on after its refusals") {
  Case c(Sbatch::refuses, 3);
  c.pass(60);
  (void)c.ask(Verb::resume, {"a"});
  c.tick();
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a deferral is asked again ever more rarely") {
  Case c(Sbatch::defers, 6);
  c.pass(14);
  CHECK(c.slurm.calls.submissions == 1);
  c.pass(16);
  CHECK(c.slurm.calls.submissions == 2);
  c.pass(420);
  CHECK(c.slurm.calls.submissions == 5);
  CHECK(c.count("allocations") == 1);
}

TEST_CASE("a deferral is shown in status") {
  Case c(Sbatch::defers);
  c.tick();
  c.tick(6);
  CHECK(c.troubles().find("too many jobs") != std::string::npos);
}

TEST_CASE("a limit that may never pass is given up after five times") {
  Case c(Sbatch::full, 50);
  c.pass(3600, 5);
  CHECK(c.status().state == "paused");
  CHECK(c.status().waiting.find("put off 5 times") != std::string::npos);
}

TEST_CASE("a deferred submission that nobody wants any more is dropped") {
  Case c(Sbatch::defers);
  (void)c.ask(Verb::cancel, {"a"});
  c.pass(5);
  CHECK_FALSE(c.alive());
  CHECK(c.slurm.calls.submissions == 1);
  CHECK(c.trials() == "cancelled cancelled");
}

TEST_CASE("a daemon that dies while its submission is deferred keeps the time") {
  Case c(Sbatch::defers);
  c.die();
  c.start();
  c.pass(10);
  CHECK(c.slurm.calls.submissions == 1);
  c.pass(10);
  CHECK(c.slurm.calls.submissions == 2);
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a strict site releases a job when its id is committed") {
  Case c(PlayedSweep{.site = "backend: slurm\nstrict: true\n", .micro_batch = {1}});
  CHECK(c.job().reason == "JobHeldUser");
  c.pass(30);
  CHECK(c.job().reason == "Priority");
  c.complete();
  CHECK(c.trials() == "completed");
}

// ---- looks

TEST_CASE("a scheduler that does not answer changes nothing and is told") {
  Case c;
  c.slurm.reachable = false;
  c.pass(60);
  CHECK(c.sql("SELECT state || job_state FROM allocations") == "queuedpending");
  CHECK(c.troubles().find("Unable to contact slurmctld") != std::string::npos);
  c.slurm.reachable = true;
  c.complete();
  CHECK(c.troubles().find("slurmctld") == std::string::npos);
}

TEST_CASE("a queue that lists nothing does not end a lead that speaks") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.slurm.lists_nothing = true;
  c.pass(120);
  CHECK(c.sql("SELECT state FROM allocations") == "running");
  CHECK(c.trials() == "running queued");
  c.slurm.lists_nothing = false;
  c.job().lead->end(Outcome::completed, c.slurm.lead_time(c.job()));
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a job that vanished for a while leads to a second job and one claim") {
  Case c;
  c.pass(12);
  c.job().hidden = true;
  c.pass(60);
  REQUIRE(c.slurm.jobs.size() == 2);
  c.slurm.jobs.front().hidden = false;
  c.pass(30);
  CHECK(std::count_if(c.slurm.jobs.begin(), c.slurm.jobs.end(),
            [](const PlayedJob& job) { return job.pends(); }) == 1);
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("of two jobs of one token the claim lets one run") {
  Case c;
  c.pass(12);
  c.job().hidden = true;
  c.pass(60);
  REQUIRE(c.slurm.jobs.size() == 2);
  PlayedJob& first = c.slurm.jobs.front();
  c.start_job(c.slurm.jobs.back());
  c.slurm.start(first, c.random);
  CHECK_FALSE(first.lead->claim(c.clock.true_time()));
  c.slurm.finish(first, "FAILED", 75);
  first.hidden = false;
  c.complete();
  CHECK(c.trials() == "completed completed");
  CHECK(c.count("attempts") == 2);
}

TEST_CASE("a look that began before the claim cancels no job that runs") {
  Case c;
  c.pass(12);
  c.job().hidden = true;
  c.pass(60);
  REQUIRE(c.slurm.jobs.size() == 2);
  c.slurm.jobs.front().hidden = false;
  c.slurm.look_takes_s = 8;
  const auto looks = c.slurm.calls.looks;
  while (c.slurm.calls.looks == looks)
    c.pass(1);
  c.start_job(c.slurm.jobs.back());
  c.pass(20);
  CHECK(c.slurm.jobs.back().runs());
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a job held by its user waits with a sentence") {
  Case c;
  c.job().reason = "JobHeldUser";
  c.pass(12);
  CHECK(c.status().waiting.find("scontrol release") != std::string::npos);
  c.job().reason = "Priority";
  c.complete();
}

TEST_CASE("a job that can never start is cancelled and counted") {
  Case c;
  for (int i = 0; i < 3; ++i) {
    c.job().reason = "launch failed requeued held";
    c.pass(60);
  }
  CHECK(c.slurm.calls.cancels >= 3);
  CHECK(c.status().state == "paused");
  CHECK(c.trials() == "planned planned");
}

TEST_CASE("what leads have measured while no daemon was there is not cancelled") {
  Case c;
  c.start_job(c.job());
  c.pass(2);
  c.die();
  c.run_attempt(c.job(), Outcome::completed);
  c.run_attempt(c.job(), Outcome::oom);
  const Answer answer = c.ask(Verb::cancel, {"a"});
  CHECK(answer.text.find("2 had already ended") != std::string::npos);
  CHECK(c.trials() == "completed oom");
  CHECK(c.sql("SELECT sum(counted) FROM attempts") == "1");
  CHECK(c.status().state != "cancelled");
}

TEST_CASE("a result counts though its trial was cancelled before the news of it came") {
  for (const std::string where : {"", "micro_batch = 1"}) {
    Case c;
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.job().lead->leave_result();
    (void)c.ask(Verb::cancel, {"a"}, where);
    CHECK(c.trials().starts_with("cancelled "));
    c.job().lead->end(Outcome::cancelled, c.slurm.lead_time(c.job()));
    c.pass(5);
    CHECK(c.trials().starts_with("completed "));
    CHECK(c.sql("SELECT counted FROM attempts WHERE id = 1") == "1");
    CHECK(c.sql("SELECT cancelled_by FROM trials WHERE id = 1").empty());
    (void)c.ask(Verb::resume, {"a"});
    c.complete();
    CHECK(c.trials() == "completed completed");
    CHECK(c.sql("SELECT count(*) FROM attempts WHERE trial = 1") == "1");
  }
}

TEST_CASE("a doubtful result of a cancelled trial counts and is not measured again") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  (void)c.ask(Verb::cancel, {"a"});
  c.job().lead->end(Outcome::completed, c.slurm.lead_time(c.job()), Mark::contaminated);
  c.pass(5);
  CHECK(c.trials() == "completed cancelled");
}

TEST_CASE("records that can't be read are a trouble until they are read or given up") {
  Case c;
  c.start_job(c.job());
  const auto end_without_pack = [&] {
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    Ended ended{.attempt = c.job().lead->running(), .pack = "not.there.tar"};
    ended.ending.outcome = Outcome::completed;
    c.job().lead->end(ended, c.slurm.lead_time(c.job()));
  };
  end_without_pack();
  c.pass(8);
  CHECK(c.trials() == "running queued");
  CHECK(c.troubles().find("unreadable") != std::string::npos);
  CHECK(c.troubles().find(".tar is not there") != std::string::npos);
  const std::string dir = c.sql("SELECT dir FROM attempts WHERE id = 1");
  must(pack_attempt({dir}, 1000));
  c.pass(12);
  CHECK(c.trials() == "completed queued");
  CHECK(c.troubles().find("unreadable") == std::string::npos);
  end_without_pack();
  c.pass(8);
  CHECK(c.troubles().find("unreadable") != std::string::npos);
  c.pass(100);
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 2") == "lost");
  CHECK(c.troubles().find("unreadable") == std::string::npos);
}

TEST_CASE("records that can't be read hold up no other trial, also over a death") {
  for (const bool dies : {false, true}) {
    CAPTURE(dies);
    Case c;
    c.start_job(c.job());
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    Ended ended{.attempt = c.job().lead->running(), .pack = "not.there.tar"};
    ended.ending.outcome = Outcome::completed;
    c.job().lead->end(ended, c.slurm.lead_time(c.job()));
    REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
    c.job().lead->end(Outcome::completed, c.slurm.lead_time(c.job()));
    c.pass(8);
    CHECK(c.trials() == "running completed");
    if (dies) {
      c.die();
      c.start();
      c.pass(4);
      CHECK(c.trials() == "running completed");
    }
    must(pack_attempt({c.sql("SELECT dir FROM attempts WHERE id = 1")}, 1000));
    c.pass(12);
    CHECK(c.trials() == "completed completed");
    CHECK(c.count("attempts") == 2);
    CHECK(c.count("attempts WHERE counted = 1") == 2);
  }
}

TEST_CASE("a running job that the user cancels leaves its trials undecided and goes on") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.slurm.cancel(c.job(), "CANCELLED by 0");
  c.pass(30);
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "reaped");
  CHECK(c.sql("SELECT charged FROM trials WHERE id = 1") == "0");
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a preempted job is no fault of its trial") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.slurm.cancel(c.job(), "PREEMPTED");
  c.pass(30);
  CHECK(c.sql("SELECT outcome || source FROM attempts WHERE id = 1") == "preemptedscheduler");
  CHECK(c.sql("SELECT charged || elsewhere FROM trials WHERE id = 1") == "01");
}

TEST_CASE("what a lead said of a preempted attempt waits for the scheduler and is kept") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  Ended said;
  said.ending.outcome = Outcome::preempted;
  said.ending.signal = 15;
  said.ending.leaked = 2;
  c.job().lead->end(said, c.slurm.lead_time(c.job()));
  c.pass(12);
  CHECK(c.sql("SELECT state FROM attempts WHERE id = 1") == "running");
  c.slurm.cancel(c.job(), "PREEMPTED");
  c.pass(30);
  CHECK(c.sql("SELECT outcome || leaked || signal FROM attempts WHERE id = 1") == "preempted215");
}

TEST_CASE("a job that is put back into the queue is not started again") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(12);
  c.slurm.requeue(c.job());
  c.pass(60);
  CHECK(c.job().state == "PENDING");
  CHECK(c.slurm.jobs.front().state.starts_with("CANCELLED"));
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "preempted");
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a job that ends before accounting tells why is waited for") {
  Case c;
  c.slurm.accounting_lag_s = 8;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.slurm.cancel(c.job(), "CANCELLED by 0");
  c.pass(60);
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "reaped");
}

// ---- leads and nodes

TEST_CASE("a job that nobody claims is cancelled") {
  Case c({.settings = "daemon: {claim_limit: 120s}\n", .micro_batch = {1, 2}});
  c.slurm.start(c.job(), c.random);
  c.pass(200);
  CHECK(c.slurm.jobs.front().over());
  CHECK(c.slurm.jobs.size() == 2);
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a silent lead is given up after its limit and its attempt tried elsewhere") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.job().silent = c.job().was_silent = true;
  c.pass(290, 5);
  CHECK(c.sql("SELECT state FROM attempts WHERE id = 1") == "running");
  c.pass(60, 5);
  CHECK(c.slurm.jobs.front().over());
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "node_failure");
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a silent lead is given up where each pass is a process of its own") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(30);
  c.job().silent = c.job().was_silent = true;
  for (int ticks = 0; ticks < 10; ++ticks) {
    c.die();
    c.start();
    c.tick(60);
    c.tick(1);
  }
  CHECK(c.slurm.jobs.front().over());
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "node_failure");
}

TEST_CASE("a result of a lead that died without a word counts") {
  Case c(one);
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.job().lead->leave_result();
  c.slurm.finish(c.job(), "NODE_FAIL");
  c.pass(30);
  CHECK(c.trials() == "completed");
  CHECK(c.count("measurements") == 1);
}

TEST_CASE("a lead that outlives its job finds nothing to do") {
  Case c;
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  PlayedJob& lost = c.job();
  c.slurm.finish(lost, "NODE_FAIL");
  lost.lead_alive = true;
  lost.silent = lost.was_silent = true;
  c.pass(30);
  lost.lead->hear(c.random, c.slurm.lead_time(lost));
  CHECK_FALSE(lost.lead->runs());
  CHECK(lost.lead->draining());
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("a node that fails an attempt is excluded and comes back by a short run") {
  Case c(PlayedSweep{.settings = "lane: {length: 1}\nlimits: {max_allocations: 1}"});
  c.start_job(c.job());
  const std::string bad = c.job().nodes;
  c.run_attempt(c.job(), Outcome::node_failure, 10, bad);
  c.job().lead->leave("node lost", c.slurm.lead_time(c.job()));
  c.slurm.finish(c.job(), "COMPLETED");
  c.pass(30);
  CHECK(c.sql("SELECT state FROM node_states WHERE node = '" + bad + "'") == "quarantined");
  c.start_job(c.job());
  CHECK(c.job().nodes != bad);
  c.pass(700, 5);
  CHECK(c.sql("SELECT state FROM node_states WHERE node = '" + bad + "'") == "probation");
}

TEST_CASE("attempts that were never started go back without a charge") {
  Case c;
  c.start_job(c.job());
  c.slurm.finish(c.job(), "NODE_FAIL");
  c.pass(30);
  CHECK(c.sql("SELECT outcome FROM attempts WHERE id = 1") == "cancelled");
  CHECK(c.sql("SELECT charged + elsewhere FROM trials WHERE id = 1") == "0");
  c.complete();
  CHECK(c.trials() == "completed completed");
}

TEST_CASE("larger micro-batches are skipped after an oom") {
  Case c;
  c.start_job(c.job());
  c.run_attempt(c.job(), Outcome::oom);
  c.complete();
  CHECK(c.trials() == "oom skipped");
}

// ---- deaths

TEST_CASE("a daemon may die at any call of a sweep's life") {
  int point = 1;
  for (bool died = true; died; point += 1 + point / 40) {
    CAPTURE(point);
    PlayedSite site;
    site.submit(one);
    site.fate.kill_at(point);
    bool measured = false;
    for (int turns = 0; turns < 60; ++turns) {
      site.start();
      site.pass(6, 2);
      for (PlayedJob& job : site.slurm.jobs) {
        if (job.pends()) site.start_job(job);
        if (!job.runs()) continue;
        job.lead->hear(site.random, site.slurm.lead_time(job));
        if (job.lead->start_next(site.slurm.lead_time(job)))
          job.lead->end(Outcome::completed, site.slurm.lead_time(job));
        measured = measured || !site.slurm.attempts.by_nonce.empty();
        if (!job.lead->draining()) continue;
        job.lead->leave("drained", site.slurm.lead_time(job));
        site.slurm.finish(job, "COMPLETED");
      }
      if (site.sql("SELECT count(*) FROM allocations WHERE state <> 'ended'") == "0" && measured)
        break;
    }
    died = site.deaths() > 0;
    CHECK(site.trials() == "completed");
    CHECK(site.slurm.jobs.size() == 1);
    CHECK(site.sql("SELECT count(*) FROM attempts") == "1");
    for (const std::string& violation : site.slurm.violations)
      FAIL_CHECK(violation);
  }
  CHECK(point > 100);
}

TEST_CASE("an answer that can't be written keeps no other request waiting") {
  Case c;
  const std::string id = must(post_request(
      c.home, {.verb = Verb::pause, .names = {"a"}, .from = "test"}, c.clock.true_time()));
  std::filesystem::create_directories(c.home.answers() / id / "in the way");
  const Answer answer = c.ask({.verb = Verb::pause, .names = {"a"}});
  CHECK_FALSE(answer.fault);
}

TEST_CASE("a rerun whose answer can't be written is done once, also by a later daemon") {
  Case c(one);
  c.complete();
  REQUIRE(c.trials() == "completed");
  c.start();
  const std::string id = must(post_request(
      c.home, {.verb = Verb::rerun, .names = {"a"}, .from = "test"}, c.clock.true_time()));
  const auto in_the_way = c.home.answers() / id / "in the way";
  std::filesystem::create_directories(in_the_way);
  c.pass(2);
  c.start_job(c.job());
  c.run_attempt(c.job(), Outcome::completed);
  c.pass(2);
  REQUIRE(c.sql("SELECT attempts FROM trials") == "2");
  c.die();
  c.start();
  c.pass(5);
  CHECK(c.trials() == "completed");
  CHECK(c.count("events WHERE kind = 'rerun'") == 1);
  std::filesystem::remove_all(in_the_way.parent_path());
  c.pass(5);
  const auto answer = must(take_answer(c.home, id));
  REQUIRE(answer);
  CHECK_FALSE(answer->fault);
  CHECK(answer->counts.at("trials") == 1);
  c.complete();
  CHECK(c.sql("SELECT attempts FROM trials") == "2");
}

// ---- thrift

TEST_CASE("a daemon that waits for Slurm commits nothing and asks rarely") {
  Case c;
  c.pass(60);
  const auto commits = c.store.commits();
  const auto looks = c.slurm.calls.looks;
  c.pass(600);
  CHECK(c.store.commits() == commits);
  CHECK(c.slurm.calls.looks - looks <= 60);
  CHECK(c.pause().count() >= 1000);
}

TEST_CASE("an epilog that hangs after the lead has left is not asked about every two seconds") {
  Case c(one);
  PlayedJob& job = c.slurm.jobs.front();
  c.start_job(job);
  c.pass(12);
  job.lead->leave("drained", c.slurm.lead_time(job));
  job.lead_alive = false;
  c.pass(70);
  const auto looks = c.slurm.calls.looks;
  c.pass(600);
  CHECK(c.slurm.calls.looks - looks <= 60);
}

TEST_CASE("beats of leads are no transactions") {
  Case c(one);
  c.start_job(c.job());
  REQUIRE(c.job().lead->start_next(c.slurm.lead_time(c.job())));
  c.pass(30);
  const auto commits = c.store.commits();
  c.pass(300);
  CHECK(c.store.commits() == commits);
}
