// SPDX-License-Identifier: Apache-2.0
#include "store/inbox_file.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// What a reader can see of a sweep's rows.
std::string visible(const std::filesystem::path& database) {
  return rows_of(database,
      "SELECT (SELECT count(*) FROM sweeps), (SELECT count(*) FROM trials), "
      "(SELECT count(*) FROM left_out), (SELECT count(*) FROM events), (SELECT "
      "ifnull(max(revision), 0) FROM sweeps)");
}

std::string outcomes(const std::filesystem::path& database) {
  return rows_of(database,
      "SELECT model, gpus, micro_batch, outcome FROM trials WHERE outcome IS NOT NULL "
      "ORDER BY 1, 2, 3");
}

std::string report_text(const SubmitReport& report) {
  return fmt::format("{} trials {} fresh {} known {} measured {} undecided {} gone {} left out{}",
      report.trials, report.fresh, report.known, report.measured, report.undecided, report.gone,
      report.left_out, report.resubmitted ? " again" : "");
}

}  // namespace

TEST_CASE("a small submission becomes visible as a whole with its last piece") {
  const TempDir dir;
  const auto file = dir / "a.db";
  SweepFile().write(dir / "inbox");
  Daemon daemon(file);
  CHECK_FALSE(must(daemon.store->accept_inbox(dir / "inbox", 1, 8)).done);
  CHECK(visible(file) == "0|0|0|0|0\n");
  CHECK(must(daemon.store->load_world()).sweeps.empty());
  const auto last = must(daemon.store->accept_inbox(dir / "inbox", 1, 100));
  CHECK(last.done);
  CHECK(report_text(last.report) ==
      "12 trials 12 fresh 0 known 0 measured 0 undecided 0 gone 2 left out");
  CHECK(visible(file) == "1|12|2|1|1\n");
  CHECK(rows_of(file, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'incoming%'") == "0\n");
  CHECK(rows_of(file, "SELECT detail FROM events") ==
      "12 trials: 12 new, 0 known (0 with an outcome), 0 gone; 2 left out\n");
}

TEST_CASE("no piece of a submission is larger than it may be, and a new sweep waits for all") {
  const TempDir dir;
  const auto file = dir / "a.db";
  SweepFile({.gpus = {1, 2, 4, 8}}).write(dir / "inbox");
  Daemon daemon(file);
  std::int64_t before = 0;
  for (int pieces = 0; pieces < 100; ++pieces) {
    const auto progress = must(daemon.store->accept_inbox(dir / "inbox", 1, 4));
    const auto placed = std::stoll(rows_of(file, "SELECT count(*) FROM trials"));
    CHECK(placed - before <= 4);
    before = placed;
    if (progress.done) break;
    CHECK(progress.report.name == "demo");
    if (placed > 0)
      CHECK(rows_of(file, "SELECT state, held FROM sweeps") ==
          "paused|Its trials are being stored.\n");
  }
  CHECK(before == 16);
  CHECK(rows_of(file, "SELECT state, held, revision FROM sweeps") == "active||1\n");
}

TEST_CASE("an edited sweep that is interrupted at any piece ends as if it had not been") {
  const std::string rows =
      "SELECT model, gpus, micro_batch, hidden, state, outcome, position, lane FROM trials "
      "ORDER BY 1, 2, 3";
  const auto prepare = [](const TempDir& dir, Daemon& daemon) {
    daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1, 2}});
    daemon.run(
        daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1"), Outcome::completed, 1);
    daemon.run(daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 1"), Outcome::oom);
    // gpus: 1 goes, 4 comes
    SweepFile({.gpus = {4, 2}, .micro_batch = {1, 2}}).write(dir / "edited");
  };
  const TempDir whole;
  Daemon at_once(whole / "a.db");
  prepare(whole, at_once);
  const std::string report = report_text(at_once.submit(whole / "edited"));
  for (int pieces = 0; pieces < 60; ++pieces) {
    CAPTURE(pieces);
    const TempDir dir;
    const auto file = dir / "a.db";
    bool done = false;
    {
      Daemon first(file);
      prepare(dir, first);
      for (int piece = 0; piece < pieces && !done; ++piece)
        done = must(first.store->accept_inbox(dir / "edited", 1, 1)).done;
    }
    // A daemon that comes now runs nothing new under the old file, and nothing gone under the
    // new one.
    CHECK(rows_of(file,
              "SELECT count(*) FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE "
              "t.hidden = 0 AND t.gpus = iif(s.revision = 1, 4, 1)") == "0\n");
    Daemon second(file);
    CHECK(report_text(second.submit(dir / "edited", 3)) == report);
    CHECK(rows_of(file, rows) == rows_of(whole / "a.db", rows));
    if (done) return;
  }
  FAIL("60 pieces are not enough");
}

TEST_CASE("a submission interrupted at any piece is taken over by the next daemon") {
  for (std::int64_t pieces = 0; pieces < 15; ++pieces) {
    const TempDir dir;
    const auto file = dir / "a.db";
    SweepFile().write(dir / "inbox");
    {
      Daemon first(file);
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        if (must(first.store->accept_inbox(dir / "inbox", 1, 1)).done) break;
      }
    }
    Daemon second(file);
    CHECK(report_text(second.submit(dir / "inbox", 3)) ==
        "12 trials 12 fresh 0 known 0 measured 0 undecided 0 gone 2 left out");
    CHECK(visible(file) == "1|12|2|1|1\n");
  }
}

