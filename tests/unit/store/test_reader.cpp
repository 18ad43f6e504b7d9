// SPDX-License-Identifier: Apache-2.0
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Some of everything: measured, oom, skipped, planned, left out.
void fill(Daemon& daemon, const TempDir& dir) {
  daemon.submit(dir, {.vars = {0, 1}});
  const auto run = [&](const char* where, Outcome outcome, double tokens = 0) {
    daemon.run(daemon.trial(where), outcome, tokens);
  };
  run("model = 'tiny' and gpus = 1 and micro_batch = 1 and nvls = 0", Outcome::completed, 100);
  run("model = 'tiny' and gpus = 1 and micro_batch = 2 and nvls = 0", Outcome::completed, 120);
  run("model = 'tiny' and gpus = 2 and micro_batch = 1 and nvls = 0", Outcome::completed, 90);
  run("model = 'tiny' and gpus = 2 and micro_batch = 2 and nvls = 0", Outcome::oom);
  run("model = 'small' and gpus = 1 and micro_batch = 1 and nvls = 0", Outcome::oom);
  run("model = 'small' and gpus = 1 and micro_batch = 2 and nvls = 0", Outcome::skipped);
}

/// Of what is ranked in a cell the answer's value and winner: "120:dp1 tp1"; else ":".
std::string answer_of_cell(const Cells& cells, const CellCandidate& one) {
  const auto found =
      std::find_if(cells.answers.begin(), cells.answers.end(), [&](const AnsweredPlace& place) {
        return place.row == one.row && place.column == one.column;
      });
  if (!one.ranked || found == cells.answers.end()) return ":";
  return fmt::format("{}:{}", found->value.value_or(0), found->answer.winner()->name);
}

std::string cell(const Cells& cells, const std::string& row, const std::string& column) {
  std::vector<std::string> lines;
  for (const auto& one : cells.candidates) {
    if (one.row != row || one.column != column) continue;
    lines.push_back(fmt::format("{}:{}:{}x{}", one.feasible ? name(one.state) : "infeasible",
        one.outcome ? name(*one.outcome) : "-", answer_of_cell(cells, one), one.trials));
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, " | "));
}

}  // namespace

TEST_CASE("a reader of a database that does not exist says how to make one") {
  const TempDir dir;
  const auto reader = Reader::open(dir / "no.db");
  REQUIRE_FALSE(reader);
  CHECK(reader.error().kind == FaultKind::invalid_input);
  CHECK(reader.error().what ==
      fmt::format("there is no database {}: `shardsweep run SWEEP.yaml` makes one, --db FILE or "
                  "SHARDSWEEP_DB names another",
          (dir / "no.db").string()));
  CHECK_FALSE(std::filesystem::exists(dir / "no.db"));
}

TEST_CASE("query answers SELECT and EXPLAIN and what tells about the schema") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  fill(daemon, dir);
  const auto reader = must(Reader::open(file));
  for (const std::string sql :
      {"SELECT 1", "select count(*) from results;", "  SELECT 1 ; -- done\n",
          "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 5) SELECT 1",
          "EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT * FROM results",
          "PRAGMA table_info(trials)", "PRAGMA table_list", "PRAGMA user_version",
          "SELECT * FROM pragma_table_info('trials')", "SELECT * FROM sqlite_schema",
          "SELECT * FROM json_each('[1, 2]')", "VALUES (1), (2)",
          "SELECT json_extract(vars, '$.nvls'), max(mfu) FROM results GROUP BY 1"}) {
    const auto answer = reader->query(sql);
    CAPTURE(sql);
    if (!answer) FAIL_CHECK(answer.error().what);
  }
  const auto table =
      must(reader->query("SELECT trial_id AS id, mfu, outcome FROM results "
                         "WHERE outcome = 'oom' ORDER BY 1"));
  CHECK(table.columns == std::vector<std::string>{"id", "mfu", "outcome"});
  CHECK(rows_of(table) == "7|NULL|oom\n13|NULL|oom\n");
}

