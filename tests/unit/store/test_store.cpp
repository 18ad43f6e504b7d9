// SPDX-License-Identifier: Apache-2.0
#include "fleet/trial_change.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace shardsweep;
using namespace shardsweep::testing;

TEST_CASE("a new database is its owner's alone, and one whose mode was changed stays so") {
  const TempDir folder;
  const auto file = folder / "new.db";
  const auto mode = [&] { return std::filesystem::status(file).permissions(); };
  constexpr auto own = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  const ::mode_t mask = ::umask(022);
  REQUIRE(Store::open(file));
  ::umask(mask);
  CHECK(mode() == own);
  std::filesystem::permissions(file, own | std::filesystem::perms::group_read);
  REQUIRE(Store::open(file));
  CHECK(mode() == (own | std::filesystem::perms::group_read));
}

TEST_CASE("a lease is taken over by a higher epoch and the sleeper writes nothing more") {
  const TempDir dir;
  Daemon first(dir / "a.db");
  CHECK(must(first.store->lease_holder())->epoch == 1);
  Daemon second(dir / "a.db");
  CHECK(must(second.store->lease_holder())->epoch == 2);

  const std::vector<Change> changes{AddEvent{.at = 1, .kind = EventKind::started, .detail = ""}};
  const auto late = first.store->commit(changes);
  REQUIRE_FALSE(late);
  CHECK(late.error().kind == FaultKind::rejected);
  CHECK(late.error().what ==
      fmt::format("the lease with epoch 1 was taken over by pid {} on "
                  "login1: nothing is written any more",
          ::getpid()));
  CHECK(first.store->renew_lease(5).error().kind == FaultKind::rejected);
  CHECK(first.store->release_lease().error().kind == FaultKind::rejected);
  SweepFile().write(dir / "inbox");
  CHECK(first.store->accept_inbox(dir / "inbox", 1, 10).error().kind == FaultKind::rejected);
  CHECK(rows_of(dir / "a.db", "SELECT count(*) FROM events") == "0\n");

  must(second.store->renew_lease(7));
  CHECK(must(second.store->lease_holder())->renewed == 7);
  must(second.store->release_lease());
  CHECK_FALSE(must(second.store->lease_holder()).has_value());
  CHECK(second.store->commit(changes).error().kind == FaultKind::rejected);
  Daemon third(dir / "a.db");
  CHECK(must(third.store->lease_holder())->epoch == 3);
}

TEST_CASE("a lease ends with the file that it stands in") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  must(daemon.store->renew_lease(1));
  SUBCASE("removed") {
    std::filesystem::remove(dir / "a.db");
  }
  SUBCASE("replaced") {
    std::filesystem::rename(dir / "a.db", dir / "b.db");
    std::ofstream(dir / "a.db") << "another";
  }
  // At once, and not with the next renewal: what is written now is lost.
  const std::vector<Change> changes{AddEvent{.at = 2, .kind = EventKind::lost}};
  const auto lost = daemon.store->commit(changes);
  REQUIRE_FALSE(lost);
  CHECK(lost.error().kind == FaultKind::rejected);
  const auto late = daemon.store->renew_lease(2);
  REQUIRE_FALSE(late);
  CHECK(late.error().kind == FaultKind::rejected);
  CHECK(late.error().what.find("a.db was removed, renamed or replaced after it was opened") !=
      std::string::npos);
}

