// SPDX-License-Identifier: Apache-2.0
// What a heatmap's cells, and best, are made of.
#include "show/pivot.hpp"
#include "unit/store/support.hpp"

#include <algorithm>

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
  daemon.run(daemon.trial("model = 'tiny' and micro_batch = 1 and nvls = 0"),
             Outcome::completed, 100);
  daemon.run(daemon.trial("model = 'tiny' and micro_batch = 2 and nvls = 1"),
             Outcome::completed, 90);
  const auto table = must(must(Reader::open(dir / "a.db"))->best({}));
  REQUIRE(table.rows.size() == 2);
  CHECK(std::get<double>(table.rows[0][5]) + std::get<double>(table.rows[1][5]) == 190);
}

TEST_CASE("a heatmap shows one model and world, and says so") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {.gpus = {1, 2}, .micro_batch = {1, 2}});
  daemon.run(daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 1"),
             Outcome::completed, 50);
  daemon.run(daemon.trial("model = 'small' and gpus = 1 and micro_batch = 1"),
             Outcome::completed, 10);
  daemon.run(daemon.trial("model = 'tiny' and gpus = 2 and micro_batch = 2"),
             Outcome::completed, 60);
  const auto reader = must(Reader::open(dir / "a.db"));
  const auto cells = must(reader->cells({.rows = "tp", .columns = "micro_batch"}));
  CHECK(
      cells.note ==
      "The trials have 2 models and 2 GPU counts. Shown: model = 'tiny' and seq_len = 128 and "
      "gpus = 2. For others add --where \"model = 'small' and seq_len = 128 and gpus = 1\".");
  REQUIRE_FALSE(cells.candidates.empty());
  CHECK(std::all_of(cells.candidates.begin(), cells.candidates.end(),
                    [](const auto& one) { return !one.value || *one.value >= 50; }));
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
  daemon.commit({AddEvent{.at = daemon.now, .sweep = 1, .trial = spared, .kind = "spared"}});
  const HeatmapRequest request{.rows = "model", .columns = "micro_batch"};
  const auto heatmap = pivot(must(must(Reader::open(dir / "a.db"))->cells(request)), request);
  REQUIRE(heatmap.rows.back() == "tiny");
  CHECK(heatmap.cells.back()[0].status == "skipped");
  CHECK(heatmap.cells.back()[1].status == "spared");
}
