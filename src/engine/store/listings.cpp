// SPDX-License-Identifier: Apache-2.0
// The statements of the lists that single commands read (listing.hpp).
#include "store/reader.hpp"
#include "store/reading.hpp"

#include <shardsweep/listing.hpp>

#include <array>
#include <string_view>

namespace shardsweep::sqlite {
namespace {

struct ListingSql {
  Listing listing;
  std::string_view sql;
};

constexpr std::array<ListingSql, static_cast<std::size_t>(Listing::count)> statements{{
    {Listing::live_jobs, R"sql(
SELECT dir FROM allocations WHERE state <> 'ended' AND backend <> 'outside')sql"},

    {Listing::live_folders, R"sql(
SELECT dir FROM attempts WHERE state <> 'ended'
UNION ALL SELECT dir FROM allocations WHERE state <> 'ended')sql"},

    {Listing::exportable_sweeps, R"sql(
SELECT name FROM sweeps AS s WHERE EXISTS (SELECT 1 FROM trials AS t WHERE t.sweep = s.id
  AND t.side = '' AND coalesce(t.outcome, t.prior) IS NOT NULL) ORDER BY name)sql"},

    {Listing::imported_tables, R"sql(
SELECT name FROM sweeps WHERE backend = 'imported' AND source = resolved)sql"},

    {Listing::last_pause, R"sql(
SELECT e.detail FROM events AS e JOIN sweeps AS s ON s.id = e.sweep
WHERE s.name = ?1 AND e.kind = 'paused' ORDER BY e.id DESC LIMIT 1)sql"},

    {Listing::node_ledger, R"sql(
SELECT * FROM node_ledger ORDER BY state = 'trusted', node)sql"},

    {Listing::knowledge, R"sql(
SELECT name, text FROM knowledge WHERE forgotten_at = 0 ORDER BY id)sql"},

    {Listing::sweeps_with_var, R"sql(
SELECT DISTINCT s.name FROM sweeps AS s, json_each(s.vars) AS var WHERE var.value = ?1)sql"},

    {Listing::vars_of_trial, R"sql(
SELECT j.key AS name, CAST(j.value AS TEXT) AS value FROM trials AS t, json_each(t.vars) AS j
WHERE t.slug = ?1)sql"},

    {Listing::ended_trials, R"sql(
SELECT t.identity, t.slug, t.lane, t.outcome, t.cause, t.micro_batch, t.nodes, t.gpus,
  t.dp, t.tp, t.pp, t.cp, t.ep, t.vpp, t.grad_accum
FROM trials AS t JOIN sweeps AS s ON s.id = t.sweep
WHERE s.name = ?1 AND t.state = 'ended' AND t.final_of IS NULL)sql"},

    {Listing::bisect_runs, R"sql(
SELECT json_extract(t.vars, '$.' || ?1) AS version, t.repeat AS pair, t.state <> 'ended' AS open,
  t.outcome, t.cause, a.allocation, iif(t.counted_mark IS NULL, t.counted_speed, NULL) AS speed,
  m.train_step_ms AS step_ms
FROM trials AS t LEFT JOIN attempts AS a ON a.id = t.counted_attempt
LEFT JOIN measurements AS m ON m.attempt = a.id
WHERE t.hidden = 0 AND t.sweep = (SELECT id FROM sweeps WHERE name = ?2)
ORDER BY t.position, t.id)sql"},

    {Listing::replaced_runs, R"sql(
SELECT a.trial AS trial_id, m.tokens_per_s_per_gpu AS speed, max(a.number)
FROM trials AS t JOIN attempts AS c ON c.id = t.counted_attempt
JOIN attempts AS a ON a.trial = t.id AND a.number < c.number
JOIN measurements AS m ON m.attempt = a.id
WHERE t.attempts > 1 AND a.outcome = 'completed' AND a.revoked = 0 AND m.mark IS NOT 'implausible'
  AND m.tokens_per_s_per_gpu > 0
GROUP BY a.trial)sql"},

    {Listing::selftest_trials, R"sql(
SELECT r.trial AS slug, r.layout, json_extract(r.vars, '$.shardbench_fault') AS fault, r.outcome,
  r.cause, r.dp * r.tp * r.pp AS ranks, (SELECT max(a.leaked) FROM attempts AS a
    WHERE a.trial = r.trial_id) AS leaked, r.loss, r.peak_memory_bytes,
  r.predicted_memory_bytes, json_extract(m.detail, '$.network.busbw_gb_per_s') * 1e9
    AS bus_bandwidth
FROM results AS r LEFT JOIN measurements AS m ON m.attempt = r.attempt_id
WHERE r.sweep = ?1 ORDER BY r.trial_id)sql"},

    {Listing::selftest_jobs, R"sql(
SELECT DISTINCT al.job_id, al.backend, al.nodes FROM attempts AS a
JOIN allocations AS al ON al.id = a.allocation JOIN results AS r ON r.trial_id = a.trial
WHERE r.sweep = ?1 AND a.number = (SELECT max(number) FROM attempts WHERE trial = a.trial)
ORDER BY al.id)sql"},

    {Listing::measured_blocks, R"sql(
SELECT r.trial_id, r.gpus, r.nodes, m.train_step_ms * 1e-3 AS train_step_s,
  json_extract(m.detail, '$.microbench.gemm_gflops') * 1e9 AS gemm_flops,
  json_extract(m.detail, '$.microbench.gemm_peak_gflops') * 1e9 AS gemm_peak_flops,
  json_extract(m.detail, '$.microbench.attention_gflops') * 1e9 AS attention_flops,
  json_extract(m.detail, '$.microbench.memory_gb_per_s') * 1e9 AS memory_bandwidth
FROM results AS r JOIN measurements AS m ON m.attempt = r.attempt_id
WHERE r.sweep = ?1 AND r.outcome = 'completed' AND json_extract(m.detail, '$.microbench') IS NOT NULL
ORDER BY r.gpus)sql"},

    {Listing::measured_transfers, R"sql(
SELECT trial_id, json_extract(value, '$.sent_bytes') AS sent_bytes,
  json_extract(value, '$.median_ms') * 1e-3 AS seconds
FROM (SELECT r.trial_id, json_extract(m.detail, '$.microbench.all_reduce') AS sizes
  FROM results AS r JOIN measurements AS m ON m.attempt = r.attempt_id
  WHERE r.sweep = ?1 AND r.outcome = 'completed'), json_each(sizes) ORDER BY 1, 2)sql"},

    {Listing::trace_jobs, R"sql(
SELECT n.node, l.job_name AS job, s.name AS sweep, l.claimed_at AS started_at, l.ended_at
FROM allocations AS l JOIN allocation_nodes AS n ON n.allocation = l.id
JOIN sweeps AS s ON s.id = l.sweep WHERE l.claimed_at > 0
ORDER BY n.node, l.claimed_at, l.id)sql"},

    {Listing::trace_attempts, R"sql(
SELECT n.node, t.slug AS trial, a.number, ifnull(a.outcome, a.state) AS outcome, p.started_at,
  p.ended_at, p.steps, p.steps_us, p.result_at
FROM attempts AS a JOIN attempt_parts AS p ON p.attempt = a.id JOIN trials AS t ON t.id = a.trial
JOIN allocation_nodes AS n ON n.allocation = a.allocation
WHERE a.started_at > 0 AND t.id IN (SELECT value FROM json_each(?1))
ORDER BY n.node, a.started_at, a.id)sql"},

    {Listing::pull_request, R"sql(
SELECT r.model, r.seq_len, r.gpus, r.trial, l.job_id, r.layout, r.state, r.outcome, r.mark,
  (SELECT avg(s.step_ms) FROM train_steps AS s WHERE s.attempt = r.attempt_id
    AND s.step > r.warmup) AS mean_step_ms,
  r.train_step_ms, r.tokens_per_s_per_gpu, r.tflops_per_gpu, r.loss, r.peak_memory_bytes, a.dir
FROM results AS r
LEFT JOIN attempts AS a ON a.id = coalesce(r.attempt_id, (SELECT max(id) FROM attempts AS b
  WHERE b.trial = r.trial_id))
LEFT JOIN allocations AS l ON l.id = a.allocation
WHERE r.trial_id IN (SELECT value FROM json_each(?1)) AND a.id IS NOT NULL
ORDER BY r.model, r.seq_len, r.gpus, r.tokens_per_s_per_gpu IS NULL, r.tokens_per_s_per_gpu DESC,
  r.trial_id)sql"},

    {Listing::bundle_sweep, R"sql(
SELECT id, name, state, held, backend, failed_starts, failed_nodes FROM sweeps
WHERE id = ?1)sql"},

    {Listing::bundle_counts, R"sql(
SELECT state, outcome, count(*) AS trials FROM trials WHERE sweep = ?1 GROUP BY 1, 2)sql"},

    {Listing::bundle_incomplete_trials, R"sql(
SELECT id, slug, state, outcome, cause, charged, elsewhere, attempts FROM trials
WHERE sweep = ?1 AND outcome IS NOT 'completed' ORDER BY id LIMIT 200)sql"},

    {Listing::bundle_allocations, R"sql(
SELECT * FROM (SELECT id, job_id, state, submission, job_state, end_reason, end_outcome, detail
  FROM allocations WHERE sweep = ?1 ORDER BY id DESC LIMIT 100) ORDER BY id)sql"},

    {Listing::bundle_attempts, R"sql(
SELECT * FROM (SELECT a.id, a.trial, a.number, a.allocation, a.state, a.outcome, a.source,
  a.counted, a.revoked, a.exit_code, a.signal, a.cause, a.also
  FROM attempts AS a JOIN trials AS t ON t.id = a.trial
  WHERE t.sweep = ?1 ORDER BY a.id DESC LIMIT 200) ORDER BY id)sql"},

    {Listing::bundle_nodes, R"sql(
SELECT node, state, reason FROM node_states LIMIT 100)sql"},

    {Listing::bundle_events, R"sql(
SELECT * FROM (SELECT e.id, e.at, e.kind, e.trial, e.attempt, e.allocation, e.detail
  FROM events AS e LEFT JOIN trials AS t ON t.id = e.trial
  LEFT JOIN allocations AS l ON l.id = e.allocation
  WHERE coalesce(e.sweep, t.sweep, l.sweep, ?1) = ?1 ORDER BY e.id DESC LIMIT 1000)
ORDER BY id)sql"},

    {Listing::bundle_job_folders, R"sql(
SELECT dir FROM allocations WHERE sweep = ?1 ORDER BY id DESC LIMIT 4)sql"},

    {Listing::bundle_attempt_folders, R"sql(
SELECT a.dir FROM attempts AS a JOIN trials AS t ON t.id = a.trial
WHERE t.sweep = ?1 AND a.outcome IS NOT 'completed' ORDER BY a.id DESC LIMIT 4)sql"},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < statements.size(); ++i) {
    if (static_cast<std::size_t>(statements[i].listing) != i) return false;
  }
  return true;
}
static_assert(is_in_order(), "each list has its statement, in the order of the enumeration");

}  // namespace

Table list(Database& database, Listing listing, const std::vector<Value>& bound) {
  Statement select(database, statements.at(static_cast<std::size_t>(listing)).sql);
  auto use = select.use();
  for (const Value& value : bound)
    use.bind_value(value);
  return fetch(select, use);
}

}  // namespace shardsweep::sqlite
