// SPDX-License-Identifier: Apache-2.0
// What a follower sees happen. Events are read from the last one on, so that a look costs what
// is new, however long the sweep is.
#include "store/ranking.hpp"
#include "store/reader.hpp"
#include "store/row_sql.hpp"
#include "store/rows.hpp"

#include <shardsweep/event.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace shardsweep::sqlite {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t most_per_look = 1000;
constexpr std::size_t most_trials_named = 20;

std::string outcome_words() {
  std::string words = fmt::format("'{}', '{}', '{}'", word_of(EventKind::spared),
      word_of(EventKind::ruled_out), word_of(EventKind::cancel));
  for (const OutcomeInfo& row : outcome_table)
    words += fmt::format(", '{}'", row.name);
  return words;
}

struct ProgressSql {
  const char* last_event = "SELECT ifnull(max(id), 0) FROM events";
  // The first of several sweeps that is to be seen from its submission on.
  const char* submission =
      "SELECT ifnull(min(last), 0) FROM (SELECT max(id) AS last FROM events WHERE sweep IN (SELECT "
      "value FROM json_each(?)) AND trial IS NULL AND allocation IS NULL AND kind = 'submitted' "
      "GROUP BY sweep)";
  // The sweep and a cell's columns come first.
  std::string finished = fmt::format(
      R"sql(
    SELECT r.sweep, {1}, r.trial, r.layout, e.id, e.at,
      e.kind, e.detail, ifnull(a.number, 0), r.state, r.outcome,
      (SELECT attempts FROM trials WHERE id = e.trial), m.tokens_per_s_per_gpu, m.mfu,
      m.peak_memory_bytes, coalesce(m.mark, iif(m.cut_short, 'cut_short', NULL), ''),
      iif(m.mark IS NULL, '', ifnull(a.also, ''))
    FROM events AS e JOIN all_results AS r ON r.trial_id = e.trial
    LEFT JOIN attempts AS a ON a.id = e.attempt
    LEFT JOIN measurements AS m ON m.attempt = e.attempt
    WHERE e.id > ?1 AND e.id <= ?2 AND e.trial IS NOT NULL AND e.kind IN ({0}) AND r.in_file
      AND r.trial_id NOT IN (SELECT id FROM trials WHERE side <> '')
      AND r.sweep_id IN (SELECT value FROM json_each(?3))
    ORDER BY e.id LIMIT ?4)sql",
      outcome_words(), cell_columns("r."));
  const char* allocations =
      "SELECT s.name, l.job_name, l.claimed_at > 0, (SELECT count(*) FROM attempts AS e WHERE "
      "e.allocation = l.id AND e.state = 'ended'), (SELECT count(*) FROM attempts AS e WHERE "
      "e.allocation = l.id), ifnull(r.trial, ''), ifnull(r.model, ''), ifnull(r.layout, ''), "
      "ifnull(a.started_at, 0) FROM allocations AS l JOIN sweeps AS s ON s.id = l.sweep LEFT JOIN "
      "attempts AS a ON a.allocation = l.id AND a.state = 'running' LEFT JOIN all_results AS r ON "
      "r.trial_id = a.trial WHERE l.state <> 'ended' AND l.sweep IN (SELECT value FROM "
      "json_each(?)) ORDER BY l.claimed_at = 0, l.id";
  const char* attempts =
      "SELECT s.name, t.slug, a.number, a.state, a.outcome, a.dir FROM attempts AS a JOIN trials "
      "AS t ON t.id = a.trial JOIN sweeps AS s ON s.id = t.sweep WHERE a.trial IN (SELECT value "
      "FROM json_each(?)) ORDER BY a.trial, a.number";
  std::string winner = fmt::format(
      "SELECT sweep, {}, trial, layout, tokens_per_s_per_gpu, ifnull(ended_at, 0) FROM all_results "
      "WHERE trial_id = ?",
      cell_columns(""));
  const char* trials =
      "SELECT s.name, t.slug FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep WHERE t.id IN "
      "(SELECT value FROM json_each(?1)) ORDER BY t.id LIMIT ?2";
};

const ProgressSql& progress_sql() {
  static const ProgressSql statements;
  return statements;
}

std::optional<double> read_real(const Statement::Use& row, int column) {
  return row.null(column) ? std::nullopt : std::optional(row.real(column));
}

/// The outcome that an event's word means: a search's bound and a rule skip, a request cancels.
Outcome outcome_of(const std::string& kind) {
  if (kind == word_of(EventKind::spared) || kind == word_of(EventKind::ruled_out))
    return Outcome::skipped;
  return outcome_from(kind).value_or(Outcome::cancelled);
}

