// SPDX-License-Identifier: Apache-2.0
// A daemon's life from taking the database to giving it back, and what it does beside running
// trials: notices, searches, hours, budgets, requests, outages of its own database.
#include "unit/daemon/played_site.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/daemon_lock.hpp>

#include <fmt/format.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <vector>

using namespace shardsweep;
using shardsweep::testing::must;
using shardsweep::testing::PlayedJob;
using shardsweep::testing::PlayedSite;

namespace {

/// The pauses between its passes are real ones.
constexpr const char* quick = "daemon: {tick: 10ms, idle_tick: 10ms}";

struct Life : PlayedSite {
  /// A second of simulated time: jobs start, run what is assigned, and leave.
  void play() {
    clock.advance(1'000'000);
    beat();
    for (PlayedJob& job : slurm.jobs) {
      if (job.pends()) start_job(job);
      if (!job.runs()) continue;
      job.lead->hear(random, slurm.lead_time(job));
      if (job.lead->start_next(slurm.lead_time(job)) && job.lead->runs())
        job.lead->end(Outcome::completed, slurm.lead_time(job));
      if (!job.lead->draining() || job.lead->runs()) continue;
      job.lead->leave("drained", slurm.lead_time(job));
      slurm.finish(job, "COMPLETED");
    }
  }
  LifeOptions until_idle() {
    LifeOptions options;
    options.until_idle = true;
    options.beside = [this] { play(); };
    return options;
  }
  DaemonParts quick_parts() {
    DaemonParts all = parts();
    all.policy.tick_s = all.policy.idle_tick_s = 0.001;
    return all;
  }
  /// A sweep in the database, and no daemon: the lease of the last one has run out.
  void leave_sweep() {
    submit({.settings = quick});
    die();
    clock.advance(60'000'000);
  }
  void run_to_the_end() {
    for (int turns = 0; turns < 300 && alive(); ++turns) {
      play();
      tick(0);
    }
    CHECK_FALSE(alive());
  }
  /// The process that has the lease; 0: none.
  std::int64_t holder() {
    const auto lease = must(store.lease_holder());
    return lease ? lease->pid : 0;
  }
  LeaseHolder other_host() {
    LeaseHolder other{.host = "login2", .boot_id = "b", .pid = 4242, .pid_start = 1};
    other.since = other.renewed = clock.time();
    return other;
  }
};

}  // namespace

// ---- taking the database and giving it back

TEST_CASE("a daemon runs until nothing is left and gives its lease back") {
  Life life;
  life.leave_sweep();
  const auto left = run_daemon(life.quick_parts(), life.until_idle());
  REQUIRE(left);
  CHECK(*left);
  CHECK(life.trials() == "completed completed");
  CHECK(life.holder() == 0);
}

TEST_CASE("a single pass submits and leaves") {
  Life life;
  life.leave_sweep();
  const auto submissions = life.slurm.calls.submissions;
  LifeOptions once;
  once.once = true;
  const auto left = run_daemon(life.quick_parts(), once);
  REQUIRE(left);
  CHECK_FALSE(*left);
  CHECK(life.slurm.calls.submissions <= submissions + 1);
}