TEST_CASE("query refuses everything that writes and says what") {
  const TempDir dir;
  const auto file = dir / "a.db";
  {
    Daemon daemon(file);
    fill(daemon, dir);
    must(daemon.store->release_lease());
  }
  const auto reader = must(Reader::open(file));
  must(reader->query("SELECT count(*) FROM trials"));
  const auto before = bytes_of(file);
  const auto other = (dir / "other.db").string();
  const std::vector<std::string> attempts{
      "INSERT INTO nodes VALUES ('a', 'b', 1, 2)",
      "UPDATE trials SET outcome = 'completed'",
      "DELETE FROM trials",
      "REPLACE INTO nodes VALUES ('a', 'b', 1, 2)",
      "WITH x AS (SELECT 1) INSERT INTO nodes SELECT 'a', 'b', 1, 2 FROM x",
      "EXPLAIN DELETE FROM trials",
      "DROP TABLE trials",
      "CREATE TABLE t (a)",
      "CREATE TEMP TABLE t (a)",
      "CREATE VIEW v AS SELECT 1",
      "CREATE TEMP TRIGGER x AFTER INSERT ON nodes BEGIN SELECT 1; END",
      "CREATE INDEX i ON trials (slug)",
      "CREATE VIRTUAL TABLE f USING fts5 (a)",
      "ALTER TABLE trials ADD COLUMN x",
      "ATTACH '" + other + "' AS other",
      "DETACH main",
      "VACUUM",
      "VACUUM INTO '" + other + "'",
      "PRAGMA user_version = 7",
      "PRAGMA query_only = 0",
      "PRAGMA writable_schema = 1",
      "PRAGMA journal_mode = OFF",
      "PRAGMA journal_mode",
      "PRAGMA wal_checkpoint(TRUNCATE)",
      "PRAGMA temp_store_directory = '/tmp'",
      "PRAGMA optimize",
      "BEGIN IMMEDIATE",
      "COMMIT",
      "SAVEPOINT s",
      "ANALYZE",
      "REINDEX",
      "SELECT load_extension('/tmp/x.so')",
      "SELECT writefile('" + other + "', 'x')",
      "SELECT readfile('/etc/passwd')",
      "SELECT edit('x')",
      "SELECT 1; DELETE FROM trials",
      "SELECT 1; SELECT 2",
      "UPDATE lease SET held = 0 RETURNING *",
      "INSERT INTO sqlite_schema VALUES (1, 2, 3, 4, 5)",
      "UPDATE sqlite_schema SET sql = ''",
      "UPDATE sqlite_master SET name = 'x' WHERE name = 'trials'",
  };
  for (const auto& sql : attempts) {
    CAPTURE(sql);
    const auto answer = reader->query(sql);
    REQUIRE_FALSE(answer);
    CHECK_FALSE(answer.error().what.empty());
  }
  CHECK(bytes_of(file) == before);
  CHECK_FALSE(std::filesystem::exists(other));
  CHECK(reader->query("DELETE FROM trials").error() ==
      Fault{FaultKind::rejected, "query runs one SELECT: writing to 'trials' is not allowed."});
  CHECK(reader->query("").error().what == "the statement is empty");
  CHECK(reader->query("SELEC 1").error().what == "near \"SELEC\": syntax error");
  CHECK(reader->query("SELECT ?1").error().what == "parameters are not allowed");
}

TEST_CASE("a value without measure is refused") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto reader = must(Reader::open(dir / "a.db"));
  for (const std::string sql : {"SELECT zeroblob(1000000000)",
           "SELECT replace(hex(zeroblob(9999999)), '0', hex(zeroblob(999)))"}) {
    CAPTURE(sql);
    const auto answer = reader->query(sql);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().what == "string or blob too big");
  }
}

TEST_CASE("a query without an end is stopped by its size") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto endless = reader->query(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n");
  REQUIRE_FALSE(endless);
  CHECK(endless.error().what ==
      "the answer is too large (more than 2000000 rows or 512 MiB): select less, or use LIMIT");
}

