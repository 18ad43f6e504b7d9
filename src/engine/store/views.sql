-- SPDX-License-Identifier: Apache-2.0
-- What people and commands read. Views hold nothing: they are made anew whenever a database has
-- been brought to this version, from the tables of schema.sql and its migrations. The program
-- writes the columns of all axes in place of /*axes of t*/, and those of a model's shape in place
-- of /*shape of t*/; those of the table of trials have a mark of their own.
DROP VIEW IF EXISTS results;
DROP VIEW IF EXISTS side_runs;
DROP VIEW IF EXISTS all_results;
DROP VIEW IF EXISTS trial_results;
DROP VIEW IF EXISTS node_ledger;
DROP VIEW IF EXISTS attempt_parts;

-- What an attempt's time went into, one row per attempt. The train steps, those that warm up too,
-- end with the result: what lies before them is start-up, what lies behind it teardown. `result_at`
-- is the record's `t`: microseconds if it is a whole number, else seconds; 0: there is none. Not
-- for others to rely on.
CREATE VIEW attempt_parts AS
SELECT a.id AS attempt, a.started_at, a.ended_at,
  (SELECT count(*) FROM train_steps AS x WHERE x.attempt = a.id) AS steps,
  (SELECT CAST(ifnull(sum(x.step_ms), 0) * 1000 AS INTEGER) FROM train_steps AS x
    WHERE x.attempt = a.id) AS steps_us,
  ifnull((SELECT CAST(json_extract(m.detail, '$.t')
      * iif(json_type(m.detail, '$.t') = 'integer', 1, 1e6) AS INTEGER)
    FROM measurements AS m WHERE m.attempt = a.id AND json_valid(m.detail)), 0) AS result_at
FROM attempts AS a;

-- One row per trial, with the measurement of its counted attempt. `hidden` is the model's hidden
-- size here, as in the sweep file; `in_file` is 0 for trials that the edited file no longer has.
-- `control_ratio` and `network_ratio`: of the controls of the allocation that measured it, the
-- one further from 1. A prediction that is not known is NULL; the tables say 0.
-- What trials are ranked by is read from the trial alone: SQLite then leaves the joins out.
-- The sweep's name is a sub-query and not a join: it costs where it is asked for alone.
-- What of it stands in the trial's own row. SQLite leaves out joins that are not asked for, but
-- not where it counts or sums: a reader that counts reads this.
-- `layout` tells layouts of a cell apart. The dtype stands in it where its sweep has measured
-- several, which two seeks in an index tell; the rest was stored with the trial.
CREATE VIEW trial_results AS
SELECT (SELECT name FROM sweeps WHERE id = t.sweep) AS sweep, t.slug AS trial, t.state, t.outcome, t.cause, t.counted_mark AS mark,
  /*axes of t*/, t.repeat, t.global_batch, t.vars,
  t.layout ||
    CASE WHEN (SELECT min(o.dtype) FROM trials AS o WHERE o.outcome = 'completed'
        AND o.sweep = t.sweep AND o.model = t.model AND o.seq_len = t.seq_len) <> t.dtype
      OR (SELECT max(o.dtype) FROM trials AS o WHERE o.outcome = 'completed'
        AND o.sweep = t.sweep AND o.model = t.model AND o.seq_len = t.seq_len) <> t.dtype
      THEN ' ' || t.dtype ELSE '' END AS layout,
  t.counted_speed AS tokens_per_s_per_gpu,
  nullif(t.predicted_memory_bytes, 0) AS predicted_memory_bytes,
  nullif(t.predicted_train_step_s, 0) AS predicted_train_step_s,
  nullif(t.predicted_attempt_s, 0) AS predicted_attempt_s,
  nullif(t.predicted_tokens_per_s_per_gpu, 0) AS predicted_tokens_per_s_per_gpu,
  /*shape of trial t*/,
  t.runner, t.runner_version, iif(t.counted_attempt IS NULL, '', t.counted_code) AS code_hash, nullif(iif(t.again > 0, 0, t.final_round), 0) AS final_round, nullif(t.again, 0) AS remeasured, (SELECT count(*) FROM attempts AS a WHERE a.trial = t.id
    AND (a.started_at > 0 OR a.counted = 1)) AS attempts, t.lane, t.position, t.id AS trial_id,
  t.sweep AS sweep_id, t.counted_attempt AS attempt_id, t.hidden = 0 AS in_file
FROM trials AS t;

CREATE VIEW all_results AS
SELECT t.sweep, t.trial, t.state, t.outcome, t.cause, t.mark,
  /*axes of t*/, t.repeat, t.global_batch, t.vars, t.layout,
  t.tokens_per_s_per_gpu, m.tokens_per_s, m.train_step_ms, m.train_step_ms_min,
  m.train_step_ms_p95, m.train_step_ms_spread, m.mfu, m.tflops_per_gpu, m.peak_memory_bytes,
  m.peak_allocated_bytes, m.peak_reserved_bytes, m.loss, m.tokens_per_step, m.n_params, m.steps, m.warmup, m.resolution, m.sm_clock_mhz, m.power_w,
  nullif(m.throttled, '') AS throttled, m.cut_short,
  (SELECT b.slug FROM trials AS b WHERE m.cut_short AND b.id = a.leader) AS beaten_by,
  t.predicted_memory_bytes, t.predicted_train_step_s, t.predicted_attempt_s,
  t.predicted_tokens_per_s_per_gpu, /*shape of t*/,
  t.runner, t.runner_version, m.flops_model, m.software, m.hosts,
  m.settings, nullif(a.image_digest, '') AS image_digest, t.code_hash,
  (SELECT cluster FROM sweeps WHERE id = t.sweep_id) AS cluster,
  t.final_round, t.remeasured, nullif((SELECT f.final_set FROM trials AS f WHERE f.id = t.trial_id), 0) AS final_set,
  (SELECT iif(count(*) = l.nodes AND min(x.switches) <> '', count(DISTINCT x.switches), NULL)
    FROM allocation_nodes AS x JOIN allocations AS l ON l.id = x.allocation
    WHERE x.allocation = a.allocation) AS spread,
  t.attempts, a.others_cpu,
  (SELECT max(p.result_at - p.steps_us - p.started_at, 0) / 1e6 FROM attempt_parts AS p
    WHERE p.attempt = a.id AND p.steps > 0 AND p.result_at > p.started_at
      AND p.result_at <= p.ended_at) AS startup_s,
  a.started_at, a.ended_at, t.lane, t.position, t.trial_id, t.sweep_id,
  t.attempt_id, t.in_file,
  (SELECT c.ratio FROM controls AS c WHERE c.allocation = a.allocation AND c.ratio > 0
    ORDER BY abs(c.ratio - 1) DESC LIMIT 1) AS control_ratio,
  (SELECT c.network_ratio FROM controls AS c WHERE c.allocation = a.allocation
    AND c.network_ratio > 0 ORDER BY max(c.network_ratio, 1 / c.network_ratio) DESC LIMIT 1) AS network_ratio
