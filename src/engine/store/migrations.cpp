// SPDX-License-Identifier: Apache-2.0
// What each version of the database adds to the one before; version 1 is schema.sql. An element
// that has been released is never changed: databases that have run it exist. Views stand apart
// (views.sql): they are made anew after the last one.
//
// Decision: What a trial is ranked by stands in its row too, kept by triggers whoever writes
// attempts and measurements: a heatmap of 10^6 trials reads one index, and three tables without
// it.
#include "store/deletion.hpp"
#include "store/ledger.hpp"
#include "store/schema.hpp"

#include <array>

namespace shardsweep::sqlite {
namespace {

// What a daemon learns over several looks, so that the next one, or `tick` from cron, goes on
// from there.
constexpr const char* learnt = R"sql(
-- allocations in a row that ended before anything had started in them; of those, by nodes that failed
ALTER TABLE sweeps ADD COLUMN failed_starts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN failed_nodes INTEGER NOT NULL DEFAULT 0;
-- 0 | 1: an attempt has started in it; its lead gave attempts back that nobody had asked back
ALTER TABLE allocations ADD COLUMN started INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocations ADD COLUMN gave_back INTEGER NOT NULL DEFAULT 0;
-- answers "not now" to its submission, in a row; 0, or until when it is in no queue by such an answer
ALTER TABLE allocations ADD COLUMN deferrals INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocations ADD COLUMN submit_after INTEGER NOT NULL DEFAULT 0;
-- times that it was submitted again because no job of it was there
ALTER TABLE allocations ADD COLUMN resubmissions INTEGER NOT NULL DEFAULT 0;
-- what the last looks have not found, and since when
ALTER TABLE allocations ADD COLUMN missing TEXT NOT NULL DEFAULT ''
  CHECK (missing IN ('', 'job', 'account'));
ALTER TABLE allocations ADD COLUMN missing_since INTEGER NOT NULL DEFAULT 0;
-- 0, or since when its job was seen to run
ALTER TABLE allocations ADD COLUMN running_since INTEGER NOT NULL DEFAULT 0;
-- 0, or by when it has ended or does not start
ALTER TABLE allocations ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0;
-- why nothing more is asked for; empty: nothing holds it
ALTER TABLE sweeps ADD COLUMN held TEXT NOT NULL DEFAULT '';
UPDATE allocations SET started = 1
  WHERE id IN (SELECT allocation FROM attempts WHERE started_at > 0);
)sql";

constexpr const char* silence = R"sql(
-- 0, or since when its lead was found silent
ALTER TABLE allocations ADD COLUMN quiet_since INTEGER NOT NULL DEFAULT 0;
)sql";

// Views alone have changed: they are made anew after the last step, so there has to be one.
constexpr const char* new_views = "-- predictions that are not known are NULL there\n";
constexpr const char* whole_labels = "-- a layout's label has all that tells it from others\n";
constexpr const char* startup_column = "-- seconds until the first train step stand there\n";

// What a trial was before it was run again, and who cancelled it. Earlier versions took the
// measurement away when a trial was run again, and kept its rows: it is counted again.
constexpr const char* kept_outcomes = R"sql(
-- Not ended: the outcome before it was run again, with its cause. It holds until a new one is durable.
ALTER TABLE trials ADD COLUMN prior TEXT
  CHECK (prior IN ('completed', 'oom', 'hung', 'timeout', 'node_failure', 'comm_error',
    'preempted', 'crashed', 'reaped', 'cancelled', 'rejected', 'lost', 'skipped'));
ALTER TABLE trials ADD COLUMN prior_cause TEXT NOT NULL DEFAULT '';
-- Who cancelled it; empty: nobody, or the scheduler.
ALTER TABLE trials ADD COLUMN cancelled_by TEXT NOT NULL DEFAULT ''
  CHECK (cancelled_by IN ('', 'sweep', 'name', 'budget'));
UPDATE trials SET cancelled_by = CASE
    WHEN cause LIKE 'limits.max_gpu_hours%' THEN 'budget'
    WHEN EXISTS (SELECT 1 FROM events AS e WHERE e.trial = trials.id AND e.kind = 'cancel')
      THEN 'name'
    ELSE 'sweep' END
  WHERE outcome = 'cancelled';