TEST_CASE("results are filtered and sorted by columns and vars and nothing else") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto ask = [&](const ResultsRequest& request) { return reader->results(request); };
  const auto table = must(ask({.selection = {.where = "tokens_per_s_per_gpu > 95 or nvls = 1"},
      .columns = {"model", "gpus", "nvls", "tokens_per_s_per_gpu"},
      .sort = "-tokens_per_s_per_gpu",
      .limit = 3}));
  CHECK(rows_of(table) == "tiny|1|0|120\ntiny|1|0|100\ntiny|1|1|NULL\n");
  CHECK(must(ask({.measured_only = true})).rows.size() == 3);
  CHECK(must(ask({.selection = {.names = {"demo"}}})).rows.size() == 24);
  CHECK(must(ask({.selection = {.names = {"4001"}}})).rows.size() == 6);
  const auto first = std::get<std::string>(must(ask({})).rows[0][1]);
  CHECK(must(ask({.selection = {.names = {first + ".1"}}})).rows.size() == 1);
  CHECK_FALSE(ask({.selection = {.names = {first + ".9"}}}));

  for (const std::string where : {"1) OR (1", "1 -- ", "1 /*", "1; DROP TABLE trials", "(SELECT 1)",
           "tp in (select 1 from trials)", "1) UNION SELECT * FROM sweeps --", "nosuch = 1",
           "model = \"tiny\"", "load_extension('x')", "?1", "count(*) > 1", "exists (values (1))",
           "1,1", "printf('%.*c', 2000000000, 'x') = ''", "format('%d', tp) = ''",
           "hex(zeroblob(1000000000)) = ''", "replace(trial, 'a', 'aa') = ''",
           "randomblob(9) = ''"}) {
    CAPTURE(where);
    const auto refused = ask({.selection = {.where = where}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == FaultKind::invalid_input);
  }
  for (const std::string where : {"json_extract(hosts, '$[0]') = 'n1' or hosts ->> 0 = 'n2'",
           "upper(model) LIKE 'TI%'", "ended_at < datetime('now')", "abs(tp) IN (1, 2)"}) {
    CAPTURE(where);
    CHECK(ask({.selection = {.where = where}}));
  }
  CHECK_FALSE(ask({.columns = {"trial\" FROM sweeps --"}}));
  CHECK_FALSE(ask({.sort = "1; DROP TABLE trials"}));
  CHECK(ask({.columns = {"mfuu"}})
            .error()
            .what.starts_with("there is no column 'mfuu', did you mean 'mfu'?"));
}

TEST_CASE("results come row by row as they come in a table") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  const ResultsRequest request{.columns = {"all"}, .sort = "-tokens_per_s_per_gpu"};
  Table streamed;
  must(reader->each_result(request,
      {[&](const auto& columns) { streamed.columns = columns; },
          [&](const auto& row) { streamed.rows.push_back(row); }}));
  const auto table = must(reader->results(request));
  CHECK(streamed.columns == table.columns);
  CHECK(rows_of(streamed) == rows_of(table));
  CHECK(reader->each_result({.columns = {"mfuu"}}, {}).error().what.starts_with("there is no"));
}

TEST_CASE("trials are counted without being read") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  CHECK(must(reader->count({})) == 24);
  CHECK(must(reader->count({.names = {"demo"}, .where = "state <> 'ended'"})) == 18);
  CHECK(must(reader->count({.where = "tokens_per_s_per_gpu >= 100"})) == 2);
  CHECK(must(reader->count({.where = "nvls = 0 and outcome = 'oom'"})) == 2);
  CHECK_FALSE(reader->count({.names = {"nobody"}}));
}

TEST_CASE("sweeps are rows in the order of their submission") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.name = "second"});
  daemon.submit(dir, {.name = "first"});
  const auto sweeps = must(must(Reader::open(dir / "a.db"))->sweeps());
  REQUIRE(sweeps.size() == 2);
  CHECK(sweeps[0].name == "second");
  CHECK(sweeps[1].name == "first");
  CHECK(sweeps[1].backend == Backend::local);
  CHECK(sweeps[1].resolved == "resolved\n");
}