TEST_CASE("a world comes back as it was committed") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' AND gpus = 4 AND micro_batch = 2");
  PutAllocation allocation;
  allocation.row = {3, 1, "f00d01", "demo_f00d01", "77", "/a", Backend::slurm, 2, 8, State::running,
      Submission::accepted, JobState::running, 10, 11, 12, 13, true, true, "why"};
  allocation.row.started = allocation.row.gave_back = true;
  allocation.row.deferrals = 4;
  allocation.row.submit_after = 21;
  allocation.row.resubmissions = 2;
  allocation.row.missing = Missing::account;
  allocation.row.missing_since = 22;
  allocation.row.running_since = 23;
  allocation.row.quiet_since = 24;
  PutAttempt attempt;
  attempt.row = {9, trial, 1, 3, "0123", "/t", State::running, true};
  // The attempt stands before the allocation it refers to: one commit has no order.
  SetTrial running = set_trial(trial, State::running, {}, "", 1);
  running.row.charged = 1;
  running.row.elsewhere = 2;
  daemon.commit({attempt, allocation, running,
      SetSweep{{.id = 1, .failed_starts = 2, .failed_nodes = 7}}, SetClock{{"boot", 31}}});

  const auto world = must(daemon.store->load_world());
  REQUIRE(world.sweeps.size() == 1);
  CHECK(world.clock == ClockRow{"boot", 31});
  CHECK(world.sweeps.at(1).name == "demo");
  CHECK(world.sweeps.at(1).backend == Backend::local);
  CHECK(world.sweeps.at(1).resolved == "resolved\n");
  CHECK(world.trials.size() == 12);
  const auto& row = world.trials.at(trial);
  CHECK(row.state == State::running);
  CHECK(row.charged == 1);
  CHECK(row.elsewhere == 2);
  CHECK(row.gpus == 4);
  CHECK(row.micro_batch == 2);
  CHECK(row.predicted_s == 2.0);
  const auto& back = world.allocations.at(3);
  CHECK(back.token == "f00d01");
  CHECK(back.sweep == 1);
  CHECK(back.submission == Submission::accepted);
  CHECK(back.job_state == JobState::running);
  CHECK(back.from_lead_n == 13);
  CHECK(back.said_bye);
  CHECK(back.draining);
  CHECK(back.end_reason == "why");
  CHECK(back.started);
  CHECK(back.gave_back);
  CHECK(back.deferrals == 4);
  CHECK(back.submit_after == 21);
  CHECK(back.resubmissions == 2);
  CHECK(back.missing == Missing::account);
  CHECK(back.missing_since == 22);
  CHECK(back.running_since == 23);
  CHECK(back.quiet_since == 24);
  CHECK(world.sweeps.at(1).failed_starts == 2);
  CHECK(world.sweeps.at(1).failed_nodes == 7);
  CHECK(world.attempts.at(9).revoked);
  CHECK(world.attempts.at(9).nonce == "0123");
  CHECK(world.next_attempt == 10);
  CHECK(world.next_allocation == 4);
}

TEST_CASE("what is over leaves the world but for an oom") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto completed = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  const auto oom = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 2");
  daemon.run(completed, Outcome::completed, 5);
  daemon.run(oom, Outcome::oom);
  auto world = must(daemon.store->load_world());
  CHECK_FALSE(world.trials.contains(completed));
  CHECK(world.trials.at(oom).outcome == Outcome::oom);
  // Ended attempts of a live allocation count towards its lane's length.
  for (const auto& [id, attempt] : world.attempts)
    CHECK(attempt.state == State::ended);
  CHECK(world.trials.size() == 11);

  daemon.commit({SetSweep{{.id = 1, .state = SweepState::cancelled}}});
  world = must(daemon.store->load_world());
  CHECK(world.trials.empty());
}

TEST_CASE("a cancelled sweep stays in the world while something of it is alive") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' AND gpus = 4 AND micro_batch = 2");
  PutAttempt attempt;
  attempt.row = {1, trial, 1, 1, "n", "/t", State::running, false};
  PutAllocation allocation;
  allocation.row.id = 1;
  allocation.row.token = "t";
  allocation.row.backend = Backend::local;
  allocation.row.state = State::running;
  daemon.commit({allocation, attempt, SetSweep{{.id = 1, .state = SweepState::cancelled}},
      set_trial(trial, State::ended, Outcome::cancelled, "request", 1)});
  const auto world = must(daemon.store->load_world());
  REQUIRE(world.sweeps.size() == 1);
  CHECK(world.sweeps.at(1).state == SweepState::cancelled);
  CHECK(world.trials.size() == 1);
  CHECK(world.attempts.size() == 1);
}