UPDATE attempts SET counted = 1 WHERE id IN (
  SELECT max(a.id) FROM attempts AS a JOIN trials AS t ON t.id = a.trial
    JOIN measurements AS m ON m.attempt = a.id
  WHERE a.outcome = 'completed' AND a.revoked = 0 AND m.mark IS NULL
    AND (t.outcome IS NULL OR t.outcome = 'cancelled') AND NOT EXISTS
      (SELECT 1 FROM attempts AS c WHERE c.trial = t.id AND c.counted = 1)
  GROUP BY a.trial);
UPDATE trials SET outcome = 'completed', cause = '', cancelled_by = ''
  WHERE outcome = 'cancelled' AND id IN (SELECT trial FROM attempts WHERE counted = 1);
UPDATE trials SET prior = 'completed'
  WHERE outcome IS NULL AND id IN (SELECT trial FROM attempts WHERE counted = 1);
)sql";

// So that nobody has to read it from `detail`. The next look fills it.
constexpr const char* hold_sql = R"sql(
-- who keeps its job from running: its submission or its user, or a suspension; empty: nobody
ALTER TABLE allocations ADD COLUMN hold TEXT NOT NULL DEFAULT ''
  CHECK (hold IN ('', 'user', 'suspended'));
)sql";

// A result is compared with those of its like. A scan of its sweep for each result takes
// seconds in each pass of a sweep of 10^5 trials.
constexpr const char* measured_sql = R"sql(
CREATE INDEX trials_measured ON trials (sweep, model, seq_len, dtype, global_batch)
  WHERE outcome = 'completed';
)sql";

// A daemon that comes later sees by it that the wall clock was set.
constexpr const char* wall_clock_sql = R"sql(
-- How far the wall clock was ahead of the steady one of that boot, in microseconds: a single row.
CREATE TABLE wall_clock (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  boot_id TEXT NOT NULL,
  ahead   INTEGER NOT NULL
) STRICT;
INSERT INTO wall_clock VALUES (1, '', 0);
)sql";

// What trials are ranked by is in three tables, and a heatmap of a million trials reads it of
// each. So it stands beside the trial too. SQLite keeps it, whoever writes the other two.
constexpr const char* counted_sql = R"sql(
-- of the counted attempt, from its own row and its measurement; NULL: there is none
ALTER TABLE trials ADD COLUMN counted_attempt INTEGER;
ALTER TABLE trials ADD COLUMN counted_mark TEXT;
ALTER TABLE trials ADD COLUMN counted_speed REAL;  -- tokens_per_s_per_gpu
UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (
  SELECT a.id, m.mark, m.tokens_per_s_per_gpu FROM attempts AS a LEFT JOIN measurements AS m
  ON m.attempt = a.id WHERE a.trial = trials.id AND a.counted = 1)
  WHERE id IN (SELECT trial FROM attempts WHERE counted = 1);
CREATE TRIGGER counted_in AFTER INSERT ON attempts WHEN new.counted = 1
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (new.id,
  (SELECT mark FROM measurements WHERE attempt = new.id),
  (SELECT tokens_per_s_per_gpu FROM measurements WHERE attempt = new.id)) WHERE id = new.trial;
END;
CREATE TRIGGER counted_now AFTER UPDATE OF counted ON attempts
WHEN new.counted = 1 AND old.counted = 0
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (new.id,
  (SELECT mark FROM measurements WHERE attempt = new.id),
  (SELECT tokens_per_s_per_gpu FROM measurements WHERE attempt = new.id)) WHERE id = new.trial;
END;
CREATE TRIGGER counted_no_more AFTER UPDATE OF counted ON attempts
WHEN new.counted = 0 AND old.counted = 1
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (NULL, NULL, NULL)
  WHERE id = old.trial AND counted_attempt = old.id;
END;
CREATE TRIGGER counted_gone AFTER DELETE ON attempts WHEN old.counted = 1
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (NULL, NULL, NULL)
  WHERE id = old.trial AND counted_attempt = old.id;
END;
CREATE TRIGGER counted_measured AFTER INSERT ON measurements
BEGIN UPDATE trials SET (counted_mark, counted_speed) = (new.mark, new.tokens_per_s_per_gpu)
  WHERE id = new.trial AND counted_attempt = new.attempt;
