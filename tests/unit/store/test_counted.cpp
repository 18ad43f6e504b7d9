// SPDX-License-Identifier: Apache-2.0
// What a trial is ranked by stands beside it, and says what its attempts and measurements say,
// whoever writes them. Readers of a million trials read nothing else.
#include "store/schema.hpp"
#include "unit/store/support.hpp"

#include <fmt/format.h>

using namespace shardsweep;
using namespace shardsweep::testing;

namespace {

/// Trials that say something else than the other two tables.
std::string wrong(const std::filesystem::path& file) {
  return rows_of(file,
      "SELECT t.id, t.counted_attempt, t.counted_mark, t.counted_speed FROM trials "
      "AS t LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted = 1 LEFT JOIN "
      "measurements AS m ON m.attempt = a.id WHERE t.counted_attempt IS NOT a.id OR "
      "t.counted_mark IS NOT m.mark OR t.counted_speed IS NOT "
      "m.tokens_per_s_per_gpu");
}

std::string counted(const std::filesystem::path& file) {
  return rows_of(file,
      "SELECT counted_attempt, ifnull(counted_mark, '-'), counted_speed FROM trials "
      "WHERE counted_attempt IS NOT NULL ORDER BY id");
}

/// The steps of a question's plan, a line each.
std::string plan_of(const std::filesystem::path& file, const std::string& question) {
  std::string text;
  const auto table = must(must(Reader::open(file))->query("EXPLAIN QUERY PLAN " + question));
  for (const auto& row : table.rows) {
    const auto& step = std::get<std::string>(row.at(3));
    // Sub-queries are numbered.
    text += step.substr(0, step.find(" SUBQUERY")) + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("a trial says by what it is ranked, whoever writes its measurement") {
  const TempDir dir;
  const auto file = dir / "a.db";
  Daemon daemon(file);
  daemon.submit(dir, {.gpus = {1}});
  const auto trial = daemon.trial("model = 'tiny' AND micro_batch = 1");
  const auto first = daemon.run(trial, Outcome::completed, 50);
  daemon.run(daemon.trial("model = 'tiny' AND micro_batch = 2"), Outcome::oom);
  CHECK(wrong(file).empty());
  CHECK(counted(file) == fmt::format("{}|-|50\n", first));
  daemon.commit({MarkMeasurement{first}});
  CHECK(counted(file) == fmt::format("{}|contaminated|50\n", first));

  // Measured again: the older one counts until the new one is there.
  SetTrial planned = set_trial(trial, State::planned, {}, "", 1);
  planned.row.prior = Outcome::completed;
  daemon.commit({planned});
  const auto replaced = [&] {
    return rows_of(must(must(Reader::open(file))->list(Listing::replaced_runs)));
  };
  CHECK(replaced().empty());
  const auto second = daemon.run(trial, Outcome::completed, 70);
  CHECK(wrong(file).empty());
  CHECK(counted(file) == fmt::format("{}|-|70\n", second));
  CHECK(replaced() == fmt::format("{}|50|1\n", trial));

  sqlite::Database database(file, sqlite::OpenMode::existing, 1000);
  database.execute("UPDATE measurements SET tokens_per_s_per_gpu = 71");
  CHECK(counted(file) == fmt::format("{}|-|71\n", second));
  database.execute("UPDATE attempts SET counted = 0");
  CHECK(counted(file).empty());
  database.execute(fmt::format("UPDATE attempts SET counted = 1 WHERE id = {}", second));
  CHECK(counted(file) == fmt::format("{}|-|71\n", second));
  database.execute("PRAGMA foreign_keys = OFF");
  database.execute(fmt::format("DELETE FROM measurements WHERE attempt = {}", second));
  CHECK(wrong(file).empty());
  database.execute(fmt::format("DELETE FROM attempts WHERE id = {}", second));
  CHECK(wrong(file).empty());
  CHECK(counted(file).empty());
}

namespace {

/// Side runs are left out by an index that holds nothing else.
constexpr const char* without_side_runs = "LIST\nSCAN trials USING INDEX trials_beside\n";

}  // namespace

TEST_CASE("what is ranked is read from one index, and a page of results from another") {
  const TempDir dir;
  Daemon daemon(dir / "a.db");
  daemon.submit(dir, {});
  CHECK(plan_of(dir / "a.db",
            "SELECT model, tp, state, outcome, tokens_per_s_per_gpu, trial_id, runner, "
            "runner_version FROM results WHERE mark IS NULL AND tokens_per_s_per_gpu IS "
            "NOT NULL") ==
      std::string("SCAN t USING COVERING INDEX trials_ranked\n") + without_side_runs);
  CHECK(plan_of(dir / "a.db",
            "SELECT model, seq_len, nodes, gpus, count(*) FROM trial_results GROUP BY model, "
            "seq_len, nodes, gpus") == "SCAN t USING COVERING INDEX trials_ranked\n");
  CHECK(plan_of(dir / "a.db",
            "SELECT trial_id FROM results ORDER BY sweep_id, position, trial_id LIMIT 5") ==
      std::string("SCAN t USING INDEX trials_by_position\n") + without_side_runs);
}