TEST_CASE("a trial is counted once") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  const auto first = daemon.run(trial, Outcome::completed, 5);
  PutAttempt again;
  again.row = {first + 1, trial, 2, 1, "other", "/t", State::ended, false};
  again.row.ending = {.outcome = Outcome::completed};
  again.row.counted = true;
  const std::vector<Change> changes{again};
  const auto refused = daemon.store->commit(changes);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FaultKind::corrupt);
  again.row.revoked = true;
  CHECK_FALSE(daemon.store->commit(std::vector<Change>{again}));
  again.row.counted = false;
  daemon.commit({again});
  CHECK(rows_of(dir / "a.db", "SELECT count(*), sum(counted) FROM attempts") == "2|1\n");

  // Run again, the trial keeps the older measurement until the new one is durable.
  SetTrial planned = set_trial(trial, State::planned, {}, "", 2);
  planned.row.prior = Outcome::completed;
  daemon.commit({planned});
  CHECK(rows_of(dir / "a.db", "SELECT number FROM attempts WHERE counted = 1") == "1\n");
  again.row = {first + 2, trial, 3, 1, "third", "/t", State::ended, false};
  again.row.ending = {.outcome = Outcome::completed};
  again.row.counted = true;
  daemon.commit({again, set_trial(trial, State::ended, Outcome::completed, "", 3)});
  CHECK(rows_of(dir / "a.db", "SELECT number FROM attempts WHERE counted = 1") == "3\n");
  CHECK(rows_of(dir / "a.db", "SELECT count(*) FROM measurements") == "1\n");
}

TEST_CASE("a trial that is run again gets its outcome and cause back") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  daemon.run(trial, Outcome::completed, 5);
  TrialRow row = must(daemon.store->select_trials({}, "outcome = 'completed'")).trials.front();
  const auto stored = [&] {
    return rows_of(dir / "a.db",
        "SELECT t.state, t.outcome, t.cause, prior, prior_cause, tokens_per_s_per_gpu "
        "FROM trials AS t JOIN all_results AS r ON r.trial_id = t.id WHERE t.id = " +
            std::to_string(trial));
  };
  plan_again(row);
  daemon.commit({SetTrial{row}});
  CHECK(stored() == "planned|NULL||completed|seen|5\n");
  row.state = State::running;
  daemon.commit({SetTrial{row}});
  CHECK(stored() == "running|NULL||completed|seen|5\n");
  row = must(daemon.store->load_world()).trials.at(trial);
  CHECK(row.prior == Outcome::completed);
  end_trial(row, {.outcome = Outcome::crashed, .cause = "again"});
  daemon.commit({SetTrial{row}});
  CHECK(stored() == "ended|completed|seen|NULL||5\n");
}

TEST_CASE("a commit that breaks a rule changes nothing") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto events = rows_of(dir / "a.db", "SELECT count(*) FROM events");
  const AddEvent event{.at = 1, .kind = EventKind::started, .detail = ""};
  for (const auto& wrong : std::vector<Change>{set_trial(4711, State::planned, {}, "", 0),
           SetSweep{{.id = 4711, .state = SweepState::paused}},
           set_trial(1, State::ended, {}, "", 0),
           PutAttempt{.row = {1, 4711, 1, 1, "n", "/t", State::queued, false}},
           AddMeasurement{.attempt = 4711, .trial = 1}}) {
    const auto refused = daemon.store->commit(std::vector<Change>{event, wrong});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == FaultKind::corrupt);
  }
  CHECK(rows_of(dir / "a.db", "SELECT count(*) FROM events") == events);
  daemon.commit({event});
}

TEST_CASE("a measurement keeps its first values and takes no infinity") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' AND gpus = 1 AND micro_batch = 1");
  AddMeasurement twice;
  twice.attempt = daemon.run(trial, Outcome::completed, 5);
  twice.trial = trial;
  twice.metrics = {{"tokens_per_s_per_gpu", 7}};
  daemon.commit({twice});
  CHECK(rows_of(dir / "a.db",
            "SELECT tokens_per_s_per_gpu, peak_memory_bytes, mfu FROM measurements") ==
      "5|3145728|NULL\n");
  CHECK(rows_of(dir / "a.db", "SELECT count(*), max(loss) FROM train_steps") == "2|5.5\n");
  CHECK(must(daemon.store->gpu_seconds(1)) == doctest::Approx(4.0));
  daemon.commit({PutControl{{.allocation = 1, .sweep = 1, .gpu_seconds = 1.5}}});
  CHECK(must(daemon.store->gpu_seconds(1)) == doctest::Approx(5.5));
}

