// SPDX-License-Identifier: Apache-2.0
// What a heatmap's cells, and best, are made of.
#include "show/pivot.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

using namespace shardsweep;
using namespace shardsweep::testing;

TEST_CASE("a heatmap has nodes as columns, or gpus where worlds are counted by them") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  const auto reader = must(Reader::open(dir / "a.db"));
  CHECK(must(reader->cells({})).columns == "gpus");
  CHECK(must(reader->cells({.columns = "tp"})).columns == "tp");
}

TEST_CASE("best has a row per value of a var, as a search has a cell") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .vars = {0, 1}});
  daemon.run(
      daemon.trial("model = 'tiny' and micro_batch = 1 and nvls = 0"), Outcome::completed, 100);
  daemon.run(
      daemon.trial("model = 'tiny' and micro_batch = 2 and nvls = 1"), Outcome::completed, 90);
  const auto table = must(must(Reader::open(dir / "a.db"))->best({}));
  REQUIRE(table.rows.size() == 2);
  CHECK(std::get<double>(table.rows[0][5]) + std::get<double>(table.rows[1][5]) == 190);
  // N16: which value of the var is better, and how sure that is.
  CHECK(table.note.find("tiny, 1 GPU: nvls 0 is the best of 2 values: fastest so far: 11.1 % "
                        "ahead (1 run each).") != std::string::npos);
}

TEST_CASE("of values of a var that are a tie none is called the best") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .vars = {0, 1}});
  for (const int nvls : {0, 1})
    daemon.run(daemon.trial(fmt::format("model = 'tiny' and micro_batch = 1 and nvls = {}", nvls)),
        Outcome::completed, 100);
  const auto table = must(must(Reader::open(dir / "a.db"))->best({}));
  CHECK(table.note.find("tiny, 1 GPU: nvls 0 and nvls 1 are equally fast.") != std::string::npos);
}

TEST_CASE("a cell without a var that others have is named by that") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .vars = {0, 1}, .name = "with"});
  daemon.submit(dir, {.gpus = {1}, .name = "without"});
  const auto run = [&](const char* which, double speed) {
    const auto where = fmt::format("model = 'tiny' and micro_batch = 1 and {}", which);
    daemon.run(daemon.trial(where), Outcome::completed, speed);
  };
  run("sweep = 'with' and nvls = 0", 100);
  run("sweep = 'with' and nvls = 1", 100);
  run("sweep = 'without'", 100);
  const auto note = must(must(Reader::open(dir / "a.db"))->best({})).note;
  CHECK(note.find("no nvls") != std::string::npos);
  CHECK(note.find("and  are") == std::string::npos);
  CHECK(note.find(",  ") == std::string::npos);
}

// Sweeps on different GPUs ranked together in one cell.
TEST_CASE("hardware is part of a cell") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  const auto mine = [](const char* sweep, const char* more) {
    return fmt::format("model = 'tiny' and sweep = '{}' and {}", sweep, more);
  };
  daemon.submit(dir, {.gpus = {1}, .name = "new-gpus", .cluster = "h100-8x"});
  daemon.submit(dir, {.gpus = {1}, .name = "old-gpus", .cluster = "v100-8x"});
  daemon.run(daemon.trial(mine("new-gpus", "micro_batch = 1")), Outcome::completed, 100);
  daemon.run(daemon.trial(mine("new-gpus", "micro_batch = 2")), Outcome::completed, 90);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto has_cluster = [](const Table& table) {
    return std::find(table.columns.begin(), table.columns.end(), "cluster") != table.columns.end();
  };
  CHECK_FALSE(has_cluster(must(reader->best({}))));
  daemon.run(daemon.trial(mine("old-gpus", "micro_batch = 2")), Outcome::completed, 40);
  const auto table = must(reader->best({}));
  REQUIRE(table.rows.size() == 2);
  CHECK(has_cluster(table));
  CHECK(std::get<double>(table.rows[0][5]) + std::get<double>(table.rows[1][5]) == 140);
  CHECK(has_cluster(must(reader->layouts({}))));
  CHECK_FALSE(has_cluster(must(reader->layouts({.names = {"old-gpus"}}))));
  const auto cells = must(reader->cells({}));
  CHECK(cells.note.find("The trials ran on 2 clusters. Shown: cluster = 'h100-8x'. For others "
                        "add --where \"cluster = 'v100-8x'\".") != std::string::npos);
  REQUIRE(cells.answers.size() == 1);
  CHECK(cells.answers[0].answer.layouts.size() == 2);
  CHECK(must(reader->cells({.selection = {.where = "cluster = 'v100-8x'"}}))
            .answers[0]
            .answer.layouts.size() == 1);
  CHECK(must(reader->cells({.rows = "cluster"})).answers.size() == 2);
}

