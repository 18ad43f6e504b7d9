// SPDX-License-Identifier: Apache-2.0
#include "unit/store/support.hpp"

#include <fmt/format.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// What fold writes when an attempt ends.
void tell(Daemon& daemon, TrialId trial, AttemptId attempt, EventKind kind,
    const std::string& detail = "") {
  daemon.commit({AddEvent{
      .at = daemon.now, .trial = trial, .attempt = attempt, .kind = kind, .detail = detail}});
}

}  // namespace

TEST_CASE("a follower sees each end once, from the submission or from now on") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto first = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  const auto attempt = daemon.run(first, Outcome::completed, 100);
  tell(daemon, first, 0, EventKind::claimed);
  tell(daemon, first, attempt, EventKind::completed);
  const auto reader = must(Reader::open(dir / "a.db"));
  const SweepId sweep = must(reader->status({"demo"})).at(0).id;

  const auto begin = must(reader->first_event({sweep}, FollowFrom::submission));
  const FinishedBatch found = must(reader->finished({sweep}, begin));
  REQUIRE(found.trials.size() == 1);
  CHECK(found.trials[0].outcome == Outcome::completed);
  CHECK(found.trials[0].tokens_per_s_per_gpu.value() == 100);
  CHECK(found.trials[0].layout == "dp1 tp1 pp1 mb1 ga1 z0");
  CHECK(found.trials[0].cell == CellKey{"tiny", 128, 0, 1, "{}"});
  CHECK_FALSE(found.trials[0].again);
  CHECK_FALSE(found.more);
  CHECK(must(reader->finished({sweep}, found.last_event)).trials.empty());
  CHECK(must(reader->finished({sweep + 1}, begin)).trials.empty());
  CHECK(must(reader->first_event({sweep}, FollowFrom::now)) == found.last_event);

  // Skipped by a bound; ended by a request.
  const auto spared = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 2");
  daemon.commit({set_trial(spared, State::ended, Outcome::skipped, "too slow", 0)});
  tell(daemon, spared, 0, EventKind::spared, "too slow");
  const auto again = must(reader->finished({sweep}, found.last_event));
  REQUIRE(again.trials.size() == 1);
  CHECK(again.trials[0].outcome == Outcome::skipped);
  CHECK(again.trials[0].spared);
  CHECK(again.trials[0].cause == "too slow");
}

TEST_CASE("an attempt that failed and is tried again is told from a verdict") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  const auto attempt = daemon.run(trial, Outcome::hung);
  daemon.commit({set_trial(trial, State::planned, {}, "", 1)});
  tell(daemon, trial, attempt, EventKind::hung, "no progress");
  const auto reader = must(Reader::open(dir / "a.db"));
  const SweepId sweep = must(reader->status({"demo"})).at(0).id;
  const auto found = must(reader->finished({sweep}, 0));
  REQUIRE(found.trials.size() == 1);
  CHECK(found.trials[0].again);
  CHECK(found.trials[0].attempt == 1);
}

TEST_CASE("a long history comes in pieces, none lost and none twice") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  std::vector<Change> changes;
  changes.reserve(2500);
  for (int i = 0; i < 2500; ++i)
    changes.emplace_back(
        AddEvent{.at = i, .trial = trial, .kind = EventKind::skipped, .detail = ""});
  daemon.commit(std::move(changes));
  const auto reader = must(Reader::open(dir / "a.db"));
  const SweepId sweep = must(reader->status({"demo"})).at(0).id;
  std::int64_t after = 0;
  std::size_t seen = 0;
  int looks = 0;
  for (bool more = true; more; ++looks) {
    const auto found = must(reader->finished({sweep}, after));
    for (const auto& one : found.trials)
      CHECK(one.at == static_cast<Timestamp>(seen++));
    after = found.last_event;
    more = found.more;
  }
  CHECK(seen == 2500);
  CHECK(looks == 3);
}