TEST_CASE("a submission that was taken over already gives the same answer again") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  SweepFile().write(dir / "inbox");
  const auto first = daemon.submit(dir / "inbox");
  daemon.run(
      daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1"), Outcome::completed, 1);
  const auto before = visible(dir / "a.db");
  const auto again = daemon.submit(dir / "inbox");
  CHECK(report_text(again) == report_text(first));
  CHECK(again.sweep == first.sweep);
  CHECK(visible(dir / "a.db") == before);
}

TEST_CASE("a submission given up half-way leaves nothing to the next one") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  SweepFile({.gpus = {1, 2, 4, 8}}).write(dir / "given up");
  CHECK_FALSE(must(daemon.store->accept_inbox(dir / "given up", 1, 9)).done);
  SweepFile({.gpus = {1}}).write(dir / "inbox");
  CHECK(report_text(daemon.submit(dir / "inbox", 3)) ==
      "4 trials 4 fresh 0 known 0 measured 0 undecided 0 gone 2 left out");
}

TEST_CASE("an edited sweep runs what is new and loses nothing") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1, 2}});
  daemon.run(
      daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1"), Outcome::completed, 1);
  daemon.run(daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 1"), Outcome::oom);
  daemon.run(daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 2"), Outcome::lost);
  const auto before = outcomes(file);

  // gpus: 1 goes, 4 comes
  auto report = daemon.submit(dir, {.gpus = {4, 2}, .micro_batch = {1, 2}});
  CHECK(report_text(report) ==
      "8 trials 4 fresh 4 known 2 measured 1 undecided 4 gone 2 left out again");
  CHECK(outcomes(file) == before);
  auto world = must(daemon.store->load_world());
  CHECK(std::all_of(world.trials.begin(), world.trials.end(),
      [](const auto& entry) { return entry.second.gpus != 1; }));
  CHECK(rows_of(file, "SELECT count(*) FROM results") == "8\n");
  CHECK(
      rows_of(file, "SELECT gpus FROM trials WHERE hidden = 0 ORDER BY position LIMIT 1") == "4\n");

  // and back: what was hidden comes back with its outcome
  report = daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1, 2}});
  CHECK(report_text(report) ==
      "8 trials 0 fresh 8 known 3 measured 1 undecided 4 gone 2 left out again");
  CHECK(outcomes(file) == before);
  CHECK(rows_of(file, "SELECT revision FROM sweeps") == "3\n");
}

TEST_CASE("a new runner version makes new trials and keeps the old numbers") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 1);
  const auto report = daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}, .runner_version = "2"});
  CHECK(report_text(report) ==
      "2 trials 2 fresh 0 known 0 measured 0 undecided 2 gone 2 left out again");
  CHECK(rows_of(dir / "a.db",
            "SELECT runner_version, in_file, outcome FROM all_results WHERE model = 'tiny' "
            "ORDER BY 1") == "1.0|0|completed\n2|1|NULL\n");
}

TEST_CASE("another runner of the same version makes new trials, and only these are searched") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1, 2}});
  daemon.run(daemon.trial("model = 'tiny' and micro_batch = 1"), Outcome::completed, 1);
  daemon.run(daemon.trial("model = 'tiny' and micro_batch = 2"), Outcome::oom);
  const Grid grid{.gpus = {1}, .micro_batch = {1, 2}, .runner = "mine"};
  const auto report = daemon.submit(dir, grid);
  CHECK(report_text(report) ==
      "4 trials 4 fresh 0 known 0 measured 0 undecided 4 gone 2 left out again");
  const SweepFile file(grid);
  const auto rows = must(daemon.store->search_rows(report.sweep, file.sweep));
  CHECK(rows.size() == 4);
  // An OOM of one runner tells nothing about the other.
  const auto world = must(daemon.store->load_world());
  CHECK(world.trials.size() == 4);
}

TEST_CASE("a trial of an older database gets its runner's own name when it is submitted again") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const Grid grid{.gpus = {1}, .micro_batch = {1}, .runner = "mine"};
  daemon.submit(dir, grid);
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 1);
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute("UPDATE trials SET runner = 'shardbench'");
  const auto report = daemon.submit(dir, grid);
  CHECK(report_text(report) ==
      "2 trials 0 fresh 2 known 1 measured 0 undecided 0 gone 2 left out again");
  CHECK(rows_of(dir / "a.db", "SELECT DISTINCT runner FROM results") == "mine\n");
}