END;
CREATE TRIGGER counted_marked AFTER UPDATE OF mark, tokens_per_s_per_gpu ON measurements
BEGIN UPDATE trials SET (counted_mark, counted_speed) = (new.mark, new.tokens_per_s_per_gpu)
  WHERE id = new.trial AND counted_attempt = new.attempt;
END;
CREATE TRIGGER counted_unmeasured AFTER DELETE ON measurements
BEGIN UPDATE trials SET (counted_mark, counted_speed) = (NULL, NULL)
  WHERE id = old.trial AND counted_attempt = old.attempt;
END;
-- Holds all that is ranked, cell by cell, and the usual axes of heatmaps. Within a cell it has
-- the order of the measurements, for what is not in it.
CREATE INDEX trials_ranked ON trials (model, seq_len, nodes, gpus, counted_attempt,
  counted_speed, counted_mark, runner, runner_version, hidden, sweep, state, outcome, vars,
  dp, tp, pp, micro_batch, grad_accum, zero, recompute);
-- The order in which results are listed.
CREATE INDEX trials_by_position ON trials (sweep, position);
)sql";

// An answer that can't be written is tried again, also by a later daemon. What was asked for
// must not be done again by then.
constexpr const char* served_sql = R"sql(
-- Requests of commands that are done. The last ones: those before them are answered.
CREATE TABLE served_requests (
  n      INTEGER PRIMARY KEY,
  id     TEXT NOT NULL UNIQUE,  -- the request file's name
  at     INTEGER NOT NULL,
  answer TEXT NOT NULL CHECK (json_valid(answer))
) STRICT;
)sql";

// What ends early, and against what it is held.
constexpr const char* cut_short_sql = R"sql(
-- 1: ended early, as it was slower than its cell's best by more than search.cut_short: its speed
-- is a bound, kept and not ranked
ALTER TABLE measurements ADD COLUMN cut_short INTEGER NOT NULL DEFAULT 0
  CHECK (cut_short IN (0, 1));
-- the fastest trial of its cell when it was assigned; NULL: it runs to its end
ALTER TABLE attempts ADD COLUMN leader INTEGER;
-- ms of a train step with this trial's batch: that trial's, and the bound; 0: none
ALTER TABLE attempts ADD COLUMN leader_step_ms REAL NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN give_up_above_ms REAL NOT NULL DEFAULT 0;
-- Beside the trial too: a mark as any other.
DROP TRIGGER counted_in;
DROP TRIGGER counted_now;
DROP TRIGGER counted_measured;
DROP TRIGGER counted_marked;
CREATE TRIGGER counted_in AFTER INSERT ON attempts WHEN new.counted = 1
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (new.id,
  (SELECT ifnull(mark, iif(cut_short, 'cut_short', NULL)) FROM measurements
    WHERE attempt = new.id),
  (SELECT tokens_per_s_per_gpu FROM measurements WHERE attempt = new.id)) WHERE id = new.trial;
END;
CREATE TRIGGER counted_now AFTER UPDATE OF counted ON attempts
WHEN new.counted = 1 AND old.counted = 0
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (new.id,
  (SELECT ifnull(mark, iif(cut_short, 'cut_short', NULL)) FROM measurements
    WHERE attempt = new.id),
  (SELECT tokens_per_s_per_gpu FROM measurements WHERE attempt = new.id)) WHERE id = new.trial;
END;
CREATE TRIGGER counted_measured AFTER INSERT ON measurements
BEGIN UPDATE trials SET (counted_mark, counted_speed) =
  (ifnull(new.mark, iif(new.cut_short, 'cut_short', NULL)), new.tokens_per_s_per_gpu)
  WHERE id = new.trial AND counted_attempt = new.attempt;
END;
CREATE TRIGGER counted_marked AFTER UPDATE OF mark, tokens_per_s_per_gpu, cut_short
ON measurements
BEGIN UPDATE trials SET (counted_mark, counted_speed) =
  (ifnull(new.mark, iif(new.cut_short, 'cut_short', NULL)), new.tokens_per_s_per_gpu)
  WHERE id = new.trial AND counted_attempt = new.attempt;
END;
)sql";

