// SPDX-License-Identifier: Apache-2.0
// What verbs ask of the store: names, whether work is left, deletion, older databases.
#include "fleet/trial_change.hpp"
#include "store/deletion.hpp"
#include "store/schema.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <set>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

std::string count(const std::filesystem::path& file, const std::string& table) {
  return rows_of(file, "SELECT count(*) FROM " + table);
}

}  // namespace

TEST_CASE("a slug of several sweeps is refused with the forms that are meant") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}, .name = "one"});
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}, .name = "two"});
  const auto slug = must(daemon.store->select_trials({"one"}, "")).trials.front().slug;
  const auto ambiguous = daemon.store->select_trials({slug}, "");
  REQUIRE_FALSE(ambiguous);
  CHECK(ambiguous.error().kind == FaultKind::invalid_input);
  CHECK(ambiguous.error().what ==
      fmt::format("'{0}' is in 2 sweeps. Write one of one/{0}, two/{0}", slug));
  const auto chosen = must(daemon.store->select_trials({"two/" + slug}, ""));
  REQUIRE(chosen.trials.size() == 1);
  CHECK(chosen.trials.front().sweep == 2);
  CHECK(chosen.sweeps.empty());
  daemon.run(chosen.trials.front().id, Outcome::oom);
  CHECK(must(daemon.store->select_trials({slug + ".1"}, "")).trials.size() == 1);
  CHECK(must(daemon.store->select_trials({"two/" + slug + ".1"}, "")).trials.size() == 1);
  CHECK_FALSE(daemon.store->select_trials({"one/" + slug + ".1"}, ""));
}

TEST_CASE("work is left while a trial of an active sweep waits or anything lives") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto left = [&] { return must(daemon.store->work_left()); };
  CHECK_FALSE(left());
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  CHECK(left());
  daemon.commit({SetSweep{{.id = 1, .state = SweepState::paused}}});
  CHECK_FALSE(left());
  daemon.commit({set_trial(1, State::running, {}, "", 0)});
  CHECK(left());
  daemon.commit({set_trial(1, State::planned, {}, "", 0)});
  PutAllocation allocation;
  allocation.row.id = 1;
  allocation.row.token = "t";
  allocation.row.backend = Backend::local;
  daemon.commit({SetSweep{{.id = 1, .state = SweepState::cancelled}}, allocation});
  CHECK(left());
  allocation.row.state = State::ended;
  daemon.commit({allocation});
  CHECK_FALSE(left());
}

TEST_CASE("a sweep is deleted with all that belongs to it, and nothing else") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  daemon.submit(dir, {.name = "keep"});
  daemon.submit(dir, {.name = "drop"});
  const auto trials = must(daemon.store->select_trials({"drop"}, "")).trials;
  const auto kept = must(daemon.store->select_trials({"keep"}, "")).trials.front().id;
  daemon.run(kept, Outcome::completed, 7);
  const auto before = rows_of(file, "SELECT * FROM results WHERE sweep = 'keep'");
  // An allocation of its own for the sweep to be deleted.
  PutAllocation allocation;
  allocation.row.id = 2;
  allocation.row.sweep = 2;
  allocation.row.token = "second";
  allocation.row.dir = "/allocation";
  allocation.row.backend = Backend::local;
  allocation.row.state = State::ended;
  std::vector<Change> changes{allocation, SeenNode{"n1", "n1", 5, 2}};
  AttemptId id = 10;
  for (const TrialRow& trial : trials) {
    PutAttempt attempt;
    attempt.row = {++id, trial.id, 1, 2, fmt::format("n{}", id), fmt::format("/attempt{}", id),
        State::ended, false};
    attempt.row.ending = {.outcome = Outcome::completed};
    attempt.row.counted = true;
    AddMeasurement measurement;
    measurement.attempt = id;
    measurement.trial = trial.id;
    measurement.samples = {{1, 2.0, 3.0}};
    changes.insert(changes.end(),
        {attempt, set_trial(trial.id, State::ended, Outcome::completed, "", 1), measurement,
            AddEvent{5, 2, trial.id, id, 2, EventKind::completed, ""},
            AddNodeEvidence{"n1",
                {.at = 5,
                    .kind = EvidenceKind::failed,
                    .trial = trial.id,
                    .attempt = id,
                    .detail = "d"}}});
  }
  daemon.commit(changes);
  CHECK(must(daemon.store->contents_of(2)).measurements == 12);
  CHECK(must(daemon.store->contents_of(2)).live == 0);

  std::multiset<std::string> told;
  int pieces = 1;
  while (!must(daemon.store->delete_sweep(
      2, 5, [&](Store::Folder, const std::string& folder) { told.insert(folder); })))
    ++pieces;
  CHECK(pieces > 5);
  CHECK(told.size() == 13);
  CHECK(told.contains("/allocation"));
  CHECK(count(file, "sweeps") == "1\n");
  CHECK(count(file, "trials WHERE sweep = 2") == "0\n");
  CHECK(count(file, "attempts") == "1\n");
  CHECK(count(file, "measurements") == "1\n");
  CHECK(count(file, "train_steps") == "2\n");
  CHECK(count(file, "events WHERE sweep = 2") == "0\n");
  CHECK(count(file, "left_out WHERE sweep = 2") == "0\n");
  CHECK(count(file, "node_evidence WHERE attempt IS NULL AND trial IS NULL") == "12\n");
  CHECK(rows_of(file, "PRAGMA foreign_key_check").empty());
  CHECK(rows_of(file, "SELECT * FROM results WHERE sweep = 'keep'") == before);
  CHECK(rows_of(file, "PRAGMA freelist_count") == "0\n");  // the file system has it back
  // Events of a sweep that is there stay append-only.
  sqlite::Database raw(file, sqlite::OpenMode::existing, 1000);
  CHECK_THROWS(raw.execute("DELETE FROM events"));
}