FinishedTrial read_finished(const Statement::Use& row) {
  FinishedTrial one;
  one.sweep = row.text(0);
  one.cell = read_cell(row, 1);
  one.trial = row.text(6);
  one.layout = row.text(7);
  one.at = row.integer(9);
  const std::string kind = row.text(10);
  one.outcome = outcome_of(kind);
  one.spared = kind == word_of(EventKind::spared);
  one.cause = row.text(11);
  one.attempt = row.integer(12);
  const bool is_last = one.attempt == 0 || one.attempt == row.integer(15);
  one.again = read_state(row, 13) != State::ended || !is_last;
  one.tokens_per_s_per_gpu = read_real(row, 16);
  one.mfu = read_real(row, 17);
  one.peak_memory_bytes = read_real(row, 18);
  read_field(row, 19, one.mark);
  one.doubt = row.text(20);
  return one;
}

/// The attempt's number at the end of `slug.2` or `sweep/slug.2`; 0: the name is a trial's.
std::int64_t number_in(const std::string& name, const AttemptPlace& place) {
  for (const std::string& trial : {place.trial, place.sweep + "/" + place.trial}) {
    if (name == fmt::format("{}.{}", trial, place.number)) return place.number;
  }
  return 0;
}

}  // namespace

std::int64_t first_event(Database& database, const std::vector<SweepId>& sweeps, FollowFrom from) {
  if (from == FollowFrom::now) return database.integer(progress_sql().last_event);
  Statement select(database, progress_sql().submission);
  auto row = select.use(Json(sweeps).dump());
  return row.next() ? row.integer(0) : 0;
}

FinishedBatch finished(
    Database& database, const std::vector<SweepId>& sweeps, std::int64_t after_event) {
  FinishedBatch found;
  found.last_event = std::max(after_event, database.integer(progress_sql().last_event));
  Statement select(database, progress_sql().finished);
  auto row = select.use(after_event, found.last_event, Json(sweeps).dump(), most_per_look);
  std::int64_t last = after_event;
  while (row.next()) {
    last = row.integer(8);
    found.trials.push_back(read_finished(row));
  }
  found.more = static_cast<std::int64_t>(found.trials.size()) == most_per_look;
  if (found.more) found.last_event = last;
  return found;
}

std::vector<CellBest> best_of_cells(Database& database, const std::vector<SweepId>& sweeps) {
  std::vector<CellBest> all;
  AnswerMaker maker(database, "layout", 2);
  Statement name(database, "SELECT name FROM sweeps WHERE id = ?");
  Statement winner(database, progress_sql().winner);
  for (const SweepId sweep : sweeps) {
    Selection selection;
    {
      auto row = name.use(sweep);
      if (!row.next()) continue;
      selection.names = {row.text(0)};
    }
    const auto source = source_of(database, selection);
    Runners runners(software_mix_of(selection));
    for (auto& cell : answered_cells(database, source, selection.at, runners, maker)) {
      auto row = winner.use(cell.answer.winner()->trial);
      if (!row.next()) continue;
      all.push_back({.sweep = row.text(0),
          .cell = read_cell(row, 1),
          .trial = row.text(6),
          .layout = row.text(7),
          .tokens_per_s_per_gpu = row.real(8),
          .at = row.integer(9),
          .answer = std::move(cell.answer)});
    }
  }
  std::stable_sort(
      all.begin(), all.end(), [](const CellBest& a, const CellBest& b) { return a.at > b.at; });
  return all;
}

std::vector<AllocationProgress> allocations(
    Database& database, const std::vector<SweepId>& sweeps) {
  std::vector<AllocationProgress> all;
  Statement select(database, progress_sql().allocations);
  auto row = select.use(Json(sweeps).dump());
  while (row.next()) {
    all.push_back({.sweep = row.text(0),
        .job_name = row.text(1),
        .claimed = row.integer(2) != 0,
        .ended = row.integer(3),
        .assigned = row.integer(4),
        .trial = row.text(5),
        .model = row.text(6),
        .layout = row.text(7),
        .started_at = row.integer(8)});
  }
  return all;
}

NamedAttempts attempts(Database& database, const std::string& name) {
  const auto chosen = resolve_names(database, {name});
  NamedAttempts named;
  named.is_sweep = chosen.sweeps != "[]";
  if (named.is_sweep) return named;
  {
    Statement select(database, progress_sql().trials);
    auto row = select.use(chosen.trials, static_cast<std::int64_t>(most_trials_named));
    while (row.next())
      named.trials.push_back(fmt::format("{}/{}", row.text(0), row.text(1)));
  }
  if (named.trials.size() > 1) return named;
  Statement select(database, progress_sql().attempts);
  auto row = select.use(chosen.trials);
  while (row.next()) {
    named.attempts.push_back({.sweep = row.text(0),
        .trial = row.text(1),
        .number = row.integer(2),
        .state = read_state(row, 3),
        .outcome = read_outcome(row, 4),
        .dir = row.text(5)});
  }
  const auto meant = std::find_if(named.attempts.begin(), named.attempts.end(),
      [&](const AttemptPlace& one) { return number_in(name, one) > 0; });
  if (meant != named.attempts.end()) named.attempts = {AttemptPlace(*meant)};
  return named;
}

}  // namespace shardsweep::sqlite
