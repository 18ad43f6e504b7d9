// SPDX-License-Identifier: Apache-2.0
// Rows from which a search learns: a sweep's trials, and knowledge that was imported.
#include "store/search_rows.hpp"

#include "store/row_sql.hpp"
#include "store/rows.hpp"

#include <shardsweep/event.hpp>

#include <fmt/format.h>

#include <string>

namespace shardsweep::sqlite {
namespace {

const std::string& search_sql() {
  static const std::string sql = fmt::format(R"sql(
      SELECT {}, t.id, iif(t.outcome = 'oom' AND t.fragmented, 'crashed', t.outcome),
        t.attempts > 0,
        EXISTS (SELECT 1 FROM events AS e WHERE e.trial = t.id AND e.kind = 'rerun'),
        ifnull(t.outcome = 'skipped' AND (SELECT e.kind FROM events AS e WHERE e.trial = t.id
          AND e.kind IN ('skipped', 'spared') ORDER BY e.id DESC LIMIT 1) = 'spared', 0),
        ifnull(m.tokens_per_s_per_gpu, 0.0), ifnull(m.peak_memory_bytes, 0),
        (SELECT ifnull(sum((b.ended_at - b.started_at) * 1e-6 * t.gpus), 0.0) FROM attempts AS b
          WHERE b.trial = t.id AND b.started_at > 0 AND b.ended_at > b.started_at),
        (SELECT ifnull(max(b.ended_at), 0) FROM attempts AS b WHERE b.trial = t.id),
        (SELECT ifnull(max((b.ended_at - b.started_at) * 1e-6), 0.0) FROM attempts AS b
          WHERE b.trial = t.id AND iif(m.attempt IS NULL, b.number = t.attempts, b.id = m.attempt)
            AND b.started_at > 0 AND b.ended_at > b.started_at),
        (SELECT ifnull(max(e.id), 0) FROM events AS e LEFT JOIN attempts AS b ON b.id = e.attempt
          WHERE e.trial = t.id AND iif(e.attempt IS NULL,
            e.kind IN (t.outcome, '{}', '{}'), b.number = t.attempts AND e.kind = b.outcome)),
        ifnull(r.id, 0), ifnull(r.started_at, 0), ifnull(m.cut_short, 0),
        ifnull(m.train_step_ms, 0.0), ifnull(m.resolution, 0.0), t.runner_version
      FROM trials AS t
      LEFT JOIN attempts AS a ON a.trial = t.id AND a.counted = 1
      LEFT JOIN measurements AS m ON m.attempt = a.id AND m.mark IS NULL
      LEFT JOIN attempts AS r ON r.trial = t.id AND r.number = t.attempts AND
        r.state <> 'ended' AND r.started_at > 0
      WHERE t.sweep = ? AND t.hidden = 0 AND t.final_of IS NULL ORDER BY t.position, t.id)sql",
      list(point_columns(), "t."), word_of(EventKind::ruled_out), word_of(EventKind::cancel));
  return sql;
}

}  // namespace

std::vector<SearchRow> search_rows(Database& database, SweepId id, const SweepSpec& sweep) {
  Statement select(database, search_sql());
  auto row = select.use(id);
  std::vector<SearchRow> rows;
  while (row.next()) {
    auto& one = rows.emplace_back();
    one.point = read_point(row, sweep);
    read_fields(row, static_cast<int>(point_columns().size()), one.id, one.outcome, one.attempted,
        one.rerun, one.spared, one.tokens_per_s_per_gpu, one.peak_memory_bytes, one.gpu_seconds,
        one.ended_at, one.seconds, one.end_event, one.running, one.running_since, one.cut_short,
        one.train_step_ms, one.resolution, one.runner_version);
  }
  return rows;
}

const char* const unused_knowledge_sql =
    "DELETE FROM knowledge WHERE forgotten_at > 0 AND NOT EXISTS (SELECT 1 FROM sweeps AS s WHERE "
    "s.submitted_at >= imported_at AND s.submitted_at < forgotten_at)";

std::vector<KnowledgeText> knowledge_at(Database& database, Timestamp submitted) {
  Statement select(database,
      "SELECT name, text FROM knowledge WHERE imported_at <= ?1 AND (forgotten_at = 0 OR "
      "forgotten_at > ?1) ORDER BY id");
  auto row = select.use(submitted);
  std::vector<KnowledgeText> all;
  while (row.next())
    all.push_back({row.text(0), row.text(1)});
  return all;
}

}  // namespace shardsweep::sqlite
