// SPDX-License-Identifier: Apache-2.0
// Finals as rows: made once, of their layout in all but the round, and what `best` and heatmaps
// say of them.
#include "answer/answer.hpp"
#include "unit/store/support.hpp"

#include <shardsweep/results.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  std::int32_t rounds = 0;

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
  /// The first two in the next round.
  void play_round(double first, double second) {
    const auto rows = must(daemon.store->add_finals(
        sweep, {{layouts[0], ++rounds, 0.01}, {layouts[1], rounds, 0.01}}));
    REQUIRE(rows.size() == 2);
    (void)daemon.run(rows[0].id, Outcome::completed, first);
    (void)daemon.run(rows[1].id, Outcome::completed, second);
  }
  /// The same in so many rounds.
  void play(int count, double first, double second) {
    for (int round = 1; round <= count; ++round) {
      const double noise = 0.1 * (round % 3);
      play_round(first + noise, second - noise);
    }
  }
  std::string best(const std::string& column, RankedAt ranked = RankedAt::sweep) {
    const auto table =
        must(must(Reader::open(file))->best({.where = "model = 'tiny'", .at = ranked}));
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
  CHECK(rows_of(c.file,
            fmt::format("SELECT count(*) FROM trials AS a JOIN trials AS b ON b.id = "
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
  CHECK(c.best("verdict") == "UNDECIDED");
  CHECK(c.best("certainty") == "fastest so far: 8.3 % ahead (1 run each)");
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
  CHECK(open.best("verdict_reason").find("would decide it") != std::string::npos);
}

TEST_CASE("a layout that was measured faster after the finals is not hidden by them") {
  Played c;
  c.play(8, 100, 104);
  c.daemon.commit({set_trial(c.layouts[2], State::planned)});
  (void)c.daemon.run(c.layouts[2], Outcome::completed, 140);
  CHECK(c.best("verdict") == "UNDECIDED");
  CHECK(c.best("layout").find("mb4") != std::string::npos);
}

TEST_CASE("a heatmap shows the winner of the finals") {
  Played c;
  c.play(8, 100, 104);
  const auto cells =
      must(must(Reader::open(c.file))->cells({.selection = {.where = "model = 'tiny'"}}));
  REQUIRE(cells.answers.size() == 1);
  const auto& answer = cells.answers[0].answer;
  CHECK(answer.by_finals);
  REQUIRE(answer.winner() != nullptr);
  CHECK(answer.winner()->name.find("mb2") != std::string::npos);
  CHECK(answer.winner()->runs.size() == 8);
  CHECK(answer.winner()->verdict.difference == Difference::faster);
  CHECK(answer.winner()->verdict.reason.find("8 pairs") != std::string::npos);
}

TEST_CASE("finals and single runs in one database have one winner in all views") {
  // A noisy machine: by the mean of the pairs the first layout leads, by its median the second.
  Played c;
  for (const auto& [first, second] : {std::pair(100.0, 104.0), {101.0, 105.0}, {130.0, 60.0}})
    c.play_round(first, second);
  const auto reader = must(Reader::open(c.file));
  const Selection tiny{.names = {}, .where = "model = 'tiny'"};
  const auto winner = c.best("layout");
  CHECK(winner.find("mb2") != std::string::npos);
  // One number for the lead: that of the pairs, which the certainty says too.
  CHECK(std::stod(c.best("lead_share")) == doctest::Approx(-0.207).epsilon(0.001));
  CHECK(c.best("certainty").find("20.7 %") != std::string::npos);
  CHECK(c.best("verdict") == "UNDECIDED");
  HeatmapRequest request{.selection = tiny};
  for (const std::size_t layouts : {std::size_t{2}, std::size_t{0}}) {
    request.layouts = layouts;  // of a heatmap, and of a report with its sentence
    const auto cells = must(reader->cells(request));
    REQUIRE(cells.answers.size() == 1);
    CHECK(cells.answers[0].answer.winner()->name == winner);
    CHECK(certainty_text(cells.answers[0].answer) == c.best("certainty"));
  }
  const auto bests = must(reader->best_of_cells({c.sweep}));  // of a run's end and of `status`
  REQUIRE(bests.size() == 1);
  CHECK(bests[0].layout == winner);
  CHECK(certainty_text(bests[0].answer) == c.best("certainty"));
}

TEST_CASE("best ranks runs of one time: the sweep's own, or those of now") {
  for (const bool with_finals : {false, true}) {
    CAPTURE(with_finals);
    Played c;
    if (with_finals) c.play(8, 131, 121);
    const auto winner = c.best("layout");
    const auto lead = c.best("lead_share");
    CHECK(winner.find("mb1") != std::string::npos);
    const auto asked = must(Reader::open(c.file))->best({.at = RankedAt::now});
    REQUIRE_FALSE(asked);
    CHECK(asked.error().what ==
        "no layout was measured again: the key 'remeasure' of a sweep file does that");
    // The machine becomes half as fast, and of three layouts the first two are measured again.
    for (int round = 1; round <= 3; ++round) {
      const auto rows = must(c.daemon.store->add_finals(c.sweep,
          {{.of = c.layouts[0], .round = round, .again = 1},
              {.of = c.layouts[1], .round = round, .again = 1}}));
      REQUIRE(rows.size() == 2);
      (void)c.daemon.run(rows[0].id, Outcome::completed, 60 + 0.1 * round);
      (void)c.daemon.run(rows[1].id, Outcome::completed, 66 + 0.1 * round);
    }
    CHECK(c.best("layout") == winner);
    CHECK(c.best("lead_share") == lead);
    CHECK(c.best("layout", RankedAt::now).find("mb2") != std::string::npos);
    CHECK(c.best("measured", RankedAt::now) == "6\n");
    const auto reader = must(Reader::open(c.file));
    const auto now = must(reader->best({.where = "model = 'tiny'", .at = RankedAt::now}));
    CHECK(now.note.find("Not measured again, so not ranked: dp1 tp1 pp1 mb4") == 0);
    CHECK(must(reader->best({})).note.empty());
    const auto cells = must(reader->cells(
        {.selection = {.where = "model = 'tiny'"}, .rows = "model", .columns = "gpus"}));
    REQUIRE(cells.answers.size() == 1);
    CHECK(cells.answers.front().answer.winner()->name == winner);
  }
}

TEST_CASE("what became slower stands until it no longer is") {
  Played c;
  const auto rows =
      must(c.daemon.store->add_finals(c.sweep, {{.of = c.layouts[0], .round = 1, .again = 1}}));
  const auto told = [&](EventKind kind, Timestamp at, const std::string& detail) {
    c.daemon.commit({AddEvent{
        .at = at, .sweep = c.sweep, .trial = c.layouts[0], .kind = kind, .detail = detail}});
    sqlite::Database(c.file, sqlite::OpenMode::existing, 1000)
        .execute("UPDATE sweeps SET remeasured = remeasured + 1");
    return must(must(Reader::open(c.file))->regressions({}));
  };
  CHECK(told(EventKind::remeasured, 100, "tie").empty());
  CHECK(told(EventKind::regressed, 200, "slower by 5 %").size() == 1);
  const auto standing = told(EventKind::still_regressed, 300, "slower by 6 %");
  REQUIRE(standing.size() == 1);
  CHECK(standing.front().since == 200);
  CHECK(standing.front().text == "slower by 6 %");
  CHECK(must(c.daemon.store->slower_layouts(c.sweep)) == std::set<TrialId>{c.layouts[0]});
  CHECK(must(must(Reader::open(c.file))->status({})).front().regressions.size() == 1);
  CHECK(told(EventKind::remeasured, 400, "tie").empty());
}