TEST_CASE("a heatmap that mixes values of a var says so, and which value was the fastest") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .vars = {0, 1}});
  daemon.run(
      daemon.trial("model = 'tiny' and micro_batch = 1 and nvls = 0"), Outcome::completed, 100);
  daemon.run(
      daemon.trial("model = 'tiny' and micro_batch = 1 and nvls = 1"), Outcome::completed, 90);
  const auto reader = must(Reader::open(dir / "a.db"));
  HeatmapRequest request{.selection = {.where = "model = 'tiny'"}};
  const auto mixed = pivot(must(reader->cells(request)), request);
  CHECK(mixed.note.find(
            "Cells compare up to 2 values of nvls, and a cell's layout names the fastest one. "
            "For one value add --where \"nvls = 0\".") != std::string::npos);
  CHECK(mixed.cells[0][0].layout == "dp1 tp1 pp1 mb1 ga1 z0 nvls=0");
  CHECK(mixed.cells[0][0].answer.runner_up()->name == "dp1 tp1 pp1 mb1 ga1 z0 nvls=1");
  request.selection.where += " and nvls = 1";
  const auto one = pivot(must(reader->cells(request)), request);
  CHECK(one.note.empty());
  CHECK(one.cells[0][0].layout == "dp1 tp1 pp1 mb1 ga1 z0");
  const HeatmapRequest by_var{.selection = {.where = "model = 'tiny'"}, .rows = "nvls"};
  CHECK(must(reader->cells(by_var)).note.empty());
}

TEST_CASE("a layout has the text of its submission, and its dtype where there are several") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1, 2, 4, 8, 16}});
  for (const int micro_batch : {1, 2, 4, 8, 16})
    daemon.run(daemon.trial(fmt::format("model = 'tiny' and micro_batch = {}", micro_batch)),
        Outcome::completed, micro_batch);
  const auto set = [&](const std::string& what, int micro_batch) {
    sqlite::Database database(dir / "a.db", sqlite::OpenMode::existing, 1000);
    database.execute(fmt::format("UPDATE trials SET {} WHERE micro_batch = {}", what, micro_batch));
  };
  set("dtype = 'fp32'", 8);
  CHECK(rows_of(dir / "a.db",
            "SELECT layout FROM results WHERE model = 'tiny' ORDER BY "
            "micro_batch") ==
      "dp1 tp1 pp1 mb1 ga1 z0 bf16\n"
      "dp1 tp1 pp1 mb2 ga1 z0 bf16\n"
      "dp1 tp1 pp1 mb4 ga1 z0 bf16\n"
      "dp1 tp1 pp1 mb8 ga1 z0 fp32\n"
      "dp1 tp1 pp1 mb16 ga1 z0 bf16\n");
  // One dtype alone tells nothing apart.
  set("dtype = 'bf16'", 8);
  CHECK(rows_of(dir / "a.db",
            "SELECT layout FROM results WHERE model = 'tiny' AND "
            "micro_batch = 16") == "dp1 tp1 pp1 mb16 ga1 z0\n");
}

