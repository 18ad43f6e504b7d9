// SPDX-License-Identifier: Apache-2.0
#include "store/rows.hpp"
#include "store/schema.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/database_format.hpp>
#include <shardsweep/metric.hpp>
#include <shardsweep/result_columns.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

std::set<std::string> columns_of(sqlite::Database& database, const std::string& table) {
  std::set<std::string> names;
  sqlite::Statement statement(database, "SELECT name FROM pragma_table_info(?)");
  auto row = statement.use(table);
  while (row.next())
    names.insert(row.text(0));
  return names;
}

sqlite::Database fresh(const std::filesystem::path& file) {
  sqlite::Database database(file, sqlite::OpenMode::create, 1000);
  sqlite::migrate(database);
  return database;
}

}  // namespace

TEST_CASE("every axis and every metric has its column in tables and views") {
  const TempDir dir;
  auto database = fresh(dir / "a.db");
  for (const auto* table : {"trials", "left_out", "all_results", "results"}) {
    const auto columns = columns_of(database, table);
    for (const auto& axis : axes()) {
      CAPTURE(table);
      CAPTURE(axis.name);
      CHECK(columns.contains(std::string(axis.name)));
    }
  }
  for (const auto* table : {"measurements", "all_results", "results"}) {
    const auto columns = columns_of(database, table);
    for (const auto& metric : metric_table) {
      CAPTURE(table);
      CAPTURE(metric.name);
      CHECK(columns.contains(std::string(metric.name)));
    }
  }
  for (const auto& column : sqlite::submitted_columns())
    CHECK(columns_of(database, "trials").contains(column));
  for (const auto& column : sqlite::left_out_columns())
    CHECK(columns_of(database, "left_out").contains(column));
}

TEST_CASE("every word of the vocabulary is a value that the schema takes") {
  const TempDir dir;
  auto database = fresh(dir / "a.db");
  database.execute("PRAGMA foreign_keys = OFF");
  sqlite::Statement insert(database,
      "INSERT INTO attempts (trial, number, allocation, nonce, dir, state, "
      "outcome) VALUES (1, ?1, 1, ?1, '', ?2, ?3)");
  int number = 0;
  for (const auto& row : outcome_table)
    insert.run(++number, "ended", row.name);
  for (const auto state : {State::planned, State::queued, State::running, State::ended})
    insert.run(++number, name(state), std::optional<std::string>());
  CHECK_THROWS_AS(insert.run(99, "ended", "fine"), sqlite::SqliteError);
  CHECK_THROWS_AS(insert.run(99, "done", std::optional<std::string>()), sqlite::SqliteError);
}

TEST_CASE("a database of an older version is brought up and its rows stay") {
  const TempDir dir;
  { auto database = fresh(dir / "a.db"); }
  std::vector<std::string> steps(sqlite::migrations().begin(), sqlite::migrations().end());
  steps.emplace_back("ALTER TABLE nodes ADD COLUMN rack TEXT NOT NULL DEFAULT ''");
  sqlite::Database database(dir / "a.db", sqlite::OpenMode::existing, 1000);
  database.execute("INSERT INTO nodes VALUES ('n1', 'h1', 1, 2)");
  sqlite::migrate(database, steps);
  CHECK(database.integer("PRAGMA user_version") == database_format() + 1);
  CHECK(database.text("SELECT node || rack || last_seen FROM nodes") == "n12");
  sqlite::migrate(database, steps);  // nothing to do
}

TEST_CASE("an older database stays as it is until a daemon has its lease") {
  const TempDir dir;
  const auto format = [&] {
    sqlite::Database raw(dir / "a.db", sqlite::OpenMode::existing, 1000);
    return raw.integer("PRAGMA user_version");
  };
  const auto before = database_format() - 1;
  {
    sqlite::Database old(dir / "a.db", sqlite::OpenMode::create, 1000);
    sqlite::migrate(old, sqlite::migrations().first(sqlite::migrations().size() - 1));
    old.execute("UPDATE lease SET held = 1, host = 'login2', pid = 7, epoch = 4");
  }
  const auto store = must(Store::open(dir / "a.db"));
  CHECK(format() == before);
  CHECK(must(store->lease_holder())->pid == 7);
  CHECK(must(Reader::holder_in(dir / "a.db"))->pid == 7);
  const auto reader = Reader::open(dir / "a.db");
  REQUIRE_FALSE(reader);
  CHECK(reader.error() ==
      Fault{FaultKind::rejected,
          fmt::format("a.db has database format {}, this program reads {}: `shardsweep "
                      "daemon` or `shardsweep tick` brings it up to date",
              before, database_format())});
  must(store->take_lease({.host = "login1"}));
  CHECK(format() == database_format());
  must(Reader::open(dir / "a.db"));
}

