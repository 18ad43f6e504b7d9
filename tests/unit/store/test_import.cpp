// SPDX-License-Identifier: Apache-2.0
#include "fleet/allocation.hpp"
#include "show/pivot.hpp"
#include "table/imported_trials.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/imported.hpp>

#include <fmt/format.h>

#include <string>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Three layouts on one node: the table's own MFU ranks dp 4 x pp 2 before dp 8.
RecordedSweep table() {
  RecordedSweep recorded;
  recorded.file = "runs.csv";
  recorded.models = {{.name = "theirs",
      .layers = 16,
      .hidden = 2048,
      .ffn = 8192,
      .heads = 32,
      .kv_heads = 32,
      .vocab = 131072}};
  recorded.labels = {{"mfu", {44.3, 39.2, Value()}}, {"date", {std::string("today")}}};
  const auto add = [&](std::int32_t dp, std::int32_t pp, Outcome outcome, double speed,
                       std::int32_t mfu) {
    auto& run = recorded.runs.emplace_back();
    run.point.nodes = run.nodes = 1;
    run.point.gpus = 8;
    run.point.seq_len = 4096;
    run.point.layout.dp = dp;
    run.point.layout.pp = pp;
    run.point.layout.grad_accum = 256 / dp;
    run.outcome = outcome;
    if (outcome == Outcome::completed) run.tokens_per_s_per_gpu = speed;
    run.labels = {mfu, 0};
    run.line = static_cast<int>(recorded.runs.size()) + 1;
  };
  add(4, 2, Outcome::completed, 38895, 0);
  add(8, 1, Outcome::completed, 40150, 1);
  add(2, 4, Outcome::oom, 0, 2);
  return recorded;
}

ImportedSweep imported(const RecordedSweep& recorded, const std::string& name = "theirs") {
  ClusterSpec cluster;
  cluster.name = "h100-8x";
  cluster.gpus_per_node = 8;
  cluster.peak_flops = {989.4e12, std::nullopt, std::nullopt};
  return imported_trials(recorded,
      {.name = name, .cluster = cluster, .family = nullptr, .labels = {"published_mfu", "date"}});
}

struct Import {
  TempDir dir;
  Daemon daemon{dir / "a.db"};
  int files = 0;

  Result<Store::InboxProgress> take(const ImportedSweep& sweep) {
    const auto file = dir / fmt::format("inbox{}", ++files);
    must(write_imported(file, sweep));
    return daemon.store->accept_inbox(file, ++daemon.now, 10'000);
  }
};

}  // namespace

TEST_CASE("an imported table is seen by results and best and heatmap") {
  Import incoming;
  const auto report = must(incoming.take(imported(table()))).report;
  CHECK(report.fresh == 3);
  const auto file = incoming.dir / "a.db";
  CHECK(rows_of(file,
            "SELECT layout, outcome, tokens_per_s_per_gpu, published_mfu FROM (SELECT "
            "r.*, json_extract(vars, '$.published_mfu') AS published_mfu FROM results "
            "AS r) ORDER BY position") ==
      "dp4 tp1 pp2 mb1 ga64 z0|completed|38895|44.3\n"
      "dp8 tp1 pp1 mb1 ga32 z0|completed|40150|39.2\n"
      "dp2 tp1 pp4 mb1 ga128 z0|oom|NULL|NULL\n");
  CHECK(
      rows_of(file,
          "SELECT count(DISTINCT n_params), max(mfu) BETWEEN 0.3 AND 0.5, "
          "min(flops_model) FROM results WHERE outcome = 'completed'") == "1|1|megatron_causal\n");
  const auto reader = must(Reader::open(file));
  const auto best = must(reader->best({}));
  REQUIRE(best.rows.size() == 1);
  CHECK(std::get<std::string>(best.rows[0][4]) == "dp8 tp1 pp1 mb1 ga32 z0");
  const auto cell = pivot(must(reader->cells({})), {}).cells.at(0).at(0);
  CHECK(cell.layout == "dp8 tp1 pp1 mb1 ga32 z0");
  CHECK(cell.published_layout == "dp4 tp1 pp2 mb1 ga64 z0");
  CHECK(cell.published_tokens_per_s_per_gpu == 38895);
  CHECK(cell.published_by.empty());
  const auto one = must(reader->cells({.selection = {.where = "published_mfu < 40"}}));
  CHECK(pivot(one, {}).cells.at(0).at(0).published_layout.empty());
  const auto status = must(reader->status({}));
  REQUIRE(status.size() == 1);
  CHECK(status[0].state == "imported");
  CHECK(status[0].by_outcome.at("completed") == 2);
}