TEST_CASE("a daemon is told that another host has its database") {
  Life life;
  must(life.store.take_lease(life.other_host()));
  const auto refused = run_daemon(life.quick_parts(), {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FaultKind::busy);
  CHECK(refused.error().what.find("held by pid 4242 on login2 since 2023-11-14") !=
      std::string::npos);
}

TEST_CASE("a single pass has nothing to do and to say beside a daemon that is at work") {
  Life life;
  life.leave_sweep();
  must(life.store.take_lease(life.other_host()));
  LifeOptions once;
  once.once = true;
  const auto left = run_daemon(life.quick_parts(), once);
  REQUIRE(left);
  CHECK_FALSE(*left);
  CHECK(life.sql("SELECT host FROM lease") == "login2");
}

TEST_CASE("a daemon takes over from another host when it is told to") {
  Life life;
  life.leave_sweep();
  must(life.store.take_lease(life.other_host()));
  LifeOptions options = life.until_idle();
  options.take_over = true;
  REQUIRE(run_daemon(life.quick_parts(), options));
  CHECK(life.trials() == "completed completed");
}

TEST_CASE("a lease that ran out needs nobody's word") {
  Life life;
  life.leave_sweep();
  must(life.store.take_lease(life.other_host()));
  life.clock.advance(60'000'000);
  REQUIRE(run_daemon(life.quick_parts(), life.until_idle()));
  CHECK(life.trials() == "completed completed");
}

TEST_CASE("a daemon that was replaced writes no more") {
  Life life;
  life.leave_sweep();
  const auto other = must(Store::open(life.home.database));
  LifeOptions options;
  int passes = 0;
  options.beside = [&] {
    life.clock.advance(1'000'000);
    if (++passes == 3) must(other->take_lease(life.other_host()));
  };
  const auto ended = run_daemon(life.quick_parts(), options);
  REQUIRE_FALSE(ended);
  CHECK(ended.error().kind == FaultKind::rejected);
  CHECK(passes < 30);
}

TEST_CASE("a signal and a request end the daemon and leave jobs alone") {
  for (const bool by_signal : {true, false}) {
    CAPTURE(by_signal);
    Life life;
    life.leave_sweep();
    LifeOptions options;
    int passes = 0;
    options.beside = [&] {
      life.clock.advance(1'000'000);
      if (++passes != 5) return;
      Request stop;
      if (by_signal) {
        ::raise(SIGTERM);
      } else {
        must(post_request(life.home, stop, life.clock.true_time()));
      }
    };
    const auto left = run_daemon(life.quick_parts(), options);
    REQUIRE(left);
    CHECK_FALSE(*left);
    CHECK(life.job().pends());
    CHECK(life.holder() == 0);
  }
}

TEST_CASE("a daemon without work waits for the first and then ends") {
  Life life;
  LifeOptions options = life.until_idle();
  options.first_work_s = 10;
  const auto before = life.clock.true_time();
  const auto left = run_daemon(life.quick_parts(), options);
  REQUIRE(left);
  CHECK(*left);
  CHECK(life.clock.true_time() - before >= 10'000'000);
}

// ---- what it does beside

TEST_CASE("users are told of ends and nodes where their site says so") {
  Life life;
  life.submit({.settings = "lane: {length: 1}",
      .site = "backend: slurm\nnotify: {url: 'https://hooks.example/x'}\n"});
  life.tick();
  life.start_job(life.job());
  const std::string bad = life.job().nodes;
  life.run_attempt(life.job(), Outcome::node_failure, 5, bad);
  life.tick();
  life.run_to_the_end();
  const auto told = [&](NotifyEvent event, const std::string& word) {
    return std::any_of(life.notices.begin(), life.notices.end(), [&](const Notice& notice) {
      return notice.event == event && notice.text.find(word) != std::string::npos;
    });
  };
  CHECK(told(NotifyEvent::node_quarantined, bad));
  CHECK(told(NotifyEvent::sweep_ended, "a"));
}

TEST_CASE("a sweep that is searched comes to its end by its search") {
  Life life;
  life.submit({.settings = "search: {policy: best_first, until: {regret: 5%}}",
      .micro_batch = {1, 2, 4, 8}});
  life.run_to_the_end();
  CHECK(life.sql("SELECT count(*) FROM trials WHERE state <> 'ended'") == "0");
  CHECK(life.sql("SELECT count(*) FROM measurements") != "0");
}

TEST_CASE("a search goes on where a daemon before had it") {
  Life life;
  life.submit({.settings = "search: {policy: best_first, until: {regret: 5%}}",
      .micro_batch = {1, 2, 4, 8}});
  for (int turns = 0; turns < 200 && life.alive(); ++turns) {
    life.play();
    life.tick(0);
    if (turns % 3 == 0) {
      life.die();
      if (must(life.store.work_left())) life.start();
    }
  }
  CHECK(life.sql("SELECT count(*) FROM trials WHERE state <> 'ended'") == "0");
}

TEST_CASE("outside its hours a sweep asks for nothing and says when it goes on") {
  // The clock begins on a Tuesday, 22:13 UTC.
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  Life life;
  life.submit({.settings = "limits: {hours: '01:00-05:00'}"});
  life.pass(10);
  CHECK(life.slurm.calls.submissions == 0);
  CHECK(life.status().waiting.find("outside limits.hours") != std::string::npos);
  life.pass(3 * 3600, 20);
  CHECK(life.slurm.calls.submissions == 1);
}

TEST_CASE("a spent budget ends what waits") {
  Life life;
  life.submit({.settings = "limits: {max_gpu_hours: 1, max_allocations: 1}\nlane: {length: 1}",
      .micro_batch = {1, 2, 4, 8}});
  life.tick();
  life.start_job(life.job());
  // Eight GPUs for half an hour.
  REQUIRE(life.job().lead->start_next(life.slurm.lead_time(life.job())));
  life.clock.advance(Timestamp{1800} * 1'000'000);
  life.job().lead->end(Outcome::completed, life.slurm.lead_time(life.job()));
  life.tick();
  life.run_to_the_end();
  CHECK(life.sql("SELECT count(*) FROM trials WHERE cancelled_by = 'budget'") != "0");
  CHECK(life.sql("SELECT cause FROM trials WHERE cancelled_by = 'budget'")
            .find("limits.max_gpu_hours (1)") != std::string::npos);
}

TEST_CASE("what was assigned ahead does not start beyond a spent budget") {
  Life life;
  life.submit(
      {.settings = "limits: {max_gpu_hours: 1, max_allocations: 1}", .micro_batch = {1, 2, 4, 8}});
  life.tick();
  life.start_job(life.job());
  REQUIRE(life.job().lead->start_next(life.slurm.lead_time(life.job())));
  life.clock.advance(Timestamp{1800} * 1'000'000);
  life.job().lead->end(Outcome::completed, life.slurm.lead_time(life.job()));
  life.pass(2);
  life.run_to_the_end();
  CHECK(life.sql("SELECT count(*) FROM attempts WHERE started_at > 0") == "1");
  CHECK(life.sql("SELECT count(*) FROM trials WHERE cancelled_by = 'budget'") == "3");
}

TEST_CASE("a control is measured first and last") {
  Life life;
  life.submit({.settings = "control: {tp: 8}"});
  life.run_to_the_end();
  CHECK(life.sql("SELECT group_concat(time, ' ') FROM (SELECT time FROM controls ORDER BY at)") ==
      "start end");
  CHECK(life.trials() == "completed completed");
}

// ---- requests

TEST_CASE("a node is cleared by its name alone") {
  Life life;
  life.submit({.settings = "lane: {length: 1}"});
  life.tick();
  life.start_job(life.job());
  const std::string bad = life.job().nodes;
  life.run_attempt(life.job(), Outcome::node_failure, 5, bad);
  life.tick();
  CHECK(life.ask(Verb::clear_node, {"nothere"}).fault->what.find("nothing to clear") !=
      std::string::npos);
  CHECK_FALSE(life.ask(Verb::clear_node, {bad}).fault);
  CHECK(life.sql("SELECT state FROM node_states WHERE node = '" + bad + "'") == "trusted");
}

TEST_CASE("a large submission takes passes that serve others, and runs once it is whole") {
  Life life;
  life.submit({});
  std::vector<std::int32_t> micro_batches(15'000);
  std::iota(micro_batches.begin(), micro_batches.end(), 1);
  const std::string id = life.post({.name = "big", .micro_batch = micro_batches});
  const auto big = [&life] { return life.sql("SELECT state FROM sweeps WHERE name = 'big'"); };
  for (int passes = 0; passes < 50 && big().empty(); ++passes)
    life.tick();
  CHECK(life.pause() < std::chrono::milliseconds(50));
  CHECK_FALSE(life.ask(Verb::pause, {"a"}).fault);
  CHECK(big() == "paused");
  CHECK(life.sql("SELECT held FROM sweeps WHERE name = 'big'") == "Its trials are being stored.");
  life.die();
  life.clock.advance(60'000'000);
  CHECK(life.answer_to(id).counts.at("fresh") == 15'000);
  CHECK(big() == "active");
  CHECK(life.sql("SELECT held FROM sweeps WHERE name = 'big'").empty());
  CHECK(life.sql("SELECT count(*) FROM trials WHERE slug LIKE '%mb%' AND sweep = "
                 "(SELECT id FROM sweeps WHERE name = 'big')") == "15000");
}

TEST_CASE("a request that makes no sense is answered with a fault") {
  Life life;
  life.submit({});
  CHECK(life.ask(Verb::rerun, {"a"}, "tp = ").fault);
  CHECK(life.ask(Verb::pause, {"nothere"}).fault);
  Request submit;
  submit.verb = Verb::submit;
  submit.inbox = (life.home.inbox() / "nothere.db").string();
  CHECK(life.ask(submit).fault);
  std::ofstream(life.home.requests() / "00000000000000000001-h-1-1") << "no json";
  life.tick();
  CHECK(std::filesystem::is_empty(life.home.requests()));
}

TEST_CASE("a sweep that runs is not deleted") {
  Life life;
  life.submit({});
  life.tick();
  const Answer refused = life.ask(Verb::remove, {"a"});
  REQUIRE(refused.fault);
  CHECK(life.sql("SELECT count(*) FROM sweeps") == "1");
  life.run_to_the_end();
  CHECK_FALSE(life.ask(Verb::remove, {"a"}).fault);
  CHECK(life.sql("SELECT count(*) FROM sweeps") == "0");
  CHECK(std::filesystem::is_empty(life.home.allocations()));
}

TEST_CASE("a deletion in pieces leaves room for requests about other sweeps") {
  Life life;
  std::vector<std::int32_t> micro_batches(60);
  std::iota(micro_batches.begin(), micro_batches.end(), 1);
  for (const std::string name : {"going", "kept"}) {
    const std::int32_t nodes = name == "going" ? 2 : 1;  // no slug is of both
    life.submit({.name = name, .nodes = {nodes}, .micro_batch = micro_batches});
    CHECK_FALSE(life.ask(Verb::cancel, {name}).fault);
  }
  life.run_to_the_end();
  const auto post = [&life](Verb verb, const std::string& name) {
    Request request;
    request.verb = verb;
    request.names = {name};
    request.from = "test";
    life.clock.advance(1'000);  // requests are served in the order of their times
    return must(post_request(life.home, std::move(request), life.clock.true_time()));
  };
  const auto slug = life.sql(
      "SELECT slug FROM trials WHERE sweep = "
      "(SELECT id FROM sweeps WHERE name = 'going') ORDER BY id DESC");
  life.start();
  const std::string deletion = post(Verb::remove, "going");
  life.tick();
  const std::string another = post(Verb::rerun, "kept");
  const std::string going = post(Verb::resume, "going/" + slug);
  const std::string alone = post(Verb::resume, slug);
  life.tick();
  CHECK(life.pause() < std::chrono::milliseconds(50));
  const auto answered = must(take_answer(life.home, another));
  REQUIRE(answered);
  CHECK_FALSE(answered->fault);
  CHECK(life.sql("SELECT state FROM sweeps WHERE name = 'kept'") == "active");
  // Half of it is still there: what may be meant for it waits.
  CHECK(life.sql("SELECT count(*) FROM sweeps WHERE name = 'going'") == "1");
  CHECK_FALSE(must(take_answer(life.home, going)));
  CHECK_FALSE(must(take_answer(life.home, alone)));
  CHECK_FALSE(life.answer_to(deletion).fault);
  CHECK(life.sql("SELECT count(*) FROM sweeps") == "1");
  CHECK(life.answer_to(going).fault);
  CHECK(life.answer_to(alone).fault);
}

// ---- outages of its own

TEST_CASE("nothing is done before it is committed") {
  Life life;
  life.submit({});
  life.die();
  life.start();
  life.store.outage = Fault{FaultKind::busy, "database is locked"};
  (void)life.slurm.calls;
  const auto submissions = life.slurm.calls.submissions;
  const auto commits = life.store.commits();
  for (int i = 0; i < 20; ++i)
    life.tick(1);
  CHECK(life.slurm.calls.submissions == submissions);
  CHECK(life.store.commits() == commits);
  life.store.outage.reset();
  life.tick();
  life.run_to_the_end();
  CHECK(life.trials() == "completed completed");
}

TEST_CASE("a folder is packed when its attempt's end is stored, and not before") {
  Life life;
  life.submit({.micro_batch = {1}});
  life.tick();
  life.start_job(life.job());
  REQUIRE(life.job().lead->start_next(life.slurm.lead_time(life.job())));
  life.tick();
  const AttemptPaths paths{life.sql("SELECT dir FROM attempts")};
  life.slurm.finish(life.job(), "NODE_FAIL");
  life.store.outage = Fault{FaultKind::busy, "database is locked"};
  life.pass(60);
  CHECK(std::filesystem::exists(paths.dir));
  CHECK_FALSE(std::filesystem::exists(paths.pack()));
  life.store.outage.reset();
  life.pass(60);
  CHECK(life.sql("SELECT state FROM attempts ORDER BY id LIMIT 1") == "ended");
  CHECK(std::filesystem::exists(paths.pack()));
}

TEST_CASE("records that cannot be read are waited for and then given up") {
  Life life;
  life.submit({.settings = "retry: {elsewhere: 0}", .micro_batch = {1}});
  life.tick();
  life.start_job(life.job());
  REQUIRE(life.job().lead->start_next(life.slurm.lead_time(life.job())));
  const std::filesystem::path dir = life.sql("SELECT dir FROM attempts");
  std::filesystem::create_directories(AttemptPaths{dir}.records());
  life.job().lead->say(
      Ended{.attempt = life.job().lead->running(),
          .nonce = life.sql("SELECT nonce FROM attempts"),
          .ending = {.outcome = Outcome::crashed, .cause = "played", .source = SaidBy::exit}},
      life.slurm.lead_time(life.job()));
  life.pass(30);
  CHECK(life.trials() == "running");
  life.pass(90);
  CHECK(life.trials() == "lost");
  CHECK(life.sql("SELECT cause FROM trials").find("can't be read") != std::string::npos);
}

TEST_CASE("a stored file that does not load stops its own sweep alone") {
  Life life;
  life.submit({});
  life.submit({.name = "b"});
  life.die();
  life.reader().execute("UPDATE sweeps SET resolved = 'name: [' WHERE name = 'a'");
  life.start();
  for (int turns = 0; turns < 100; ++turns) {
    life.play();
    life.tick(0);
  }
  CHECK(life.trials("b") == "completed completed");
  const auto log = must(read_file(life.home.database.parent_path() / "log", 1 << 20));
  CHECK(log.find("trouble: No trial of sweep 'a' is started") != std::string::npos);
  CHECK(log.find("write ']' behind its last value. Submit the sweep file again") !=
      std::string::npos);
}

TEST_CASE("a daemon leaves a folder that died and was mounted again") {
  Life life;
  life.submit({});
  life.tick(3);
  // By its name the lock is there, on another device.
  std::filesystem::remove(life.home.lock());
  std::filesystem::create_symlink("/proc/self/status", life.home.lock());
  Result<void> pass;
  for (int turns = 0; pass && turns < 10; ++turns)
    pass = life.try_pass(3);
  REQUIRE_FALSE(pass);
  CHECK(pass.error().what.find("mounted again, so the daemon ends") != std::string::npos);
  CHECK_FALSE(life.alive());
}

TEST_CASE("the elements of an array are submitted in one pass, however long their files take") {
  PlayedSite site;
  site.clock.step = 30'000;
  const auto whole = [&site] { return site.slurm.calls.submissions % 4 == 0; };
  site.submit({.settings = "lane: {length: 1, array: 4}\nlimits: {max_allocations: 4}",
      .micro_batch = {1, 2, 4, 8}});
  CHECK(whole());
  for (int passes = 0; passes < 10 && site.slurm.calls.submissions < 4; ++passes) {
    site.tick();
    CHECK(whole());
  }
  CHECK(site.slurm.calls.submissions == 4);
}