TEST_CASE("the best of each cell is its fastest ranked measurement") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto run = [&](const char* where, double tokens, Mark mark = Mark::none) {
    daemon.run(daemon.trial(where), Outcome::completed, tokens, mark);
  };
  run("model = 'tiny' and gpus = 1 and micro_batch = 1", 100);
  run("model = 'tiny' and gpus = 1 and micro_batch = 2", 300, Mark::contaminated);
  run("model = 'tiny' and gpus = 2 and micro_batch = 1", 70);
  run("model = 'tiny' and gpus = 2 and micro_batch = 2", 90);
  const auto reader = must(Reader::open(dir / "a.db"));
  const SweepId sweep = must(reader->status({"demo"})).at(0).id;
  const auto best = must(reader->best_of_cells({sweep}));
  REQUIRE(best.size() == 2);
  CHECK(best[0].cell.gpus == 2);  // the latest one first
  CHECK(best[0].tokens_per_s_per_gpu == 90);
  CHECK(best[0].layout == "dp2 tp1 pp1 mb2 ga1 z0");
  CHECK(best[1].tokens_per_s_per_gpu == 100);
}

TEST_CASE("jobs that have not ended say which of their trials runs") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto reader = must(Reader::open(dir / "a.db"));
  const SweepId sweep = must(reader->status({"demo"})).at(0).id;
  const auto job = [&](AllocationId id, State state, Timestamp claimed_at) {
    PutAllocation put;
    put.row.id = id;
    put.row.sweep = sweep;
    put.row.token = fmt::format("token{}", id);
    put.row.job_name = fmt::format("demo-n1_{}", id);
    put.row.backend = Backend::local;
    put.row.state = state;
    put.row.claimed_at = claimed_at;
    return put;
  };
  const auto attempt = [&](AttemptId id, TrialId trial, AllocationId allocation, State state) {
    PutAttempt put;
    put.row = {id, trial, 1, allocation, {}, "/dir", state, false};
    put.row.nonce = fmt::format("nonce{}", id);
    if (state == State::ended) put.row.ending = {.outcome = Outcome::oom};
    put.row.started_at = state == State::planned ? 0 : 100;
    return put;
  };
  const auto running = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 2");
  daemon.commit({job(1, State::queued, 0), job(2, State::running, 50), job(3, State::ended, 50),
      attempt(1, daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1"), 2, State::ended),
      attempt(2, running, 2, State::running),
      attempt(
          3, daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 1"), 2, State::planned)});
  const auto jobs = must(reader->allocations({sweep}));
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].job_name == "demo-n1_2");
  CHECK(jobs[0].claimed);
  CHECK(jobs[0].ended == 1);
  CHECK(jobs[0].assigned == 3);
  CHECK(jobs[0].model == "tiny");
  CHECK(jobs[0].layout == "dp1 tp1 pp1 mb2 ga1 z0");
  CHECK(jobs[0].started_at == 100);
  CHECK(jobs[1].job_name == "demo-n1_1");
  CHECK_FALSE(jobs[1].claimed);
  CHECK(jobs[1].trial.empty());
  CHECK(must(reader->allocations({sweep + 1})).empty());
}

TEST_CASE("names mean a trial's attempts, one attempt, or nothing that has attempts") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  daemon.run(trial, Outcome::completed, 100);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto slug = rows_of(dir / "a.db", "SELECT slug FROM trials WHERE attempts = 1");
  const std::string name = slug.substr(0, slug.find('\n'));
  for (const std::string& form : {name, "demo/" + name, name + ".1"}) {
    CAPTURE(form);
    const auto named = must(reader->attempts(form));
    REQUIRE(named.attempts.size() == 1);
    CHECK(named.attempts[0].trial == name);
    CHECK(named.attempts[0].number == 1);
    CHECK(named.attempts[0].dir == "/dir");
    CHECK(named.attempts[0].outcome == Outcome::completed);
  }
  CHECK(must(reader->attempts("demo")).is_sweep);
  CHECK_FALSE(reader->attempts(name + ".2"));
  CHECK_FALSE(reader->attempts("nobody"));
}