TEST_CASE("a heatmap shows one model and world, and says so") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1, 2}});
  daemon.run(
      daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 1"), Outcome::completed, 50);
  daemon.run(
      daemon.trial("model = 'small' and gpus = 1 and micro_batch = 1"), Outcome::completed, 10);
  daemon.run(
      daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 2"), Outcome::completed, 60);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto cells = must(reader->cells({.rows = "tp", .columns = "micro_batch"}));
  CHECK(cells.note ==
      "The trials have 2 models and 2 GPU counts. Shown: model = 'tiny' and seq_len = 128 and "
      "gpus = 2. For others add --where \"model = 'small' and seq_len = 128 and gpus = 1\".");
  REQUIRE_FALSE(cells.answers.empty());
  CHECK(std::all_of(cells.answers.begin(), cells.answers.end(),
      [](const auto& one) { return one.value && *one.value >= 50; }));
  const auto one = must(reader->cells({.selection = {.where = "model = 'small' and gpus = 1"},
      .rows = "tp",
      .columns = "micro_batch"}));
  CHECK(one.note.empty());
}

TEST_CASE("a heatmap tells what a search has left out from what an OOM has ruled out") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1}, .micro_batch = {1, 2}});
  const auto ruled_out = daemon.trial("model = 'tiny' and micro_batch = 1");
  const auto spared = daemon.trial("model = 'tiny' and micro_batch = 2");
  daemon.run(ruled_out, Outcome::skipped);
  daemon.run(spared, Outcome::skipped);
  daemon.commit(
      {AddEvent{.at = daemon.now, .sweep = 1, .trial = spared, .kind = EventKind::spared}});
  const HeatmapRequest request{.rows = "model", .columns = "micro_batch"};
  const auto heatmap = pivot(must(must(Reader::open(dir / "a.db"))->cells(request)), request);
  REQUIRE(heatmap.rows.back() == "tiny");
  CHECK(heatmap.cells.back()[0].status == "skipped");
  CHECK(heatmap.cells.back()[1].status == "spared");
}

TEST_CASE("a heatmap's cell has its runner-up, its repeats and what is predicted") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1, 2}, .repeats = 3});
  const std::string cell = "model = 'tiny' and gpus = 1 and ";
  for (const auto& [repeat, tokens] : {std::pair{1, 100.0}, {2, 104.0}, {3, 102.0}}) {
    daemon.run(daemon.trial(fmt::format("{}micro_batch = 1 and repeat = {}", cell, repeat)),
        Outcome::completed, tokens);
    daemon.run(daemon.trial(fmt::format("{}micro_batch = 2 and repeat = {}", cell, repeat)),
        Outcome::completed, tokens / 2);
  }
  const auto reader = must(Reader::open(dir / "a.db"));
  HeatmapRequest request;
  request.selection.where = "model = 'tiny'";
  const auto heatmap = pivot(must(reader->cells(request)), request);
  const auto& one = heatmap.cells[0][0];
  CHECK(one.value == 102.0);
  REQUIRE(one.answer.runner_up() != nullptr);
  CHECK(one.answer.winner()->runs.size() == 3);
  CHECK(*one.answer.winner()->spread == doctest::Approx(4.0 / 102));
  CHECK(one.answer.runner_up()->name == "dp1 tp1 pp1 mb2 ga1 z0");
  CHECK(one.answer.winner()->verdict.difference == Difference::faster);
  CHECK(one.answer.winner()->verdict.share == doctest::Approx(1));
  request.aggregate = Aggregate::median;
  CHECK(pivot(must(reader->cells(request)), request).cells[0][0].value == 51.0);
}

TEST_CASE("the values of a column are each told once") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {4, 1}});
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto gpus = must(reader->values({}, "gpus"));
  CHECK(gpus == std::vector<Value>{std::int64_t{1}, std::int64_t{4}});
  CHECK_FALSE(reader->values({}, "nothing"));
}