// What a container, a shell or a module made of the ranks' environment, and memory that was
// there in pieces.
constexpr const char* containers_sql = R"sql(
-- 0 | 1: its outcome oom was fragmentation; after that it runs with expandable_segments:True
ALTER TABLE trials ADD COLUMN fragmented INTEGER NOT NULL DEFAULT 0 CHECK (fragmented IN (0, 1));
ALTER TABLE trials ADD COLUMN expandable INTEGER NOT NULL DEFAULT 0 CHECK (expandable IN (0, 1));
ALTER TABLE attempts ADD COLUMN fragmented INTEGER NOT NULL DEFAULT 0 CHECK (fragmented IN (0, 1));
ALTER TABLE attempts ADD COLUMN expandable INTEGER NOT NULL DEFAULT 0 CHECK (expandable IN (0, 1));
-- what the first rank found in its environment, a JSON object; empty: not known
ALTER TABLE attempts ADD COLUMN environment TEXT NOT NULL DEFAULT '';
-- of its container's image; unknown: its runtime tells none; empty: it had no container
ALTER TABLE attempts ADD COLUMN image_digest TEXT NOT NULL DEFAULT '';
-- what tensors had, and what the allocator held from the device; NULL: not told
ALTER TABLE measurements ADD COLUMN peak_allocated_bytes INTEGER;
ALTER TABLE measurements ADD COLUMN peak_reserved_bytes INTEGER;
-- variables of the first rank that change numbers, as it found them: "NAME=value NAME=value"
ALTER TABLE measurements ADD COLUMN settings TEXT NOT NULL DEFAULT '';
)sql";

// How finely a trainer's log told its speed.
constexpr const char* resolution_sql = R"sql(
-- share of the speed that the log rounds away; NULL: nothing
ALTER TABLE measurements ADD COLUMN resolution REAL;
UPDATE measurements SET resolution = json_extract(detail, '$.resolution')
  WHERE iif(json_valid(detail), json_type(detail, '$.resolution') IN ('real', 'integer'), 0);
)sql";

// Layouts that run again beside each other, when their cell has ended.
constexpr const char* finals_sql = R"sql(
-- of a run in the finals of its cell: the trial that brought its layout there; NULL: it is none
ALTER TABLE trials ADD COLUMN final_of INTEGER;
-- its round, from 1; 0: it is none
ALTER TABLE trials ADD COLUMN final_round INTEGER NOT NULL DEFAULT 0;
-- the difference below which layouts are the same, as measure.resolve was when it was planned
ALTER TABLE trials ADD COLUMN final_resolve REAL NOT NULL DEFAULT 0;
CREATE INDEX trials_final ON trials (sweep, final_of) WHERE final_of IS NOT NULL;
-- MHz, while it trained; NULL: not told
ALTER TABLE measurements ADD COLUMN sm_clock_mhz REAL;
)sql";

// Which programs an attempt has run: measurements of different ones are not mixed unasked.
constexpr const char* code_sql = R"sql(
-- hash of the user's own programs, or of the snapshot that they were in; empty: not known
ALTER TABLE attempts ADD COLUMN code_hash TEXT NOT NULL DEFAULT '';
-- the counted attempt's
ALTER TABLE trials ADD COLUMN counted_code TEXT NOT NULL DEFAULT '';
CREATE TRIGGER counted_code_in AFTER INSERT ON attempts WHEN new.counted = 1
BEGIN UPDATE trials SET counted_code = new.code_hash WHERE id = new.trial; END;
CREATE TRIGGER counted_code_now AFTER UPDATE OF counted, code_hash ON attempts
WHEN new.counted = 1
BEGIN UPDATE trials SET counted_code = new.code_hash WHERE id = new.trial; END;
DROP INDEX trials_ranked;
CREATE INDEX trials_ranked ON trials (model, seq_len, nodes, gpus, counted_attempt,
  counted_speed, counted_mark, runner, runner_version, counted_code, hidden, sweep, state,
  outcome, vars, dp, tp, pp, micro_batch, grad_accum, zero, recompute);
)sql";