TEST_CASE("a disk that is full leaves no half of a database") {
  const TempDir dir;
  {
    sqlite::Database database(dir / "a.db", sqlite::OpenMode::create, 1000);
    database.execute("PRAGMA max_page_count = 30");
    CHECK_THROWS_AS(sqlite::migrate(database), sqlite::SqliteError);
    CHECK(database.integer("PRAGMA user_version") == 0);
    CHECK(database.integer("SELECT count(*) FROM sqlite_schema") == 0);
  }
  const auto empty = Reader::open(dir / "a.db");
  REQUIRE_FALSE(empty);
  CHECK(empty.error().what.find("has no tables yet") != std::string::npos);
  must(Store::open(dir / "a.db"));
  must(Reader::open(dir / "a.db"));
}

TEST_CASE("a migration that fails half-way leaves the older version whole") {
  const TempDir dir;
  { auto database = fresh(dir / "a.db"); }
  std::vector<std::string> steps(sqlite::migrations().begin(), sqlite::migrations().end());
  steps.emplace_back("CREATE TABLE extra (a); INSERT INTO missing VALUES (1)");
  sqlite::Database database(dir / "a.db", sqlite::OpenMode::existing, 1000);
  CHECK_THROWS_AS(sqlite::migrate(database, steps), sqlite::SqliteError);
  CHECK(database.integer("PRAGMA user_version") == database_format());
  CHECK_FALSE(columns_of(database, "extra").contains("a"));
  sqlite::migrate(database);
}

TEST_CASE("a database of a format that was never released is refused and stays as it is") {
  const TempDir dir;
  {
    auto database = fresh(dir / "old.db");
    database.execute("PRAGMA user_version = 29");
  }
  const Fault refused{FaultKind::rejected,
      fmt::format(
          "old.db has database format 29, of a program that was never released; this program "
          "reads 30 to {}: use the program that wrote it, or another --db",
          database_format())};
  const auto store = Store::open(dir / "old.db");
  REQUIRE_FALSE(store);
  CHECK(store.error() == refused);
  const auto reader = Reader::open(dir / "old.db");
  REQUIRE_FALSE(reader);
  CHECK(reader.error() == refused);
  sqlite::Database database(dir / "old.db", sqlite::OpenMode::existing, 1000);
  CHECK_THROWS_AS(sqlite::migrate(database), sqlite::SqliteError);
  CHECK(database.integer("PRAGMA user_version") == 29);
}

TEST_CASE("a newer database and a stranger's are refused with the reason") {
  const TempDir dir;
  {
    auto database = fresh(dir / "newer.db");
    database.execute("PRAGMA user_version = 99");
    sqlite::Database other(dir / "other.db", sqlite::OpenMode::create, 0);
    other.execute("CREATE TABLE photos (id)");
  }
  const auto newer = Store::open(dir / "newer.db");
  REQUIRE_FALSE(newer);
  CHECK(newer.error() ==
      Fault{FaultKind::rejected,
          fmt::format("newer.db was written by a newer shardsweep (database format 99, this "
                      "program knows {}): use that version, or another --db",
              database_format())});
  const auto other = Store::open(dir / "other.db");
  REQUIRE_FALSE(other);
  CHECK(other.error().what == "other.db is a database, but not one of shardsweep's");
}

TEST_CASE("a reader that comes before the first table is told to try again") {
  const TempDir dir;
  { const sqlite::Database empty(dir / "a.db", sqlite::OpenMode::create, 0); }
  REQUIRE(std::filesystem::exists(dir / "a.db"));
  const auto reader = Reader::open(dir / "a.db");
  REQUIRE_FALSE(reader);
  CHECK(reader.error() ==
      Fault{FaultKind::unavailable,
          "a.db has no tables yet. A daemon makes them when it starts; `shardsweep run SWEEP.yaml` "
          "starts one if none runs."});
}

TEST_CASE("events can't be changed or removed") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.commit({AddEvent{.at = 1, .kind = EventKind::started, .detail = "by hand"}});
  sqlite::Database database(dir / "a.db", sqlite::OpenMode::existing, 1000);
  CHECK_THROWS_WITH(
      database.execute("UPDATE events SET kind = 'x'"), "a.db: events are append-only");
  CHECK_THROWS_WITH(database.execute("DELETE FROM events"), "a.db: events are append-only");
}

TEST_CASE("the columns that are written down for others are those of the views, in their order") {
  const TempDir dir;
  auto database = fresh(dir / "a.db");
  const auto in_order = [&database](const char* view) {
    std::vector<std::string> names;
    sqlite::Statement statement(database, "SELECT name FROM pragma_table_info(?) ORDER BY cid");
    auto row = statement.use(view);
    while (row.next())
      names.push_back(row.text(0));
    return names;
  };
  const auto written = [](const auto& columns) {
    std::vector<std::string> names;
    names.reserve(columns.size());
    for (const auto& column : columns)
      names.emplace_back(column.name);
    return names;
  };
  CHECK(written(result_columns) == in_order("results"));
  CHECK(written(result_columns) == in_order("all_results"));
  auto nodes = written(node_columns);
  auto ledger = in_order("node_ledger");
  std::sort(nodes.begin(), nodes.end());
  std::sort(ledger.begin(), ledger.end());
  CHECK(nodes == ledger);
}