TEST_CASE("nothing of an imported sweep is of the daemon's world") {
  Import incoming;
  must(incoming.take(imported(table())));
  const auto world = must(incoming.daemon.store->load_world());
  CHECK(world.trials.empty());
  CHECK(world.attempts.empty());
  CHECK(world.allocations.empty());
  CHECK_FALSE(anything_alive(World(world)));
}

TEST_CASE("a prediction that nobody has made is none, and no zero") {
  Import incoming;
  must(incoming.take(imported(table())));
  CHECK(rows_of(incoming.dir / "a.db",
            "SELECT count(*), count(predicted_memory_bytes), count(predicted_train_step_s), "
            "count(predicted_attempt_s), count(predicted_tokens_per_s_per_gpu) "
            "FROM all_results") == "3|0|0|0|0\n");
}

TEST_CASE("the same table again adds nothing and a longer one what is new") {
  Import incoming;
  must(incoming.take(imported(table())));
  const auto file = incoming.dir / "a.db";
  const auto counts = [&] {
    return rows_of(file,
        "SELECT (SELECT count(*) FROM trials), (SELECT count(*) FROM attempts), "
        "(SELECT count(*) FROM measurements), (SELECT count(*) FROM "
        "allocations)");
  };
  CHECK(counts() == "3|3|2|1\n");
  auto report = must(incoming.take(imported(table()))).report;
  CHECK(report.fresh == 0);
  CHECK(report.known == 3);
  CHECK(counts() == "3|3|2|1\n");
  auto longer = table();
  longer.runs.push_back(longer.runs[0]);
  longer.runs.back().point.layout.zero = 1;
  report = must(incoming.take(imported(longer))).report;
  CHECK(report.fresh == 1);
  CHECK(counts() == "4|4|3|1\n");
}

TEST_CASE("another number for a row that was imported changes nothing and says so") {
  Import incoming;
  must(incoming.take(imported(table())));
  auto corrected = table();
  corrected.runs[1].tokens_per_s_per_gpu = 41000;
  corrected.runs.push_back(corrected.runs[0]);
  corrected.runs.back().point.layout.zero = 1;
  const auto refused = incoming.take(imported(corrected));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FaultKind::invalid_input);
  CHECK(refused.error().what.find(
            " was imported as 40150 tokens/s per GPU and is 41000 tokens/s "
            "per GPU in the table now: import it under another --name") != std::string::npos);
  CHECK(rows_of(incoming.dir / "a.db", "SELECT count(*), max(tokens_per_s_per_gpu) FROM results") ==
      "3|40150\n");
}

TEST_CASE("a sweep that was submitted and one that was imported don't share a name") {
  Import incoming;
  incoming.daemon.submit(incoming.dir, {});
  auto refused = incoming.take(imported(table(), "demo"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what ==
      "'demo' is the name of a sweep that was submitted: import the table under another "
      "--name");
  must(incoming.take(imported(table())));
  const SweepFile file({.name = "theirs"});
  file.write(incoming.dir / "sweep");
  refused = incoming.daemon.store->accept_inbox(incoming.dir / "sweep", 1, 10'000);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what == "'theirs' is the name of an imported sweep: choose another");
}

TEST_CASE("what the table ranks first is named though its software is not shown") {
  auto recorded = table();
  recorded.runs[0].software_version = "before";
  recorded.runs[1].software_version = recorded.newest_version = "after";
  Import incoming;
  must(incoming.take(imported(recorded)));
  const auto cells = must(must(Reader::open(incoming.dir / "a.db"))->cells({}));
  CHECK(cells.runners == std::vector<std::string>{"unknown after"});
  const auto cell = pivot(cells, {}).cells.at(0).at(0);
  CHECK(cell.layout == "dp8 tp1 pp1 mb1 ga32 z0");
  CHECK(cell.published_layout == "dp4 tp1 pp2 mb1 ga64 z0");
  CHECK(cell.published_by == "unknown before");
}

TEST_CASE("rows whose slugs are alike get as many digits as tell them apart") {
  const TempDir dir;
  auto theirs = imported(table());
  for (std::size_t i = 0; i < 2; ++i) {
    theirs.trials[i].names.slug = "theirs-3f9a01";
    theirs.trials[i].names.identity = fmt::format("3f9a01c{}{}", i, std::string(24, '0'));
  }
  must(write_imported(dir / "inbox", theirs));
  Daemon(dir / "a.db").submit(dir / "inbox");
  CHECK(rows_of(dir / "a.db", "SELECT slug FROM trials WHERE slug LIKE 'theirs-3f9a01%'") ==
      "theirs-3f9a01c0\ntheirs-3f9a01c1\n");
}