// How fast the hardware ran.
constexpr const char* pace_sql = R"sql(
-- W of a GPU, while it trained; NULL: not told
ALTER TABLE measurements ADD COLUMN power_w REAL;
-- what held its clock back, in words; empty: nothing, or it is not told
ALTER TABLE measurements ADD COLUMN throttled TEXT NOT NULL DEFAULT '';
)sql";

// Where nodes are in the network, and finals that are confirmed on other nodes.
constexpr const char* node_sets_sql = R"sql(
-- switches or blocks above the node, the top one first: "core.leaf"; empty: not known
ALTER TABLE allocation_nodes ADD COLUMN switches TEXT NOT NULL DEFAULT '';
-- of a run in finals: the set of nodes that it is run on, from 1
ALTER TABLE trials ADD COLUMN final_set INTEGER NOT NULL DEFAULT 0;
-- how many of them there are to be, as measure.node_sets was when it was planned
ALTER TABLE trials ADD COLUMN final_sets INTEGER NOT NULL DEFAULT 1;
-- nodes of the sets before, with commas
ALTER TABLE trials ADD COLUMN final_avoid TEXT NOT NULL DEFAULT '';
UPDATE trials SET final_set = 1 WHERE final_of IS NOT NULL;
-- the set of nodes that it is for, and nodes that it must not have; 0, empty: it is for all else
ALTER TABLE allocations ADD COLUMN final_set INTEGER NOT NULL DEFAULT 0;
ALTER TABLE allocations ADD COLUMN avoid TEXT NOT NULL DEFAULT '';
)sql";

// Sequences shared by heads, and mixtures of experts.
constexpr const char* experts_sql = R"sql(
-- how the ranks of cp share attention; then the model's shape: values of a head (0: hidden / heads),
-- experts of each layer (0: dense), those that a token goes through, their width, those that each
-- token goes through, first layers without
ALTER TABLE trials ADD COLUMN cp_mode TEXT NOT NULL DEFAULT 'ring';
ALTER TABLE trials ADD COLUMN head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN experts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN experts_per_token INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN expert_ffn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN shared_experts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN dense_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN cp_mode TEXT NOT NULL DEFAULT 'ring';
ALTER TABLE left_out ADD COLUMN head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN experts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN experts_per_token INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN expert_ffn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN shared_experts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN dense_layers INTEGER NOT NULL DEFAULT 0;
)sql";

// What a layout is called was an expression of the view, beside the one of sweep/layout_text.
constexpr const char* layout_sql = R"sql(
-- in words, as when it was submitted: "dp4 tp2 pp1 mb2 ga4 z1 full sp"
ALTER TABLE trials ADD COLUMN layout TEXT NOT NULL DEFAULT '';
UPDATE trials SET layout = printf('dp%d tp%d pp%d mb%d ga%d z%d%s%s%s%s%s%s%s%s%s%s%s', dp, tp, pp,
  micro_batch, grad_accum, zero,
  CASE WHEN cp > 1 THEN ' cp' || cp ELSE '' END,
  CASE WHEN cp_mode <> 'ring' THEN ' ' || cp_mode ELSE '' END,
  CASE WHEN ep > 1 THEN ' ep' || ep ELSE '' END,
  CASE WHEN vpp > 1 THEN ' vpp' || vpp ELSE '' END,
  CASE WHEN recompute <> 'none' THEN ' ' || recompute ELSE '' END,
  CASE WHEN sequence_parallel THEN ' sp' ELSE '' END,
  CASE WHEN schedule <> '1f1b' THEN ' ' || schedule ELSE '' END,
  CASE WHEN rank_order <> 'tp-dp-pp' THEN ' ' || rank_order ELSE '' END,
  CASE WHEN dp_replicate > 1 THEN ' dpr' || dp_replicate ELSE '' END,
  CASE WHEN bucket_mb <> 25 THEN ' b' || bucket_mb ELSE '' END,
  CASE WHEN overlap THEN '' ELSE ' no-overlap' END);
)sql";

// What others used of the CPUs while an attempt ran: its measurement is ranked, and doubtful.
constexpr const char* load_sql =
    "ALTER TABLE attempts ADD COLUMN others_cpu REAL NOT NULL DEFAULT 0;";

// Runs beside the measured ones: they are trials, and no answer knows of them.
constexpr const char* side_sql = R"sql(
-- the tool of a run beside the measured ones, of the layout of final_of; empty: it is a measured run
ALTER TABLE trials ADD COLUMN side TEXT NOT NULL DEFAULT ''
  CHECK (side IN ('', 'profile', 'memory'));