TEST_CASE("a hidden trial that runs is still brought to its end") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}});
  const auto running = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1");
  daemon.commit({set_trial(running, State::running, {}, "", 1)});
  daemon.submit(dir, {.gpus = {2}});
  const auto world = must(daemon.store->load_world());
  CHECK(world.trials.at(running).hidden);
  CHECK(world.trials.size() == 5);
  const auto sweeps = must(must(Reader::open(dir / "a.db"))->status({}));
  CHECK(sweeps.front().removed_running == 1);
  CHECK(sweeps.front().by_state.count("running") == 0);
}

TEST_CASE("a cancelled sweep becomes active and a paused one stays paused") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto id = daemon.submit(dir, {.gpus = {1}}).sweep;
  const auto state_after = [&](SweepState state) {
    daemon.commit({SetSweep{{.id = id, .state = state}}});
    daemon.submit(dir, {.gpus = {1}});
    return rows_of(dir / "a.db", "SELECT state FROM sweeps");
  };
  CHECK(state_after(SweepState::cancelled) == "active\n");
  CHECK(state_after(SweepState::paused) == "paused\n");
  CHECK(state_after(SweepState::active) == "active\n");
}

TEST_CASE("two trials of one identity are refused before anything is written") {
  const TempDir dir;
  SweepFile submission;
  submission.plan.trials.push_back(submission.plan.trials.front());
  const auto written = write_inbox(dir / "inbox", submission.submitted(),
      [&](const Point& point) { return submission.names(point); });
  REQUIRE_FALSE(written);
  CHECK(written.error().kind == FaultKind::corrupt);
  CHECK(written.error().what.find("UNIQUE constraint failed") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "inbox"));
}

TEST_CASE("what is not a submission or another version's is refused") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto refused = [&](const std::string& name) {
    const auto answer = daemon.store->accept_inbox(dir / name, 1, 10);
    REQUIRE_FALSE(answer);
    return answer.error().what;
  };
  CHECK(refused("a.db") == "a.db is not a submission");
  CHECK(refused("missing").find("unable to open database file") != std::string::npos);
  SweepFile().write(dir / "newer");
  sqlite::Database(dir / "newer", sqlite::OpenMode::existing, 0)
      .execute("PRAGMA user_version = 9999");
  CHECK(refused("newer") ==
      fmt::format("newer was written by another version of shardsweep (format 9999, the daemon "
                  "reads {}): restart the daemon, or submit with its version",
          sqlite::inbox_version()));
  CHECK_FALSE(write_inbox(dir / "newer", SweepFile().submitted(), {}));
}

TEST_CASE("names with quotes and SQL in them are stored as they are") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  SweepFile submission({.gpus = {1}, .micro_batch = {1}});
  const std::string evil = "x'); DROP TABLE trials; --\"\n$(rm -rf /)`%s {}";
  submission.sweep.name = evil;
  submission.sweep.models[0].name = evil;
  submission.plan.left_out[0].verdict.why = evil;
  submission.write(dir / "inbox");
  daemon.submit(dir / "inbox");
  const auto reader = must(Reader::open(dir / "a.db"));
  CHECK(must(reader->status({evil})).at(0).name == evil);
  const auto table = must(reader->results({.selection = {.names = {evil}}, .columns = {"model"}}));
  CHECK(std::get<std::string>(table.rows.at(0).at(0)) == evil);
  const auto cells = must(reader->cells({.selection = {.names = {evil}}, .columns = "gpus"}));
  CHECK(std::any_of(cells.candidates.begin(), cells.candidates.end(),
      [&](const auto& one) { return one.row == evil && !one.feasible; }));
}

TEST_CASE("what waits again after an edit does not count what still runs of it") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  // Cancelled while it was measured once more: it has its earlier outcome, and runs for a
  // while.
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 2");
  daemon.run(trial, Outcome::crashed);
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute("UPDATE attempts SET state = 'running', outcome = NULL, ended_at = 0");
  daemon.commit({set_trial(trial, State::ended, Outcome::skipped, "a bound", 1)});
  const SweepFile file;
  auto edited = file.submitted();
  edited.resolved_hash = "another";
  must(write_inbox(dir / "edited", edited, [&](const Point& p) { return file.names(p); }));
  (void)daemon.submit(dir / "edited");
  CHECK(rows_of(dir / "a.db", "SELECT state, revoked FROM attempts") == "running|1\n");
}

TEST_CASE("what was skipped waits again where the file has changed and nowhere else") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto trial = daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 2");
  daemon.commit({set_trial(trial, State::ended, Outcome::skipped, "a bound", 0)});
  const auto stored = [&] {
    return rows_of(
        dir / "a.db", fmt::format("SELECT state, outcome, cause FROM trials WHERE id = {}", trial));
  };
  daemon.submit(dir, {});
  CHECK(stored() == "ended|skipped|a bound\n");
  const SweepFile file;
  auto edited = file.submitted();
  edited.resolved_hash = "another";
  must(write_inbox(dir / "edited", edited, [&](const Point& p) { return file.names(p); }));
  CHECK(daemon.submit(dir / "edited").measured == 0);
  CHECK(stored() == "planned|NULL|\n");
}