FROM trial_results AS t
LEFT JOIN attempts AS a ON a.id = t.attempt_id
LEFT JOIN measurements AS m ON m.attempt = t.attempt_id;

-- Runs beside the measured ones, with the folder of their last attempt. All that is ranked,
-- counted or listed as a result leaves them out by their ids: a look into an index.
CREATE VIEW side_runs AS
SELECT (SELECT name FROM sweeps WHERE id = t.sweep) AS sweep, t.side AS tool,
  (SELECT slug FROM trials WHERE id = t.final_of) AS of_trial, t.layout, t.slug AS trial, t.state,
  t.outcome, t.cause, (SELECT a.dir FROM attempts AS a WHERE a.trial = t.id
    ORDER BY a.number DESC LIMIT 1) AS dir, t.final_of, t.id AS trial_id, t.sweep AS sweep_id
FROM trials AS t WHERE t.side <> '' AND t.hidden = 0;

-- What a user asks: `query 'SELECT trial, tokens_per_s_per_gpu FROM results'`.
CREATE VIEW results AS SELECT * FROM all_results
WHERE in_file AND trial_id NOT IN (SELECT id FROM trials WHERE side <> '');

-- What `shardsweep nodes` shows. `attempts`: started in allocations that held the node; the
-- outcomes behind it: with their first cause on it. `slow`: its own time over that of its peers,
-- the mean of `slow_in` attempts; what leads to it is not counted as evidence.
CREATE VIEW node_ledger AS
SELECT n.node, ifnull(s.state, 'trusted') AS state,
  (SELECT count(*) FROM allocation_nodes AS x JOIN attempts AS a ON a.allocation = x.allocation
    WHERE x.node = n.node AND a.started_at > 0) AS attempts,
  (SELECT count(*) FROM allocation_nodes AS x JOIN attempts AS a ON a.allocation = x.allocation
    WHERE x.node = n.node AND a.outcome = 'completed') AS completed,
  (SELECT count(*) FROM attempts AS a WHERE a.node <> '' AND a.node = n.node
    AND a.outcome = 'node_failure') AS node_failure,
  (SELECT count(*) FROM attempts AS a WHERE a.node <> '' AND a.node = n.node
    AND a.outcome = 'comm_error') AS comm_error,
  (SELECT count(*) FROM attempts AS a WHERE a.node <> '' AND a.node = n.node
    AND a.outcome = 'hung') AS hung,
  (SELECT count(*) FROM attempts AS a WHERE a.node <> '' AND a.node = n.node
    AND a.outcome = 'crashed') AS crashed,
  (SELECT round(avg(e.ratio), 3) FROM node_evidence AS e WHERE e.node = n.node
    AND e.counts = 1 AND e.kind = 'slower') AS slow,
  (SELECT count(*) FROM node_evidence AS e WHERE e.node = n.node AND e.counts = 1
    AND e.kind = 'slower') AS slow_in,
  (SELECT count(*) FROM node_evidence AS e WHERE e.node = n.node AND e.counts = 1
    AND e.kind NOT IN ('slower', 'on pace')) AS evidence,
  (SELECT count(*) FROM probes AS p WHERE p.node = n.node AND p.outcome = 'passed')
    AS probes_passed,
  (SELECT count(*) FROM probes AS p WHERE p.node = n.node AND p.outcome = 'failed')
    AS probes_failed,
  ifnull(s.since, 0) AS since,
  CASE WHEN s.state = 'quarantined' THEN s.until ELSE 0 END AS probe_at,
  ifnull((SELECT x.switches FROM allocation_nodes AS x WHERE x.node = n.node AND x.switches <> ''
    ORDER BY x.allocation DESC LIMIT 1), '') AS switches,
  ifnull((SELECT max(last_seen) FROM nodes AS k WHERE k.node = n.node), 0) AS last_seen,
  ifnull((SELECT group_concat(host) FROM nodes AS k WHERE k.node = n.node), '') AS hosts,
  ifnull(s.reason, '') AS reason,
  ifnull((SELECT e.kind || ': ' || e.detail FROM node_evidence AS e WHERE e.node = n.node
    AND e.kind NOT IN ('slower', 'on pace') ORDER BY e.id DESC LIMIT 1), '') AS last_evidence
FROM (SELECT node FROM nodes UNION SELECT node FROM node_evidence UNION
  SELECT node FROM node_states) AS n LEFT JOIN node_states AS s ON s.node = n.node;
