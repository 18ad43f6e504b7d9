// SPDX-License-Identifier: Apache-2.0
// What the rows of a database make doubtful of an answer: others' load, another sweep's number,
// an efficiency above 100 %, and runs that are measured and not ranked.
#include "answer/answer.hpp"
#include "unit/store/support.hpp"
#include "unit/table_rows.hpp"

#include <fmt/format.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

struct Measured {
  TempDir dir;
  std::filesystem::path file = dir / "a.db";
  Daemon daemon{file};

  void submit(const std::string& name) {
    Grid grid;
    grid.gpus = {1, 2};
    grid.name = name;
    daemon.submit(dir, grid);
  }
  AttemptId run(const std::string& where, double speed, Mark mark = Mark::none) {
    return daemon.run(daemon.trial("model = 'tiny' and " + where), Outcome::completed, speed, mark);
  }
  /// Of the cell of so many GPUs.
  std::string best(const std::string& column, int gpus = 1) {
    const auto table =
        must(must(Reader::open(file))
                 ->best({.where = fmt::format("model = 'tiny' and gpus = {}", gpus)}));
    REQUIRE(table.rows.size() == 1);
    return Rows(table).text(0, column);
  }
};

}  // namespace

TEST_CASE("what others used of the CPUs is read back, and the lead is open by it") {
  Measured m;
  m.submit("demo");
  m.run("gpus = 1 and micro_batch = 1", 100);
  const auto loaded = m.run("gpus = 1 and micro_batch = 2", 150);
  CHECK(m.best("doubts").empty());
  sqlite::Database(m.file, sqlite::OpenMode::existing, 1000)
      .execute(fmt::format("UPDATE attempts SET others_cpu = 0.4 WHERE id = {}", loaded));
  CHECK(m.best("doubts") ==
      "other processes used 40.0 % of the CPUs while dp1 tp1 pp1 mb2 ga1 z0 ran");
  CHECK(
      m.best("certainty") == "open: 50.0 % ahead (1 run each), but other processes used the CPUs");
  CHECK(m.best("to_settle") == "run both again while no other process uses the CPUs");
}

TEST_CASE("a result beside a rank that never ended is doubtful") {
  Measured m;
  m.submit("demo");
  m.run("gpus = 1 and micro_batch = 1", 100);
  const auto odd = m.run("gpus = 1 and micro_batch = 2", 150);
  sqlite::Database(m.file, sqlite::OpenMode::existing, 1000)
      .execute(fmt::format("UPDATE attempts SET also = 'hung: rank 1 ran on' WHERE id = {}", odd));
  CHECK(m.best("doubts") == "dp1 tp1 pp1 mb2 ga1 z0: hung: rank 1 ran on");
}

TEST_CASE("what another sweep measured of the same layout is held beside it") {
  Measured m;
  m.submit("demo");
  m.run("gpus = 1 and micro_batch = 1", 725);
  m.submit("again");
  m.run("sweep = 'again' and gpus = 1 and micro_batch = 1", 2311);
  CHECK(m.best("doubts") ==
      "sweep demo measured 725 tokens/s/GPU of dp1 tp1 pp1 mb1 ga1 z0, 68.6 % less");
}

TEST_CASE("more GPUs that are faster each are said of both cells") {
  Measured m;
  m.submit("demo");
  m.run("gpus = 1 and micro_batch = 1", 100);
  m.run("gpus = 2 and micro_batch = 1", 154);
  const std::string said =
      "efficiency above 100 %: each of 2 GPUs does 154.0 % of the work that each of 1 GPU does";
  const auto reader = must(Reader::open(m.file));
  for (const auto& row : must(reader->best({.where = "model = 'tiny'"})).rows)
    CHECK(rows_of(Table{{}, {row}}).find(said) != std::string::npos);
  const auto cells =
      must(reader->cells({.selection = {.where = "model = 'tiny'"}, .columns = "gpus"}));
  REQUIRE(cells.answers.size() == 2);
  for (const auto& one : cells.answers)
    CHECK(doubts_text(one.answer) == said);
}

TEST_CASE("a contaminated run that would lead is named") {
  Measured m;
  m.submit("demo");
  m.run("gpus = 1 and micro_batch = 1", 100);
  m.run("gpus = 1 and micro_batch = 2", 150, Mark::contaminated);
  CHECK(m.best("doubts") ==
      "dp1 tp1 pp1 mb2 ga1 z0 measured 150 tokens/s/GPU and is not ranked: contaminated");
  const auto cells =
      must(must(Reader::open(m.file))
               ->cells({.selection = {.where = "model = 'tiny' and gpus = 1"}, .columns = "gpus"}));
  REQUIRE(cells.answers.size() == 1);
  CHECK(doubts_text(cells.answers[0].answer) == m.best("doubts"));
}
