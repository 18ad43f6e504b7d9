// SPDX-License-Identifier: Apache-2.0
// Finals as rows: made once, of their layout in all but the round, and what `best` and heatmaps
// say of them.
#include "unit/store/support.hpp"

#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <algorithm>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// A cell with three layouts, the fastest first.
struct Played {
  TempDir dir;
  std::filesystem::path file = dir / "sweeps.db";
  Daemon daemon{file};
  SweepId sweep = 0;
  std::vector<TrialId> layouts;

  Played() {
    Grid grid;
    grid.gpus = {1};
    grid.micro_batch = {1, 2, 4};
    sweep = daemon.submit(dir, grid).sweep;
    double speed = 130;
    for (const int micro_batch : {1, 2, 4}) {
      layouts.push_back(
          daemon.trial(fmt::format("model = 'tiny' and micro_batch = {}", micro_batch)));
      (void)daemon.run(layouts.back(), Outcome::completed, speed);
      speed -= 10;
    }
  }
  /// The first two in so many rounds.
  void play(int rounds, double first, double second) {
    for (int round = 1; round <= rounds; ++round) {
      const auto rows = must(daemon.store->add_finals(
          sweep, {{layouts[0], round, 0.01}, {layouts[1], round, 0.01}}));
      REQUIRE(rows.size() == 2);
      const double noise = 0.1 * (round % 3);
      (void)daemon.run(rows[0].id, Outcome::completed, first + noise);
      (void)daemon.run(rows[1].id, Outcome::completed, second - noise);
    }
  }
  std::string best(const std::string& column) {
    const auto table = must(must(Reader::open(file))->best({.where = "model = 'tiny'"}));
    const auto at = std::find(table.columns.begin(), table.columns.end(), column);
    REQUIRE(at != table.columns.end());
    REQUIRE(table.rows.size() == 1);
    const Value& value = table.rows[0][static_cast<std::size_t>(at - table.columns.begin())];
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? rows_of(Table{{column}, {{value}}}) : *text;
  }
};

}  // namespace

TEST_CASE("a run in finals is its layout's trial in all but its name and place") {
  Played c;
  const auto rows = must(c.daemon.store->add_finals(c.sweep, {{c.layouts[1], 1, 0.01}}));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].final_of == c.layouts[1]);
  CHECK(rows[0].final_round == 1);
  CHECK(rows[0].state == State::planned);
  CHECK(rows[0].predicted_s == doctest::Approx(4));  // as long as it took
  CHECK(
      rows_of(c.file, fmt::format("SELECT count(*) FROM trials AS a JOIN trials AS b ON b.id = "
                                  "a.final_of WHERE a.slug = b.slug || '-f1' AND a.lane = "
                                  "b.lane AND a.micro_batch = b.micro_batch AND a.repeat = 2 "
                                  "AND a.position > b.position")) == "1\n");
  // Asked for again after a crash, it is there already.
  const auto again = must(c.daemon.store->add_finals(c.sweep, {{c.layouts[1], 1, 0.01}}));
  REQUIRE(again.size() == 1);
  CHECK(again[0].id == rows[0].id);
}

TEST_CASE("best names the winner of the finals, and by how much") {
  Played c;
  CHECK(c.best("verdict") == "NULL\n");
  c.play(8, 100, 104);  // the allocation is slower, and the order is another one
  CHECK(c.best("verdict") == "FASTER");
  CHECK(c.best("verdict_reason").find("8 pairs") != std::string::npos);
  CHECK(c.best("layout").find("mb2") != std::string::npos);
  CHECK(c.best("runner_up").find("mb1") != std::string::npos);
  CHECK(c.best("repeats") == "8\n");
}

TEST_CASE("finals that tell nothing apart say so") {
  Played c;
  c.play(8, 100, 100.15);
  CHECK(c.best("verdict") == "SAME");
  Played open;
  open.play(2, 100, 101);
  CHECK(open.best("verdict") == "UNDECIDED");
  CHECK(open.best("verdict_reason").find("would tell") != std::string::npos);
}

TEST_CASE("a layout that was measured faster after the finals is not hidden by them") {
  Played c;
  c.play(8, 100, 104);
  c.daemon.commit({set_trial(c.layouts[2], State::planned)});
  (void)c.daemon.run(c.layouts[2], Outcome::completed, 140);
  CHECK(c.best("verdict") == "NULL\n");
  CHECK(c.best("layout").find("mb4") != std::string::npos);
}

TEST_CASE("a heatmap shows the winner of the finals") {
  Played c;
  c.play(8, 100, 104);
  const auto cells =
      must(must(Reader::open(c.file))->cells({.selection = {.where = "model = 'tiny'"}}));
  const auto measured =
      std::find_if(cells.candidates.begin(), cells.candidates.end(),
                   [](const CellCandidate& one) { return one.value.has_value(); });
  REQUIRE(measured != cells.candidates.end());
  CHECK(measured->layout.find("mb2") != std::string::npos);
  CHECK(measured->repeats == 8);
  CHECK(measured->verdict == "FASTER");
  CHECK(measured->verdict_reason.find("8 pairs") != std::string::npos);
}
