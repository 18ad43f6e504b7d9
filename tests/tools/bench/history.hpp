// SPDX-License-Identifier: Apache-2.0
// A database with a history: sweeps, trials and measurements with names and records as long as
// real ones.
#pragma once

#include "store/sqlite.hpp"

#include <string>

namespace shardsweep::bench {

struct History {
  int sweeps = 10;
  int measured = 1'000'000;
  int others = 200'000;  ///< oom, skipped, planned
};

// Trials 1..measured completed; then two thirds oom and skipped, one third planned. Names and
// records are as long as real ones.
inline const char* const history_sql = R"sql(
CREATE TEMP TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT :all)
  SELECT i FROM c;
INSERT INTO sweeps (id, name, state, source, resolved, resolved_hash, backend, site, job_template,
  cluster, runner, runner_version, vars, points, duplicates, left_out, revision, submission, report,
  submitted_at) SELECT i, 'sweep-' || i, 'active', '', '', '', 'slurm', '', '', 'h100-8x',
  'shardbench', '1.0', '[]', 0, 0, '{"memory": 10}', 1, 'nonce' || i, '{}', 1700000000000000
  FROM n WHERE i <= :sweeps;
INSERT INTO trials (id, sweep, slug, identity, lane, position, model, nodes, gpus, seq_len, dtype,
  dp, tp, pp, cp, ep, vpp, dp_replicate, micro_batch, grad_accum, zero, recompute, sequence_parallel,
  schedule, rank_order, bucket_mb, overlap, repeat, vars, layers, hidden_size, ffn, heads, kv_heads,
  vocab, global_batch, runner, runner_version, predicted_memory_bytes, predicted_train_step_s,
  predicted_attempt_s, predicted_tokens_per_s_per_gpu, hidden, state, outcome, cause, charged,
  elsewhere, attempts) SELECT i, 1 + i % :sweeps,
  'llama-' || (i % 12) || 'b-n' || (1 << (i % 8)) || '-dp4tp8pp2-mb2ga4-z1-' || printf('%06x', i),
  lower(hex(randomblob(16))), printf('%032x', i / 6), i,
  'llama-' || (i % 12) || 'b', 1 << (i % 8), 8 << (i % 8), 4096, 'bf16', 1 << (i / 7 % 6),
  1 << (i / 11 % 4), 1 << (i / 13 % 4), 1, 1, 1, 1, 1 + i % 6, 1 + i / 5 % 16, i % 4,
  CASE i % 3 WHEN 0 THEN 'none' WHEN 1 THEN 'selective' ELSE 'full' END, i % 2, '1f1b',
  'tp-dp-pp', 25, 1, 1, '{}', 24, 2048, 8192, 32, 32, 128256, 256, 'shardbench', '1.0',
  60000000000, 1.5, 60.0, 4000.0, 0,
  CASE WHEN i <= :measured OR i % 3 > 0 THEN 'ended' ELSE 'planned' END,
  CASE WHEN i <= :measured THEN 'completed' WHEN i % 3 = 1 THEN 'oom' WHEN i % 3 = 2 THEN 'skipped' END,
  'result record', 0, 0, 1 FROM n;
INSERT INTO allocations (id, sweep, token, job_name, job_id, dir, backend, nodes, slots_per_node,
  state, submission, job_state, created_at, claimed_at, last_beat, from_lead_n, said_bye, draining,
  end_reason, end_outcome, time_limit_s, detail) SELECT i, 1 + i % :sweeps, 't' || i, 'j' || i, i, '/scratch/a/' || i, 'slurm', 8, 8,
  'ended', 'accepted', 'ended', 1, 1, 1, 9, 1, 0, 'drained', '', 900, '' FROM n WHERE i <= :measured / 50 + 1;
INSERT INTO attempts (id, trial, number, allocation, nonce, dir, state, outcome, counted, revoked,
  exit_code, signal, cause, source, leaked, started_at, ended_at) SELECT i, i, 1, 1 + i / 50, lower(hex(randomblob(16))),
  '/scratch/user/shardsweep/attempts/' || i, 'ended', 'completed', 1, 0, 0, 0, 'result record',
  'runner', 0, 1700000000000000 + i * 1000000, 1700000060000000 + i * 1000000
  FROM n WHERE i <= :measured;
INSERT INTO measurements (attempt, trial, tokens_per_s_per_gpu, tokens_per_s, train_step_ms,
  train_step_ms_min, train_step_ms_p95, train_step_ms_spread, mfu, tflops_per_gpu, peak_memory_bytes,
  loss, tokens_per_step, n_params, steps, warmup, mark, flops_model, runner_version, software, hosts,
  detail) SELECT i, i, 1000.0 + (i * 7919 % 100000) / 7.0, 1e6, 120.5, 118.0, 131.0,
  0.1, 0.4, 395.0, 60000000000 + i % 1000, 9.5, 1048576, 1340000000, 10, 3, NULL, 'dense-causal',
  '1.0', '{"nccl":"2.28.9","cuda":"13.0"}', '["node17","node18"]',
  printf('{"type":"result","run_id":"%032x","tokens_per_s_per_gpu":%.3f,"train_step_ms":120.5,'
  || '"train_step_ms_min":118.0,"mfu":0.4,"peak_memory_bytes":60000000000,"loss":9.5}', i, i * 1.5)
  FROM n WHERE i <= :measured;
DROP TABLE n;
)sql";

inline std::string with(std::string text, const std::string& name, int value) {
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at))
    text.replace(at, name.size(), std::to_string(value));
  return text;
}

/// Fills a database that has its schema and no rows.
inline void fill(sqlite::Database& database, const History& history) {
  database.execute("PRAGMA cache_size = -400000");
  database.execute("PRAGMA foreign_keys = OFF");
  sqlite::Transaction transaction(database);
  std::string sql = with(history_sql, ":measured", history.measured);
  sql = with(sql, ":sweeps", history.sweeps);
  database.execute(with(sql, ":all", history.measured + history.others));
  transaction.commit();
}

}  // namespace shardsweep::bench