TEST_CASE("cells hold what ran and what did not and what can't") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto cells = must(reader->cells({.rows = "model", .columns = "gpus"}));
  CHECK(cells.note.find("2 values of nvls") != std::string::npos);
  CHECK(cell(cells, "tiny", "1") ==
      "ended:completed:120:dp1 tp1 pp1 mb2 ga1 z0 nvls=0x2 | planned:-::x2");
  CHECK(cell(cells, "tiny", "2") ==
      "ended:completed:90:dp2 tp1 pp1 mb1 ga1 z0 nvls=0x1 | ended:oom::x1 | planned:-::x2");
  CHECK(cell(cells, "small", "1") == "ended:oom::x1 | ended:skipped::x1 | planned:-::x2");
  CHECK(cell(cells, "small", "4") == "planned:-::x4");
  CHECK(cell(cells, "tiny", "8") == "infeasible:-::x2");
  const auto memory = must(reader->cells({.selection = {.where = "nvls = 0"},
      .rows = "micro_batch",
      .columns = "nvls",
      .value = "peak_memory_bytes"}));
  CHECK(cell(memory, "1", "0") == "ended:completed:3145728:dp1 tp1 pp1 mb1 ga1 z0x1");
  CHECK(memory.note.starts_with("The trials have 2 models and 3 GPU counts. Shown: "));
  CHECK(reader->cells({.value = "slug"})
            .error()
            .what.starts_with(
                "there is no metric 'slug'; a heatmap shows outcome, tokens_per_s_per_gpu"));
  CHECK_FALSE(reader->cells({.rows = "nodes; --"}));
}

TEST_CASE("best is the fastest per cell and leaves marked measurements out") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  daemon.run(daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1 and nvls = 1"),
      Outcome::completed, 999, Mark::implausible);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->best({}));
  CHECK(table.columns[5] == "tokens_per_s_per_gpu");
  REQUIRE(table.rows.size() == 2);
  CHECK(table.columns[15] == "runner_up");
  CHECK(std::get<std::string>(table.rows[0][15]) == "dp1 tp1 pp1 mb1 ga1 z0");
  CHECK(std::get<double>(table.rows[0][18]) == doctest::Approx(120.0 / 100 - 1));
  CHECK(std::get<std::int64_t>(table.rows[0][16]) == 1);
  CHECK(table.rows[1][16] == Value());
  CHECK(table.columns[24] == "profile");
  CHECK(table.columns[25] == "nvls");
  CHECK(std::get<double>(table.rows[0][5]) == 120);
  CHECK(std::get<std::string>(table.rows[0][4]) == "dp1 tp1 pp1 mb2 ga1 z0");
  CHECK(std::get<double>(table.rows[1][5]) == 90);
  CHECK(must(reader->best({.where = "gpus > 2"})).rows.empty());
  CHECK(must(reader->best({.where = "gpus > 2"})).columns.size() == 29);
}

TEST_CASE("what was cut short has its mark, is not ranked, and names its leader") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const TrialId leader =
      daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 2 and nvls = 0");
  const TrialId beaten =
      daemon.trial("model = 'tiny' and gpus = 1 and micro_batch = 1 and nvls = 1");
  const AttemptId attempt = daemon.run(beaten, Outcome::completed, 999, Mark::cut_short);
  AttemptRow row{.id = attempt, .trial = beaten, .number = 1, .allocation = 1};
  row.state = State::ended;
  row.ending = {.outcome = Outcome::completed};
  row.counted = true;
  row.leader = leader;
  daemon.commit({PutAttempt{row}});
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->results({.selection = {.where = "mark = 'cut_short'"},
      .columns = {"mark", "cut_short", "beaten_by", "tokens_per_s_per_gpu"}}));
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0][1] == Value(std::int64_t{1}));
  CHECK(std::get<std::string>(table.rows[0][2]).find("mb2") != std::string::npos);
  CHECK(table.rows[0][3] == Value(999.0));
  for (const auto& ranked : must(reader->best({})).rows)
    CHECK(std::get<double>(ranked[5]) < 999);
  for (const auto& place : must(reader->cells({.rows = "model", .columns = "gpus"})).answers)
    CHECK(place.value.value_or(0) < 999);
}