// A process of its own, which the next case starts: a fail point ends it.
TEST_CASE("a writer that is killed" * doctest::skip()) {
  const char* file = std::getenv("SHARDSWEEP_TEST_DB");
  REQUIRE(file != nullptr);
  auto store = must(Store::open(file));
  must(store->take_lease({.host = "child"}));
  for (int i = 0; i < 20; ++i) {
    const std::vector<Change> changes(
        20, AddEvent{.at = i, .kind = EventKind::started, .detail = "x"});
    REQUIRE(store->commit(changes));
  }
}

namespace {

/// The case above in a process, with a fail point; its status.
int status_of_writer(
    const std::filesystem::path& file, const TempDir& reached, const std::string& at) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("SHARDSWEEP_TEST_DB", file.c_str(), 1);
    ::setenv("SHARDSWEEP_FAIL_DIR", (reached / "").c_str(), 1);
    ::setenv("SHARDSWEEP_FAIL_AT", at.c_str(), 1);
    ::execl("/proc/self/exe", "unit_store", "--no-skip", "-tc=a writer that is killed", nullptr);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a writer killed at any of its points leaves whole commits and a database that opens") {
  const TempDir dir;
  const auto file = dir / "a.db";
  for (const char* const at : {"store.create:kill", "store.migrate:kill", "store.migrated:kill"}) {
    const TempDir reached;
    CHECK(WTERMSIG(status_of_writer(file, reached, at)) == SIGKILL);
  }
  { Daemon(file).submit(dir, {}); }
  std::int64_t events = 0;
  for (const int commits : {0, 1, 7, 19}) {
    const TempDir reached;
    const auto at = fmt::format("store.commit:{}:kill", commits + 1);
    CHECK(WTERMSIG(status_of_writer(file, reached, at)) == SIGKILL);
    Daemon after(file);
    events += 20 * commits;
    CHECK(rows_of(file, "SELECT count(*) - 1 FROM events") == fmt::format("{}\n", events));
    CHECK(rows_of(file, "PRAGMA integrity_check") == "ok\n");
    CHECK(must(after.store->load_world()).trials.size() == 12);
  }
}

TEST_CASE("a disk that is full at a commit leaves what was committed, and the store goes on") {
  for (const char* const error : {"enospc", "eio"}) {
    const TempDir dir;
    const TempDir reached;
    const auto file = dir / "a.db";
    { Daemon(file).submit(dir, {}); }
    // The writer's case requires that each commit succeeds: it ends with a failure and no
    // signal.
    const int status = status_of_writer(file, reached, fmt::format("store.commit:8:{}", error));
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) != 0));
    CHECK(std::filesystem::exists(reached / "store.commit"));
    CHECK(rows_of(file, "SELECT count(*) - 1 FROM events") == "140\n");
  }
}

TEST_CASE("trials are chosen by names and by expressions") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.vars = {0, 1, 2, 3}});
  daemon.submit(dir, {.gpus = {1}, .name = "other"});
  const auto count = [&](const std::vector<std::string>& names, const std::string& where) {
    return must(daemon.store->select_trials(names, where)).trials.size();
  };
  CHECK(count({}, "") == 52);
  CHECK(count({"demo"}, "") == 48);
  CHECK(count({"demo"}, "nvls = 1") == 12);
  CHECK(count({"demo"}, "nvls = '0.50'") == 12);
  CHECK(count({"demo"}, "nvls = 'it''s' and hidden = 64 and layers > 2") == 6);
  CHECK(count({"other", "demo"}, "tp = 1 and gpus < 2") == 20);
  const auto slug = must(daemon.store->select_trials({"other"}, "")).trials.front().slug;
  CHECK(count({"other/" + slug}, "") == 1);
  const auto nobody = daemon.store->select_trials({"nobody'; DROP TABLE trials"}, "");
  REQUIRE_FALSE(nobody);
  CHECK(nobody.error().what ==
      "no sweep, trial, attempt or job is named 'nobody'; DROP TABLE trials'. `shardsweep "
      "status` lists the sweeps.");
  const auto mistyped = daemon.store->select_trials({"dmo"}, "");
  REQUIRE_FALSE(mistyped);
  CHECK(mistyped.error().what.find("'dmo', did you mean 'demo'? ") != std::string::npos);
}