TEST_CASE("an attempt that never started does not count, and its reason to doubt is told") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  daemon.run(trial, Outcome::lost);
  const auto attempt = daemon.run(trial, Outcome::completed, 100, Mark::implausible);
  {
    sqlite::Database database(dir / "a.db", sqlite::OpenMode::existing, 1000);
    database.execute("UPDATE attempts SET started_at = 0 WHERE outcome = 'lost'");
    database.execute("UPDATE attempts SET also = 'implausible: the loss is 9' WHERE counted");
  }
  tell(daemon, trial, attempt, EventKind::completed);
  CHECK(rows_of(dir / "a.db", "SELECT attempts FROM results WHERE outcome = 'completed'") == "1\n");
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto status = must(reader->status({"demo"})).at(0);
  CHECK(status.marked == 1);
  CHECK(status.doubt == "implausible: the loss is 9");
  const auto from = must(reader->first_event({status.id}, FollowFrom::submission));
  const FinishedBatch found = must(reader->finished({status.id}, from));
  REQUIRE(found.trials.size() == 1);
  CHECK(found.trials[0].doubt == "implausible: the loss is 9");
  CHECK_FALSE(found.trials[0].again);

  // A verb over the sweep changes nothing of its trials.
  daemon.now += 1'000'000;
  daemon.commit({AddEvent{.at = daemon.now, .sweep = status.id, .kind = EventKind::resume}});
  const auto later = must(reader->status({"demo"})).at(0);
  CHECK(later.last_end_at == status.last_end_at);
  CHECK(later.last_event_at > status.last_event_at);
}

TEST_CASE("a sweep says at once that its last attempt was lost, until one runs") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  const auto attempt = daemon.run(trial, Outcome::lost);
  daemon.commit({set_trial(trial, State::planned, {}, "", 1)});
  const auto reader = must(Reader::open(dir / "a.db"));
  const SweepId sweep = must(reader->status({"demo"})).at(0).id;
  CHECK(must(reader->status({"demo"})).at(0).waiting.empty());
  daemon.commit({AddEvent{.at = daemon.now,
      .sweep = sweep,
      .trial = trial,
      .attempt = attempt,
      .kind = EventKind::lost,
      .detail = "./mine.py: No such file or directory"}});
  CHECK(must(reader->status({"demo"})).at(0).waiting ==
      "The last attempt was lost: ./mine.py: No such file or directory");
  daemon.commit({set_trial(trial, State::running, {}, "", 1)});
  CHECK(must(reader->status({"demo"})).at(0).waiting.empty());
}

TEST_CASE("of a sweep without a measurement the most frequent cause is read") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}});
  const auto cause = [&] {
    return must(must(Reader::open(dir / "a.db"))->status({"demo"})).at(0).cause;
  };
  const auto ends = [&](const std::string& where, Outcome outcome, const std::string& why) {
    daemon.commit({set_trial(daemon.trial(where), State::ended, outcome, why, 1)});
  };
  CHECK(cause().empty());
  ends("model = 'tiny' and gpus = 1 and micro_batch = 1", Outcome::oom, "out of memory");
  CHECK(cause() == "out of memory");
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(
          "UPDATE trials SET state = 'ended', outcome = 'crashed', cause = 'no such file' "
          "WHERE state <> 'ended'");
  CHECK(cause() == "no such file");
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(
          "UPDATE trials SET outcome = 'skipped', cause = 'a smaller one' "
          "WHERE outcome = 'crashed'");
  CHECK(cause() == "out of memory");
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute("UPDATE trials SET outcome = 'completed' WHERE outcome = 'oom'");
  CHECK(cause().empty());
}