CREATE INDEX trials_beside ON trials (sweep) WHERE side <> '';
)sql";

// Layouts of a sweep that has ended, measured again from time to time.
constexpr const char* remeasure_sql = R"sql(
-- when it is due, 0: never; how often it was done; whether the next time has begun; the snapshots
-- of the program as it was then and as it is now, empty: the sweep's own
ALTER TABLE sweeps ADD COLUMN remeasure_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN remeasured INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN remeasuring INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sweeps ADD COLUMN remeasured_was TEXT NOT NULL DEFAULT '';
ALTER TABLE sweeps ADD COLUMN remeasured_is TEXT NOT NULL DEFAULT '';
-- of a run of the layout of final_of: the time at which it is measured again, 0: it is no such run
ALTER TABLE trials ADD COLUMN again INTEGER NOT NULL DEFAULT 0;
-- the snapshot that it runs from; empty: the sweep's
ALTER TABLE trials ADD COLUMN software TEXT NOT NULL DEFAULT '';
)sql";

// What other databases have learnt.
constexpr const char* knowledge_sql = R"sql(
-- Files of knowledge that were imported. What was there when a sweep was submitted is what its
-- search learns from: a file that is forgotten stays as long as such a sweep is there.
CREATE TABLE knowledge (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL,     -- by its content
  imported_at  INTEGER NOT NULL,
  forgotten_at INTEGER NOT NULL DEFAULT 0,  -- 0: it is not
  text         TEXT NOT NULL      -- the file
) STRICT;
CREATE UNIQUE INDEX knowledge_by_name ON knowledge (name) WHERE forgotten_at = 0;
)sql";

// Axes and models of today's trainers.
constexpr const char* today_sql = R"sql(
-- ranks that split each expert (0: those of tp), layers of the first and last stage (0: even),
-- whether layers are CUDA graphs, what lies in the host's memory; then the model's shape: latents
-- of keys and values (0: plain attention) and of queries, the part of a head with a rotary
-- embedding, values of a head's values (0: head_dim), layers that predict later tokens
ALTER TABLE trials ADD COLUMN expert_tp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN first_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN last_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN cuda_graphs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN offload TEXT NOT NULL DEFAULT 'none';
ALTER TABLE trials ADD COLUMN kv_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN q_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN qk_rope_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN v_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trials ADD COLUMN mtp_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN expert_tp INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN first_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN last_stage_layers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN cuda_graphs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN offload TEXT NOT NULL DEFAULT 'none';
ALTER TABLE left_out ADD COLUMN kv_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN q_lora_rank INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN qk_rope_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN v_head_dim INTEGER NOT NULL DEFAULT 0;
ALTER TABLE left_out ADD COLUMN mtp_layers INTEGER NOT NULL DEFAULT 0;
)sql";

// Searches with finals run short at first unless their file says `first`; those of before go on
// in full.
constexpr const char* whole_runs_sql = R"sql(
UPDATE sweeps SET resolved = replace(resolved,
  '# timed train steps' || char(10) || '  finalists: ',
  '# timed train steps' || char(10) || '  first: 0' || char(10) || '  finalists: ');
)sql";

// Rankings leave out what was measured again, mostly nothing.
constexpr const char* again_index = "CREATE INDEX trials_again ON trials (sweep) WHERE again > 0;";

}  // namespace

std::span<const std::string> migrations() {
  static const std::array<std::string, 36> steps{schema_sql, learnt, ledger_sql, silence, paces_sql,
      controls_sql, network_sql, new_views, kept_outcomes, deletion_sql, lead_nodes_sql,
      control_time_sql, hold_sql, measured_sql, wall_clock_sql, counted_sql, served_sql,
      cut_short_sql, whole_labels, containers_sql, resolution_sql, finals_sql, code_sql, pace_sql,
      node_sets_sql, experts_sql, layout_sql, load_sql, checks_sql, startup_column, side_sql,
      remeasure_sql, knowledge_sql, today_sql, whole_runs_sql, again_index};
  return steps;
}

}  // namespace shardsweep::sqlite