TEST_CASE("a point comes back with its vars and words") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  SweepFile submission({.vars = {0, 1, 2, 3}, .repeats = 2});
  for (auto& trial : submission.plan.trials) {
    trial.point.layout.recompute = Recompute::selective;
    trial.point.layout.schedule = Schedule::afab;
    trial.point.dtype = Dtype::fp64;
    trial.point.layout.sequence_parallel = true;
  }
  submission.write(dir / "inbox");
  daemon.submit(dir / "inbox");
  const auto rows = must(daemon.store->select_trials({}, "")).trials;
  REQUIRE(rows.size() == submission.plan.trials.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    CHECK(must(daemon.store->point_of(rows[i].id, submission.sweep)) ==
        submission.plan.trials[i].point);
  submission.sweep.models.pop_back();
  CHECK(daemon.store->point_of(rows.back().id, submission.sweep).error().what ==
      "the sweep no longer has the model 'small'");
}

TEST_CASE("a search sees ends in the order of commits, and how long the last attempt took") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1}});
  const auto late = daemon.trial("model = 'tiny' and gpus = 2");
  const auto early = daemon.trial("model = 'tiny' and gpus = 1");
  const auto complete = [&](TrialId trial) {
    const auto attempt = daemon.run(trial, Outcome::completed, 40);
    daemon.commit({AddEvent{.at = daemon.now, .trial = trial, .kind = EventKind::completed}});
    return attempt;
  };
  daemon.run(late, Outcome::crashed);
  const auto other = complete(early);
  const auto last = complete(late);
  // Its news came later than those of the other trial, which had ended after it.
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(
          fmt::format("UPDATE attempts SET ended_at = (SELECT ended_at FROM attempts WHERE id = "
                      "{}) - 1 WHERE id = {}; UPDATE attempts SET started_at = ended_at - "
                      "2500000 WHERE id = {}",
              other, last, last));
  const auto rows =
      must(daemon.store->search_rows(1, SweepFile({.gpus = {1, 2}, .micro_batch = {1}}).sweep));
  const auto row = [&](TrialId id) {
    return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.id == id; });
  };
  CHECK(row(late).ended_at < row(early).ended_at);
  CHECK(row(late).end_event > row(early).end_event);
  CHECK(row(late).seconds == doctest::Approx(2.5));
  CHECK(row(late).gpu_seconds > 2 * row(late).seconds);
  CHECK(row(daemon.trial("model = 'small' and gpus = 1")).end_event == 0);
}

