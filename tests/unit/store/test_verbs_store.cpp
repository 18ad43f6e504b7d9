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

TEST_CASE("an older database counts again what a rerun had taken away") {
  const TempDir dir;
  const auto file = dir / "old.db";
  {
    sqlite::Database old(file, sqlite::OpenMode::create, 1000);
    sqlite::migrate(old, sqlite::migrations().first(8));
    const auto trial = [&](int id, const char* state, const char* outcome, const char* cause) {
      std::string columns =
          "id, sweep, slug, identity, lane, position, model, dtype, recompute, "
          "schedule, rank_order, vars, runner, runner_version, state, outcome, "
          "cause, attempts";
      std::string values = fmt::format(
          "{0}, 1, 't{0}', 'i{0}', 'l', {0}, 'm', 'fp32', 'none', '1f1b', 'tp-dp-pp', '{{}}', "
          "'r', '1', '{1}', {2}, '{3}', 1",
          id, state, outcome, cause);
      for (const char* const number : {"nodes", "gpus", "seq_len", "dp", "tp", "pp", "cp", "ep",
               "vpp", "dp_replicate", "micro_batch", "grad_accum", "zero", "sequence_parallel",
               "bucket_mb", "overlap", "repeat", "layers", "hidden_size", "ffn", "heads",
               "kv_heads", "vocab", "global_batch", "predicted_memory_bytes",
               "predicted_train_step_s", "predicted_attempt_s", "predicted_tokens_per_s_per_gpu"}) {
        columns += fmt::format(", {}", number);
        values += ", 1";
      }
      old.execute(fmt::format("INSERT INTO trials ({}) VALUES ({})", columns, values));
    };
    old.execute(
        "INSERT INTO sweeps (id, name, state, source, resolved, resolved_hash, backend, site, "
        "job_template, cluster, runner, runner_version, vars, points, duplicates, left_out, "
        "revision, submission, report, submitted_at) VALUES (1, 's', 'cancelled', '', '', '', "
        "'local', '', '', 'c', 'r', '1', '[]', 1, 0, '{}', 1, 'n', '{}', 1)");
    old.execute(
        "INSERT INTO allocations (id, token, job_name, job_id, dir, backend, nodes, "
        "slots_per_node, state, submission, job_state, created_at, claimed_at, last_beat, "
        "from_lead_n, said_bye, draining, end_reason, end_outcome, time_limit_s, detail) "
        "VALUES "
        "(1, 't', 'j', '', '', 'local', 1, 1, 'ended', 'accepted', 'ended', 0, 0, 0, 0, 1, 1, "
        "'', '', 0.0, '')");
    trial(1, "ended", "'cancelled'", "cancelled on request");  // measured, rerun, cancelled
    trial(2, "ended", "'cancelled'", "cancelled on request");  // cancelled with its sweep
    trial(3, "ended", "'cancelled'", "cancelled on request");  // by name
    trial(4, "planned", "NULL", "");                           // measured, rerun
    trial(5, "ended", "'cancelled'", "limits.max_gpu_hours (2) is spent");
    for (const int id : {1, 4}) {
      old.execute(
          fmt::format("INSERT INTO attempts (id, trial, number, allocation, nonce, dir, "
                      "state, outcome) VALUES ({0}, {0}, 1, 1, 'n{0}', '', 'ended', "
                      "'completed')",
              id));
      old.execute(
          fmt::format("INSERT INTO measurements (attempt, trial, flops_model, "
                      "runner_version, software, hosts, detail) VALUES ({0}, {0}, '', "
                      "'1', '{{}}', '[]', '')",
              id));
    }
    old.execute(
        "INSERT INTO events (at, sweep, trial, kind, detail) VALUES (1, 1, 3, 'cancel', "
        "'')");
  }
  { Daemon daemon(file); }
  CHECK(rows_of(file,
            "SELECT t.id, t.state, outcome, prior, cancelled_by, (SELECT count(*) FROM "
            "attempts AS a WHERE a.trial = t.id AND a.counted = 1) FROM trials AS t ORDER "
            "BY t.id") ==
      "1|ended|completed|NULL||1\n"
      "2|ended|cancelled|NULL|sweep|0\n"
      "3|ended|cancelled|NULL|name|0\n"
      "4|planned|NULL|completed||1\n"
      "5|ended|cancelled|NULL|budget|0\n");
}