TEST_CASE("no layout is the runner-up of itself, though two sweeps measured it") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto run = [&](const char* sweep, int micro_batch, double tokens) {
    daemon.run(daemon.trial(fmt::format("sweep = '{}' and model = 'tiny' and gpus = 1 and "
                                        "micro_batch = {}",
                   sweep, micro_batch)),
        Outcome::completed, tokens);
  };
  for (const char* name : {"first", "second"})
    daemon.submit(dir, {.gpus = {1}, .name = name});
  run("first", 1, 90);
  run("first", 2, 100);
  run("second", 2, 110);
  auto reader = must(Reader::open(dir / "a.db"));
  auto table = must(reader->best({}));
  REQUIRE(table.rows.size() == 1);
  CHECK(std::get<std::string>(table.rows[0][4]) == "dp1 tp1 pp1 mb2 ga1 z0");
  CHECK(std::get<std::string>(table.rows[0][15]) == "dp1 tp1 pp1 mb1 ga1 z0");
  CHECK(std::get<double>(table.rows[0][18]) == doctest::Approx(110.0 / 90 - 1));
  // The other layout comes last, and is second all the same.
  run("second", 1, 105);
  table = must(must(Reader::open(dir / "a.db"))->best({}));
  CHECK(std::get<double>(table.rows[0][18]) == doctest::Approx(110.0 / 105 - 1));
}

TEST_CASE("a layout that is repeated is worth its median") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .repeats = 3});
  const double tokens[] = {10, 500, 20};
  for (int repeat = 1; repeat <= 3; ++repeat) {
    daemon.run(
        daemon.trial(fmt::format("model = 'tiny' and micro_batch = 1 and repeat = {}", repeat)),
        Outcome::completed, tokens[repeat - 1]);
  }
  daemon.run(
      daemon.trial("model = 'tiny' and micro_batch = 2 and repeat = 1"), Outcome::completed, 15);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->best({}));
  REQUIRE(table.rows.size() == 1);
  CHECK(std::get<double>(table.rows[0][5]) == 20);
  CHECK(std::get<std::int64_t>(table.rows[0][9]) == 3);
  CHECK(std::get<double>(table.rows[0][19]) == doctest::Approx((500.0 - 10) / 20));
  CHECK(std::get<std::int64_t>(table.rows[0][10]) == 4);
  const auto cells = must(reader->cells({.rows = "model", .columns = "gpus"}));
  CHECK(cell(cells, "tiny", "1") == "ended:completed:20:dp1 tp1 pp1 mb1 ga1 z0x4 | planned:-::x2");
  // What followers and status show is the same.
  const auto followed = must(reader->best_of_cells({must(reader->status({})).at(0).id}));
  REQUIRE(followed.size() == 1);
  CHECK(followed[0].tokens_per_s_per_gpu == 20);
}

TEST_CASE("runner versions are not mixed unasked") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 700);
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}, .runner_version = "2.0"});
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 100);
  const auto reader = must(Reader::open(dir / "a.db"));
  CHECK(must(reader->best({})).rows.size() == 1);
  CHECK(must(reader->layouts({.hidden = true})).rows.size() == 1);
  CHECK(must(reader->layouts({.hidden = true})).note == must(reader->best({.hidden = true})).note);
  const auto best = must(reader->best({.hidden = true}));
  REQUIRE(best.rows.size() == 1);
  CHECK(std::get<double>(best.rows[0][5]) == 100);
  CHECK(best.note ==
      "Ranked: shardbench 2.0. Not ranked: 1 run of other software (shardbench 1.0). "
      "--all-versions ranks them too.");
  CHECK(must(reader->best({.hidden = true, .all_versions = true})).rows.size() == 2);
  CHECK(must(reader->best({.hidden = true, .all_versions = true})).note.empty());
  const auto old = must(reader->best({.where = "runner_version = '1.0'", .hidden = true}));
  CHECK(std::get<double>(old.rows.at(0)[5]) == 700);
  const auto cells = must(reader->cells({.selection = {.hidden = true}, .columns = "gpus"}));
  CHECK(cell(cells, "tiny", "1") == "ended:completed:100:dp1 tp1 pp1 mb1 ga1 z0x1");
  CHECK_FALSE(cells.note.empty());
}

