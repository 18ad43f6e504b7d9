// SPDX-License-Identifier: Apache-2.0
// Layouts as they are ranked: which runs are one, and what stands beside each.
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

TEST_CASE("repeats under other settings of the ranks are not merged") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .repeats = 3});
  const double tokens[] = {10, 500, 20};
  AttemptId other = 0;
  for (int repeat = 1; repeat <= 3; ++repeat) {
    const auto attempt = daemon.run(
        daemon.trial(fmt::format("model = 'tiny' and micro_batch = 1 and repeat = {}", repeat)),
        Outcome::completed, tokens[repeat - 1]);
    if (repeat == 2) other = attempt;
  }
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute(fmt::format(
          "UPDATE measurements SET settings = 'NCCL_ALGO=Tree' WHERE attempt = {}", other));
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->best({}));
  CHECK(rows_of(Table{{"tokens", "runs"}, {{table.rows.at(0)[5], table.rows.at(0)[9]}}}) ==
      "500|1\n");
  CHECK(must(reader->layouts({})).rows.size() == 2);
  CHECK(rows_of(dir / "a.db",
            "SELECT count(*), settings FROM results WHERE outcome = 'completed' GROUP BY 2") ==
      "2|\n1|NCCL_ALGO=Tree\n");
}

TEST_CASE("what a log rounds away stands beside its layout, and twice beside the best") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}});
  const auto of = [&](int micro_batch) {
    return daemon.trial(fmt::format("model = 'tiny' and micro_batch = {}", micro_batch));
  };
  daemon.run(of(1), Outcome::completed, 100);
  daemon.run(of(2), Outcome::completed, 99.5);
  sqlite::Database(dir / "a.db", sqlite::OpenMode::existing, 1000)
      .execute("UPDATE measurements SET resolution = 0.25");
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto column = [](const Table& table, const char* name) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), name);
    REQUIRE(found != table.columns.end());
    return table.rows.at(0).at(static_cast<std::size_t>(found - table.columns.begin()));
  };
  CHECK(column(must(reader->best({})), "resolution") == Value(0.5));
  CHECK(column(must(reader->layouts({})), "resolution") == Value(0.25));
}

TEST_CASE("the layouts that are ranked are those that best ranks, each once") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .vars = {0, 1}, .repeats = 3});
  const auto run = [&](const std::string& where, double tokens, Mark mark = Mark::none) {
    daemon.run(daemon.trial("model = 'tiny' and " + where), Outcome::completed, tokens, mark);
  };
  run("nvls = 0 and gpus = 1 and micro_batch = 1 and repeat = 1", 10);
  run("nvls = 0 and gpus = 1 and micro_batch = 1 and repeat = 2", 30);
  run("nvls = 0 and gpus = 1 and micro_batch = 1 and repeat = 3", 20);
  run("nvls = 1 and gpus = 1 and micro_batch = 1 and repeat = 1", 25);
  run("nvls = 0 and gpus = 2 and micro_batch = 2 and repeat = 1", 40);
  run("nvls = 0 and gpus = 2 and micro_batch = 1 and repeat = 1", 90, Mark::implausible);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto table = must(reader->layouts({}));
  REQUIRE(table.rows.size() == 3);
  const auto column = [&table](const char* name) {
    const auto found = std::find(table.columns.begin(), table.columns.end(), name);
    REQUIRE(found != table.columns.end());
    return static_cast<std::size_t>(found - table.columns.begin());
  };
  CHECK(table.columns.front() == "model");
  CHECK(table.rows[0][column("tokens_per_s_per_gpu")] == Value(20.0));
  CHECK(table.rows[0][column("repeats")] == Value(std::int64_t{3}));
  CHECK(std::get<double>(table.rows[0][column("repeat_spread")]) == doctest::Approx(1));
  CHECK(table.rows[1][column("nvls")] == Value(std::int64_t{1}));
  CHECK(table.rows[1][column("repeat_spread")] == Value());
  CHECK(must(reader->layouts({.where = "gpus = 2"})).rows.size() == 1);
  CHECK_FALSE(reader->layouts({.names = {"nothere"}}));
}
