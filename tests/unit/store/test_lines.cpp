// SPDX-License-Identifier: Apache-2.0
// A sweep as lines for git, read back: what the database says of it stays the same.
#include "store/line_columns.hpp"
#include "store/schema.hpp"
#include "text/checked_line.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/results.hpp>
#include <shardsweep/sweep_lines.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <utility>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Two finalists in two allocations, and the winner measured again by two programs.
struct Measured {
  TempDir dir;
  std::filesystem::path file = dir / "sweeps.db";
  Daemon daemon{file};
  SweepId sweep = 0;
  std::vector<TrialId> layouts;

  Measured() {
    Grid grid;
    grid.gpus = {1};
    grid.micro_batch = {1, 2};
    sweep = daemon.submit(dir, grid).sweep;
    for (const int micro_batch : {1, 2}) {
      layouts.push_back(
          daemon.trial(fmt::format("model = 'tiny' and micro_batch = {}", micro_batch)));
      (void)daemon.run(layouts.back(), Outcome::completed, 130 - 10 * micro_batch);
    }
    for (std::int32_t round = 1; round <= 6; ++round) {
      const auto& avoid = round > 3 ? "n1,n2" : "";
      play(round,
          {{.of = layouts[0], .round = round, .resolve = 0.01, .avoid = avoid},
              {.of = layouts[1], .round = round, .resolve = 0.01, .avoid = avoid}});
    }
    play(1,
        {{.of = layouts[1], .again = 1, .software = "abc"},
            {.of = layouts[1], .again = 1, .software = "before", .before = true}});
  }

  /// The third round is torn between two allocations: its runs are no pair.
  void play(std::int32_t round, const std::vector<NewFinal>& runs) {
    double speed = 100 + 0.1 * round;
    for (const auto& row : must(daemon.store->add_finals(sweep, runs))) {
      (void)daemon.run(row.id, Outcome::completed, speed);
      if (round == 3 && row.final_of == layouts[0]) daemon.leave_allocation();
      speed += 4;
    }
  }

  [[nodiscard]] SweepLines lines(const std::string& name = "demo") const {
    return must(must(Reader::open(file))->sweep_lines(name));
  }
  /// In the database `theirs.db`.
  void import(const SweepLines& from) {
    must(write_inbox_of_lines(
        dir / "inbox", {.lines = from.lines, .where = "demo.jsonl", .file = from.file}));
    Daemon(dir / "theirs.db").submit(dir / "inbox");
  }
};

std::string said(const std::filesystem::path& database) {
  const auto reader = must(Reader::open(database));
  std::string text = rows_of(must(reader->best({.where = "model = 'tiny'"})));
  // A trial without an outcome is in no line.
  for (const auto* sql :
      {"SELECT trial, outcome, tokens_per_s_per_gpu, final_round, final_set FROM "
       "results WHERE outcome IS NOT NULL ORDER BY trial",
          "SELECT t.slug, b.slug, t.again, t.software, t.final_avoid, t.final_sets, "
          "t.final_resolve FROM trials AS t LEFT JOIN trials AS b ON b.id = t.final_of WHERE "
          "t.outcome IS NOT NULL ORDER BY t.slug",
          "SELECT t.slug, (SELECT count(*) FROM attempts AS o WHERE o.allocation = "
          "a.allocation) FROM attempts AS a JOIN trials AS t ON t.id = a.trial ORDER BY t.slug"})
    text += rows_of(database, sql);
  return text;
}

}  // namespace

TEST_CASE("runs of finals and remeasured runs are read back from lines as they were") {
  Measured c;
  const auto lines = c.lines();
  CHECK(lines.trials == 2 + 12 + 2);
  c.import(lines);
  CHECK(said(c.dir / "theirs.db") == said(c.file));
  CHECK(said(c.file).find("FASTER") != std::string::npos);
  const auto theirs = must(must(Reader::open(c.dir / "theirs.db"))->sweep_lines("demo"));
  CHECK(theirs.lines == lines.lines);
  must(refuse_other_lines({.lines = lines.lines, .where = "demo.jsonl"}, theirs));
}

TEST_CASE("each value of the vars has a cell of its own where a sweep is read back, too") {
  const TempDir dir;
  const auto ours = dir / "sweeps.db";
  {
    Daemon daemon(ours);
    Grid grid;
    grid.gpus = {1};
    grid.micro_batch = {1, 2};
    grid.vars = {0, 1};
    daemon.submit(dir, grid);
    for (const int value : {0, 1}) {
      for (const int micro_batch : {1, 2})
        (void)daemon.run(
            daemon.trial(fmt::format(
                "model = 'tiny' and micro_batch = {} and nvls = {}", micro_batch, value)),
            Outcome::completed, 100 + 10 * value + micro_batch);
    }
    const auto lines = must(must(Reader::open(ours))->sweep_lines("demo"));
    must(write_inbox_of_lines(
        dir / "inbox", {.lines = lines.lines, .where = "demo.jsonl", .file = lines.file}));
    Daemon(dir / "theirs.db").submit(dir / "inbox");
  }
  const auto best = [&](const std::filesystem::path& file) {
    return rows_of(must(must(Reader::open(file))->best({.where = "model = 'tiny'"})));
  };
  CHECK(must(must(Reader::open(ours))->best({.where = "model = 'tiny'"})).rows.size() == 2);
  CHECK(best(dir / "theirs.db") == best(ours));
}

TEST_CASE("lines of before remeasured runs and allocations had keys are read") {
  Measured c;
  auto lines = c.lines();
  const std::regex newer(R"re(,"(allocation|software|final_avoid)":"[^"]*"|,"again":1)re");
  std::string older;
  std::istringstream all(lines.lines);
  for (std::string line; std::getline(all, line);)
    older += checked_line(std::regex_replace(take_apart(line)->object, newer, ""));
  REQUIRE(older.find("again\":") == std::string::npos);
  lines.lines = older;
  c.import(lines);
  CHECK(rows_of(c.dir / "theirs.db",
            "SELECT again, count(*) FROM trials WHERE final_of IS NOT NULL GROUP BY again") ==
      "0|12\n1|2\n");
  const auto theirs = must(must(Reader::open(c.dir / "theirs.db"))->sweep_lines("demo"));
  must(refuse_other_lines({.lines = older, .where = "demo.jsonl"}, theirs));
}

TEST_CASE("each stored column of a sweep's rows stands in its lines, or why not") {
  sqlite::Database database(":memory:", sqlite::OpenMode::create, 0);
  sqlite::migrate(database);
  const auto columns = sqlite::line_columns(database);
  for (const auto& [table, in_lines] :
      {std::pair("trials", columns.trial), std::pair("attempts", columns.attempt),
          std::pair("measurements", columns.measured), std::pair("left_out", columns.left_out)}) {
    sqlite::Statement select(database, "SELECT name FROM pragma_table_info(?)");
    auto row = select.use(table);
    while (row.next()) {
      const auto name = row.text(0);
      CAPTURE(table);
      CAPTURE(name);
      const auto& left_out = sqlite::not_in_lines;
      const bool stands = std::any_of(in_lines.begin(), in_lines.end(),
          [&](const auto& column) { return column.name == name; });
      const bool has_reason = std::any_of(
          left_out.begin(), left_out.end(), [&](const auto& one) { return one.column == name; });
      CHECK(stands != has_reason);
    }
  }
}