/// The same points, measured by shardbench (700) and then by somebody's own runner (100).
void measure_by_two_runners(Daemon& daemon, const TempDir& dir) {
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 700);
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}, .runner = "mine", .runner_version = "1.0"});
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 100);
}

TEST_CASE("two runners are not mixed unasked, whatever their versions") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  measure_by_two_runners(daemon, dir);
  CHECK(rows_of(dir / "a.db",
            "SELECT runner, runner_version, in_file, tokens_per_s_per_gpu "
            "FROM all_results WHERE model = 'tiny' ORDER BY 1") ==
      "mine|1.0|1|100\nshardbench|1.0|0|700\n");
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto best = must(reader->best({.hidden = true}));
  REQUIRE(best.rows.size() == 1);
  CHECK(std::get<double>(best.rows[0][5]) == 100);
  CHECK(std::get<std::string>(best.rows[0][13]) == "mine");
  CHECK(best.note ==
      "Ranked: mine 1.0. Not ranked: 1 run of other software (shardbench 1.0). --all-versions "
      "ranks them too.");
  const auto cells = must(reader->cells({.selection = {.hidden = true}, .columns = "gpus"}));
  CHECK(cell(cells, "tiny", "1") == "ended:completed:100:dp1 tp1 pp1 mb1 ga1 z0x1");
  CHECK(cells.runners == std::vector<std::string>{"mine 1.0"});
  CHECK(cells.note == best.note);  // one count for one thing
}

TEST_CASE("runners stand side by side where they are asked for") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  measure_by_two_runners(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto both =
      must(reader->best({.where = "runner in ('mine', 'shardbench')", .hidden = true}));
  REQUIRE(both.rows.size() == 2);
  CHECK(both.note.empty());
  const auto one = must(reader->best({.where = "runner = 'shardbench'", .hidden = true}));
  REQUIRE(one.rows.size() == 1);
  CHECK(std::get<double>(one.rows[0][5]) == 700);
  const auto cells = must(reader->cells(
      {.selection = {.where = "model = 'tiny'", .hidden = true}, .columns = "runner"}));
  CHECK(cell(cells, "tiny", "mine") == "ended:completed:100:dp1 tp1 pp1 mb1 ga1 z0x1");
  CHECK(cell(cells, "tiny", "shardbench") == "ended:completed:700:dp1 tp1 pp1 mb1 ga1 z0x1");
}

TEST_CASE("what a runner adds to its result record is a column") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  const auto trial = daemon.trial("model = 'tiny'");
  daemon.run(trial, Outcome::completed, 700);
  daemon.run(daemon.trial("model = 'small'"), Outcome::completed, 600);
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(
          fmt::format("UPDATE measurements SET detail = iif(trial = {}, "
                      "'{{\"bubble\":0.25,\"phase_ms\":{{\"forward\":3}},\"note\":\"it''s\"}}', "
                      "'') ",
              trial));
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->results(
      {.columns = {"model", "bubble", "phase_ms.forward", "note"}, .sort = "-bubble"}));
  CHECK(table.columns == std::vector<std::string>{"model", "bubble", "phase_ms.forward", "note"});
  CHECK(rows_of(table) == "tiny|0.25|3|it's\nsmall|NULL|NULL|NULL\n");
  CHECK(must(reader->results({.selection = {.where = "bubble < 0.5"}, .columns = {"model"}}))
            .rows.size() == 1);
  CHECK_FALSE(reader->results({.columns = {"bubbles"}}).has_value());
  CHECK_FALSE(reader->results({.columns = {"phase_ms"}}).has_value());
  CHECK_FALSE(reader->results({.columns = {"x') FROM t --"}}).has_value());
}