TEST_CASE("the end that a search places a trial by is the one that it heard of") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1}});
  const auto other = daemon.trial("model = 'tiny' and gpus = 2");
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1");
  const auto run = [&](TrialId id, Outcome outcome) {
    const auto attempt = daemon.run(id, outcome, 40);
    daemon.commit(
        {AddEvent{.at = daemon.now, .trial = id, .attempt = attempt, .kind = event_of(outcome)}});
    return attempt;
  };
  const auto ended_later = [&] {
    const auto rows =
        must(daemon.store->search_rows(1, SweepFile({.gpus = {1, 2}, .micro_batch = {1}}).sweep));
    const auto end = [&](TrialId id) {
      return std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
        return row.id == id;
      })->end_event;
    };
    return end(trial) > end(other);
  };
  SUBCASE("a trial that was ruled out") {
    run(trial, Outcome::crashed);
    run(other, Outcome::completed);
    daemon.commit({set_trial(trial, State::ended, Outcome::skipped, "", 1),
        AddEvent{.at = daemon.now, .trial = trial, .kind = EventKind::ruled_out}});
    CHECK(ended_later());
  }
  SUBCASE("a trial that was cancelled by name") {
    run(other, Outcome::completed);
    daemon.commit({set_trial(trial, State::ended, Outcome::cancelled, "", 0),
        AddEvent{.at = daemon.now, .trial = trial, .kind = EventKind::cancel}});
    CHECK(ended_later());
  }
  SUBCASE("a measurement that stands because its retry failed") {
    run(trial, Outcome::completed);
    run(other, Outcome::completed);
    run(trial, Outcome::crashed);
    daemon.commit({set_trial(trial, State::ended, Outcome::completed, "", 2)});
    CHECK(ended_later());
  }
  SUBCASE("an attempt that a later one had taken the place of") {
    const auto superseded = run(trial, Outcome::crashed);
    run(trial, Outcome::completed);
    run(other, Outcome::completed);
    daemon.commit({AddEvent{
        .at = daemon.now, .trial = trial, .attempt = superseded, .kind = EventKind::completed}});
    CHECK_FALSE(ended_later());
  }
}

TEST_CASE("a search sees how long the run took whose speed it sees") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  const auto trial = daemon.trial("model = 'tiny'");
  daemon.run(trial, Outcome::completed, 40);
  const auto failed = daemon.run(trial, Outcome::crashed);
  daemon.commit({set_trial(trial, State::ended, Outcome::completed, "", 2)});
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(
          fmt::format("UPDATE attempts SET started_at = ended_at - 2500000 WHERE id = {}", failed));
  const auto rows =
      must(daemon.store->search_rows(1, SweepFile({.gpus = {1}, .micro_batch = {1}}).sweep));
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.id == trial; });
  CHECK(row->tokens_per_s_per_gpu == 40);
  CHECK(row->seconds == doctest::Approx(4));
}

TEST_CASE("a search sees every trial with its point and end and what it has cost") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1}});
  const auto measured = daemon.trial("model = 'tiny' and gpus = 2");
  const auto attempt = daemon.run(measured, Outcome::completed, 50);
  const auto marked = daemon.trial("model = 'small' and gpus = 2");
  daemon.run(marked, Outcome::completed, 70, Mark::implausible);
  const auto running = daemon.trial("model = 'tiny' and gpus = 1");
  PutAttempt open{.row = {attempt + 2, running, 1, 1, "n", "/t", State::running, false}};
  open.row.started_at = 42;
  daemon.commit({open, set_trial(running, State::running, {}, "", 1),
      AddEvent{.at = 1, .trial = running, .kind = EventKind::rerun, .detail = ""}});
  const SweepFile file({.gpus = {1, 2}, .micro_batch = {1}});
  const auto rows = must(daemon.store->search_rows(1, file.sweep));
  REQUIRE(rows.size() == 4);
  const auto row = [&](TrialId id) {
    return *std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.id == id; });
  };
  CHECK(row(measured).point == must(daemon.store->point_of(measured, file.sweep)));
  CHECK(row(measured).outcome == Outcome::completed);
  CHECK(row(measured).tokens_per_s_per_gpu == 50);
  CHECK(row(measured).peak_memory_bytes == 3 << 20);
  CHECK(row(measured).gpu_seconds == 8);
  CHECK(row(measured).ended_at > 0);
  CHECK(row(measured).running == 0);
  CHECK(row(marked).tokens_per_s_per_gpu == 0);
  CHECK(row(running).running == attempt + 2);
  CHECK(row(running).running_since == 42);
  CHECK(row(running).rerun);
  CHECK(row(running).attempted);
  const auto untouched = row(daemon.trial("model = 'small' and gpus = 1"));
  CHECK_FALSE(untouched.outcome.has_value());
  CHECK_FALSE(untouched.attempted);
  CHECK(untouched.gpu_seconds == 0);
}