TEST_CASE("seconds from an attempt's start to its first train step are a column") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}});
  const auto trial = daemon.trial("model = 'tiny'");
  daemon.run(trial, Outcome::completed, 700);
  daemon.run(daemon.trial("model = 'small'"), Outcome::completed, 600);
  // Its result came 9 s after its start, right after two steps of 1.5 s. Of the other one it is
  // not known when its result came.
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(fmt::format(
          "DELETE FROM train_steps; UPDATE attempts SET started_at = 1000000, ended_at = "
          "12000000; UPDATE measurements SET detail = iif(trial = {0}, '{{\"t\":10.0}}', "
          "'{{}}'); "
          "INSERT INTO train_steps SELECT a.id, x.value, 1500, NULL FROM attempts AS a, "
          "json_each('[1, 2]') AS x",
          trial));
  const auto reader = must(Reader::open(dir / "a.db"));
  CHECK(rows_of(must(reader->results({.columns = {"model", "startup_s"}, .sort = "model"}))) ==
      "small|NULL\ntiny|6\n");
}

TEST_CASE("naming a runner does not mix its versions") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  measure_by_two_runners(daemon, dir);
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1}, .runner = "mine", .runner_version = "1.1"});
  daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 90);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto best = must(reader->best({.where = "runner = 'mine'", .hidden = true}));
  REQUIRE(best.rows.size() == 1);
  CHECK(std::get<double>(best.rows[0][5]) == 90);
  CHECK(best.note ==
      "Ranked: mine 1.1. Not ranked: 1 run of other software (mine 1.0). --all-versions ranks "
      "them too.");
  const auto both = must(reader->best({.where = "runner_version <> ''", .hidden = true}));
  CHECK(both.rows.size() == 2);
}

TEST_CASE("of many versions the newest is ranked, and the three before it are named") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  for (int version = 1; version <= 6; ++version) {
    daemon.submit(dir,
        {.gpus = {1}, .micro_batch = {1}, .runner_version = fmt::format("nightly-{}", version)});
    daemon.run(daemon.trial("model = 'tiny'"), Outcome::completed, 100 - version);
  }
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto best = must(reader->best({.hidden = true}));
  REQUIRE(best.rows.size() == 1);
  CHECK(std::get<double>(best.rows[0][5]) == 94);
  CHECK(best.note ==
      "Ranked: shardbench nightly-6. Not ranked: 5 runs of other software (shardbench nightly-3, "
      "shardbench nightly-4, shardbench nightly-5 and 2 more). --all-versions ranks them too.");
  const auto all = must(reader->best({.hidden = true, .all_versions = true}));
  CHECK(all.rows.size() == 6);
  CHECK(all.note.empty());
}

TEST_CASE("status counts and tells how long the rest takes") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  daemon.run(
      daemon.trial("model = 'small' and gpus = 4 and micro_batch = 2 and nvls = 1"), Outcome::lost);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto all = must(reader->status({}));
  REQUIRE(all.size() == 1);
  const auto& one = all[0];
  CHECK(one.name == "demo");
  CHECK(one.trials == 24);
  CHECK(one.left_out == 2);
  CHECK(one.by_state.at("planned") == 17);
  CHECK(one.by_outcome.at("completed") == 3);
  CHECK(one.by_outcome.at("oom") == 2);
  CHECK(one.undecided == 1);
  CHECK(one.measured_over_predicted == doctest::Approx(2.0));
  CHECK(one.remaining_s == doctest::Approx(17 * 2.0 * 2.0));
  CHECK(one.last_event_at > 0);
  CHECK(must(reader->status({"demo"})).size() == 1);
  CHECK_FALSE(reader->status({"demi"}));
}

TEST_CASE("show tells all about a trial and a sweep and a job") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto titles = [&](const std::string& name) {
    std::string text;
    for (const auto& section : must(reader->show(name)))
      text += fmt::format("{} ({}), ", section.title, section.table.rows.size());
    return text;
  };
  const auto rows = must(daemon.store->select_trials({}, "tokens_per_s_per_gpu = 120")).trials;
  CHECK(titles(rows[0].slug)
            .ends_with("attempts (1), measurements (1), train steps (2), events (1), "));
  CHECK(titles("demo").starts_with("sweep (11), trials (4), left out (1), last events ("));
  CHECK(titles("4001").starts_with("allocation ("));
  CHECK_FALSE(reader->show("nothing"));
  CHECK(must(reader->resolved("demo")) == "resolved\n");
  const auto events = must(reader->events({"demo"}, 0, 2));
  CHECK(events.columns ==
      std::vector<std::string>{"id", "at", "sweep", "trial", "attempt", "kind", "detail"});
  CHECK(events.rows.size() == 2);
  CHECK(std::get<std::string>(events.rows[0][5]) == "submitted");
  CHECK(must(reader->events({}, 2, 0)).rows.size() == 5);
}

TEST_CASE("an export opens for a colleague and belongs to nobody") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  // One that was killed has left a file behind; what somebody writes now is his.
  const auto left = [&](const std::string& name, bool old) {
    std::ofstream(dir / name) << "half";
    if (old)
      std::filesystem::last_write_time(
          dir / name, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    return dir / name;
  };
  const auto dead = left("it's a copy.db.2147483647.partial", true);
  const auto journal = left("it's a copy.db.2147483647.partial-journal", true);
  const auto fresh = left("it's a copy.db.2147483646.partial", false);
  const auto alive = left(fmt::format("it's a copy.db.{}.partial", 1), true);
  const auto mine = left("it's a copy.db.notes.partial", true);
  must(reader->export_to(dir / "it's a copy.db"));
  CHECK_FALSE(std::filesystem::exists(dead));
  CHECK_FALSE(std::filesystem::exists(journal));
  CHECK(std::filesystem::exists(fresh));
  CHECK(std::filesystem::exists(alive));
  CHECK(std::filesystem::exists(mine));
  const auto copy = must(Reader::open(dir / "it's a copy.db"));
  CHECK_FALSE(must(copy->lease_holder()).has_value());
  CHECK(must(reader->lease_holder()).has_value());
  CHECK(must(copy->results({})).rows == must(reader->results({})).rows);
  const auto again = reader->export_to(dir / "it's a copy.db");
  REQUIRE_FALSE(again);
  CHECK(again.error().what == fmt::format("{} exists already", (dir / "it's a copy.db").string()));
  CHECK_FALSE(reader->export_to(dir / "no" / "folder.db"));
  Daemon takes_over(dir / "it's a copy.db");
}

TEST_CASE("a reader that pauses holds no writer up") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  fill(daemon, dir);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->query("SELECT * FROM results"));
  // The answer is held, the reader is alive, and a commit goes through at once.
  daemon.commit({AddEvent{.at = 1, .kind = EventKind::started, .detail = ""}});
  CHECK(table.rows.size() == 24);
}

TEST_CASE("a reader that pauses holds no writer up on a network file system") {
  const TempDir dir;
  { Daemon(dir / "a.db").submit(dir, {}); }
  sqlite::Database writer(dir / "a.db", sqlite::OpenMode::existing, 0);
  REQUIRE(writer.text("PRAGMA journal_mode = delete") == "delete");
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->query("SELECT * FROM results"));
  writer.execute("INSERT INTO events (at, kind, detail) VALUES (1, 'started', '')");
  CHECK(table.rows.size() == 12);
}

TEST_CASE("each list for a single command has a statement that this schema answers") {
  const TempDir dir;
  const auto file = dir / "sweep.db";
  Daemon daemon(file);
  fill(daemon, dir);
  const auto reader = must(Reader::open(file));
  for (std::size_t i = 0; i < static_cast<std::size_t>(Listing::count); ++i) {
    CAPTURE(i);
    CHECK_FALSE(must(reader->list(static_cast<Listing>(i))).columns.empty());
  }
}

TEST_CASE("a field of a row is the column of its name, and NULL leaves it as it is") {
  const auto rows = typed_rows<KnowledgeText>(Table{{"text", "more", "name"},
      {{Value(1.5), Value(), Value(std::string("a"))},
          {Value(std::int64_t{7}), Value(), Value()}}});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].text == "1.5");
  CHECK(rows[0].name == "a");
  CHECK(rows[1].text == "7");
  CHECK(rows[1].name.empty());
  CHECK_THROWS_AS(typed_rows<KnowledgeText>(Table{{"text"}, {}}), BrokenInvariant);
}
