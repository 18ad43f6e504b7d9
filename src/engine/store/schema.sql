-- SPDX-License-Identifier: Apache-2.0
-- The database, format 30. Words are stored as text and never renamed; times are integer
-- microseconds since 1970-01-01 UTC, 0 or NULL where there is none yet; booleans are 0 | 1.
-- Written by the daemon alone. What later formats add stands in migrations.cpp; this text stays
-- as it is.

-- One row per sweep name; an edited file submitted again is the same row.
CREATE TABLE sweeps (
  id             INTEGER PRIMARY KEY,
  name           TEXT NOT NULL UNIQUE,
  state          TEXT NOT NULL CHECK (state IN ('active', 'paused', 'cancelled')),
  source         TEXT NOT NULL,     -- the user's file, as it was at the last submission
  resolved       TEXT NOT NULL,     -- the complete sweep file: presets and defaults written out
  resolved_hash  TEXT NOT NULL,     -- of `resolved`
  backend        TEXT NOT NULL,     -- local | slurm, as chosen at the last submission
  site           TEXT NOT NULL,     -- how the cluster is reached: the complete site file; empty: not needed
  job_template   TEXT NOT NULL,     -- of the job script, as it was at the last submission; empty: not needed
  cluster        TEXT NOT NULL,     -- name of the cluster preset
  runner         TEXT NOT NULL,     -- name of the runner
  runner_version TEXT NOT NULL,     -- as its capabilities said at the last submission
  vars           TEXT NOT NULL CHECK (json_valid(vars)),  -- names of the free axes, JSON array
  points         INTEGER NOT NULL,  -- of the grid
  duplicates     INTEGER NOT NULL,  -- points that the file names more than once
  left_out       TEXT NOT NULL CHECK (json_valid(left_out)),  -- how many by constraint: {"memory": 12}
  revision       INTEGER NOT NULL,  -- counts submissions from 1
  submission     TEXT NOT NULL,     -- nonce of the last one taken over
  report         TEXT NOT NULL CHECK (json_valid(report)),    -- what the last one changed
  submitted_at   INTEGER NOT NULL,   -- time of the last submission
  -- allocations in a row that ended before anything had started in them; of those, by nodes that failed
  failed_starts INTEGER NOT NULL DEFAULT 0,
  failed_nodes INTEGER NOT NULL DEFAULT 0,
  -- why nothing more is asked for; empty: nothing holds it
  held TEXT NOT NULL DEFAULT '',
  -- 0 | 1: parts of it are gone already; only `delete` may go on with it
  deleting INTEGER NOT NULL DEFAULT 0
) STRICT;

-- One row per point to be measured. The columns from `model` to `overlap` are the axes, by name.
CREATE TABLE trials (
  id                INTEGER PRIMARY KEY,
  sweep             INTEGER NOT NULL REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,
  slug              TEXT NOT NULL,     -- readable name
  identity          TEXT NOT NULL,     -- hash of what makes its number
  lane              TEXT NOT NULL,     -- trials that differ in micro-batch and repeat alone
  position          INTEGER NOT NULL,  -- order in which to run
  model             TEXT NOT NULL,     -- name
  nodes             INTEGER NOT NULL,  -- 0: a world smaller than a node
  gpus              INTEGER NOT NULL,  -- size of the world
  seq_len           INTEGER NOT NULL,
  dtype             TEXT NOT NULL,
  dp                INTEGER NOT NULL,
  tp                INTEGER NOT NULL,
  pp                INTEGER NOT NULL,
  cp                INTEGER NOT NULL,  -- reserved: 1
  ep                INTEGER NOT NULL,  -- reserved: 1
  vpp               INTEGER NOT NULL,  -- reserved: 1
  dp_replicate      INTEGER NOT NULL,
  micro_batch       INTEGER NOT NULL,
  grad_accum        INTEGER NOT NULL,
  zero              INTEGER NOT NULL,
  recompute         TEXT NOT NULL,
  sequence_parallel INTEGER NOT NULL,  -- 0 | 1
  schedule          TEXT NOT NULL,
  rank_order        TEXT NOT NULL,
  bucket_mb         INTEGER NOT NULL,
  overlap           INTEGER NOT NULL,  -- 0 | 1
  repeat            INTEGER NOT NULL,  -- 1 .. measure.repeats
  vars              TEXT NOT NULL CHECK (json_valid(vars)),  -- free axes: {"nccl_nvls": 1}
  layers            INTEGER NOT NULL,  -- the model's shape, as far as filters use it
  hidden_size       INTEGER NOT NULL,  -- `hidden` in expressions
  ffn               INTEGER NOT NULL,
  heads             INTEGER NOT NULL,
  kv_heads          INTEGER NOT NULL,
  vocab             INTEGER NOT NULL,
  global_batch      INTEGER NOT NULL,  -- samples per train step
  runner            TEXT NOT NULL,     -- name; part of the identity, as its version
  runner_version    TEXT NOT NULL,
  predicted_memory_bytes         INTEGER NOT NULL,  -- per rank
  predicted_train_step_s         REAL NOT NULL,     -- 0: unknown
  predicted_attempt_s            REAL NOT NULL,     -- start-up to the end
  predicted_tokens_per_s_per_gpu REAL NOT NULL,     -- 0: unknown
  hidden            INTEGER NOT NULL DEFAULT 0 CHECK (hidden IN (0, 1)),  -- 1: the edited file no longer has it
  state             TEXT NOT NULL DEFAULT 'planned' CHECK (state IN ('planned', 'queued', 'running', 'ended')),
  outcome           TEXT CHECK (outcome IN ('completed', 'oom', 'hung', 'timeout', 'node_failure', 'comm_error',
                      'preempted', 'crashed', 'reaped', 'cancelled', 'rejected', 'lost', 'skipped')),
  cause             TEXT NOT NULL DEFAULT '',           -- the first evidence for the outcome
  charged           INTEGER NOT NULL DEFAULT 0,         -- failed attempts that count against it
  elsewhere         INTEGER NOT NULL DEFAULT 0,         -- failed attempts that do not
  attempts          INTEGER NOT NULL DEFAULT 0,         -- number of the last attempt
  -- Not ended: the outcome before it was run again, with its cause. It holds until a new one is durable.
  prior TEXT
    CHECK (prior IN ('completed', 'oom', 'hung', 'timeout', 'node_failure', 'comm_error',
    'preempted', 'crashed', 'reaped', 'cancelled', 'rejected', 'lost', 'skipped')),
  prior_cause TEXT NOT NULL DEFAULT '',
  -- Who cancelled it; empty: nobody, or the scheduler.
  cancelled_by TEXT NOT NULL DEFAULT ''
    CHECK (cancelled_by IN ('', 'sweep', 'name', 'budget')),
  -- of the counted attempt, from its own row and its measurement; NULL: there is none
  counted_attempt INTEGER,
  counted_mark TEXT,
  counted_speed REAL,  -- tokens_per_s_per_gpu
  -- 0 | 1: its outcome oom was fragmentation; after that it runs with expandable_segments:True
  fragmented INTEGER NOT NULL DEFAULT 0 CHECK (fragmented IN (0, 1)),
  expandable INTEGER NOT NULL DEFAULT 0 CHECK (expandable IN (0, 1)),
  -- of a run in the finals of its cell: the trial that brought its layout there; NULL: it is none
  final_of INTEGER,
  -- its round, from 1; 0: it is none
  final_round INTEGER NOT NULL DEFAULT 0,
  -- the difference below which layouts are the same, as measure.resolve was when it was planned
  final_resolve REAL NOT NULL DEFAULT 0,
  -- the counted attempt's
  counted_code TEXT NOT NULL DEFAULT '',
  -- of a run in finals: the set of nodes that it is run on, from 1
  final_set INTEGER NOT NULL DEFAULT 0,
  -- how many of them there are to be, as measure.node_sets was when it was planned
  final_sets INTEGER NOT NULL DEFAULT 1,
  -- nodes of the sets before, with commas
  final_avoid TEXT NOT NULL DEFAULT '',
  -- how the ranks of cp share attention; then the model's shape: values of a head (0: hidden / heads),
  -- experts of each layer (0: dense), those that a token goes through, their width, those that each
  -- token goes through, first layers without
  cp_mode TEXT NOT NULL DEFAULT 'ring',
  head_dim INTEGER NOT NULL DEFAULT 0,
  experts INTEGER NOT NULL DEFAULT 0,
  experts_per_token INTEGER NOT NULL DEFAULT 0,
  expert_ffn INTEGER NOT NULL DEFAULT 0,
  shared_experts INTEGER NOT NULL DEFAULT 0,
  dense_layers INTEGER NOT NULL DEFAULT 0,
  -- in words, as when it was submitted: "dp4 tp2 pp1 mb2 ga4 z1 full sp"
  layout TEXT NOT NULL DEFAULT '',
  CHECK ((state = 'ended') = (outcome IS NOT NULL)),
  UNIQUE (sweep, identity),
  UNIQUE (sweep, slug)
) STRICT;
CREATE INDEX trials_by_slug ON trials (slug);

-- Holds all that status counts.
CREATE INDEX trials_by_state ON trials (sweep, hidden, state, outcome);

-- Tells at once whether anything is repeated.
CREATE INDEX trials_repeated ON trials (sweep) WHERE repeat > 1;

-- Points that will not run, with the reason: the first limits.max_stored_left_out of the last
-- submission. Columns as in trials.
CREATE TABLE left_out (
  id                INTEGER PRIMARY KEY,
  sweep             INTEGER NOT NULL REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,
  constraint_name   TEXT NOT NULL,     -- short: heads, memory, exclude, runner:tp
  why               TEXT NOT NULL,     -- a sentence with the numbers
  model             TEXT NOT NULL,
  nodes             INTEGER NOT NULL,
  gpus              INTEGER NOT NULL,
  seq_len           INTEGER NOT NULL,
  dtype             TEXT NOT NULL,
  dp                INTEGER NOT NULL,
  tp                INTEGER NOT NULL,
  pp                INTEGER NOT NULL,
  cp                INTEGER NOT NULL,  -- reserved: 1
  ep                INTEGER NOT NULL,  -- reserved: 1
  vpp               INTEGER NOT NULL,  -- reserved: 1
  dp_replicate      INTEGER NOT NULL,
  micro_batch       INTEGER NOT NULL,
  grad_accum        INTEGER NOT NULL,
  zero              INTEGER NOT NULL,
  recompute         TEXT NOT NULL,
  sequence_parallel INTEGER NOT NULL,  -- 0 | 1
  schedule          TEXT NOT NULL,
  rank_order        TEXT NOT NULL,
  bucket_mb         INTEGER NOT NULL,
  overlap           INTEGER NOT NULL,  -- 0 | 1
  repeat            INTEGER NOT NULL,
  vars              TEXT NOT NULL CHECK (json_valid(vars)),
  layers            INTEGER NOT NULL,
  hidden_size       INTEGER NOT NULL,
  ffn               INTEGER NOT NULL,
  heads             INTEGER NOT NULL,
  kv_heads          INTEGER NOT NULL,
  vocab             INTEGER NOT NULL,
  global_batch      INTEGER NOT NULL,
  cp_mode TEXT NOT NULL DEFAULT 'ring',
  head_dim INTEGER NOT NULL DEFAULT 0,
  experts INTEGER NOT NULL DEFAULT 0,
  experts_per_token INTEGER NOT NULL DEFAULT 0,
  expert_ffn INTEGER NOT NULL DEFAULT 0,
  shared_experts INTEGER NOT NULL DEFAULT 0,
  dense_layers INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX left_out_by_sweep ON left_out (sweep);

-- One row per scheduler job, committed before it is submitted.
CREATE TABLE allocations (
  id             INTEGER PRIMARY KEY,
  sweep          INTEGER REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,  -- NULL: none
  token          TEXT NOT NULL UNIQUE,  -- by which the job is known again
  job_name       TEXT NOT NULL,     -- readable, ends with the token
  job_id         TEXT NOT NULL,     -- the scheduler's; empty: not known (yet)
  dir            TEXT NOT NULL,     -- folder of the two files between daemon and lead
  backend        TEXT NOT NULL,     -- local, slurm
  nodes          INTEGER NOT NULL,
  slots_per_node INTEGER NOT NULL,  -- ranks per node at most
  state          TEXT NOT NULL CHECK (state IN ('planned', 'queued', 'running', 'ended')),
  submission     TEXT NOT NULL CHECK (submission IN ('committed', 'accepted', 'unknown', 'refused')),
  job_state      TEXT NOT NULL CHECK (job_state IN ('pending', 'running', 'ended', 'unknown')),  -- as the scheduler said last
  created_at     INTEGER NOT NULL,
  claimed_at     INTEGER NOT NULL,  -- 0: no lead has claimed it
  last_beat      INTEGER NOT NULL,  -- time of the lead's last line
  from_lead_n    INTEGER NOT NULL,  -- number of the lead's last line that is folded in
  said_bye       INTEGER NOT NULL,  -- 0 | 1: the lead left by itself
  draining       INTEGER NOT NULL,  -- 0 | 1: gets no new attempts
  end_reason     TEXT NOT NULL,
  end_outcome    TEXT NOT NULL,     -- what its end means for what ran in it; empty: nothing
  time_limit_s   REAL NOT NULL,     -- wall time asked for; 0: none
  detail         TEXT NOT NULL,     -- the scheduler's last words about it, with advice
  host           TEXT NOT NULL DEFAULT '',     -- of the lead
  pid            INTEGER NOT NULL DEFAULT 0,   -- of the lead
  pid_start      INTEGER NOT NULL DEFAULT 0,   -- field 22 of /proc/PID/stat
  ended_at       INTEGER NOT NULL DEFAULT 0,
  -- 0 | 1: an attempt has started in it; its lead gave attempts back that nobody had asked back
  started INTEGER NOT NULL DEFAULT 0,
  gave_back INTEGER NOT NULL DEFAULT 0,
  -- answers "not now" to its submission, in a row; 0, or until when it is in no queue by such an answer
  deferrals INTEGER NOT NULL DEFAULT 0,
  submit_after INTEGER NOT NULL DEFAULT 0,
  -- times that it was submitted again because no job of it was there
  resubmissions INTEGER NOT NULL DEFAULT 0,
  -- what the last looks have not found, and since when
  missing TEXT NOT NULL DEFAULT ''
    CHECK (missing IN ('', 'job', 'account')),
  missing_since INTEGER NOT NULL DEFAULT 0,
  -- 0, or since when its job was seen to run
  running_since INTEGER NOT NULL DEFAULT 0,
  -- 0, or by when it has ended or does not start
  deadline INTEGER NOT NULL DEFAULT 0,
  -- 0, or since when its lead was found silent
  quiet_since INTEGER NOT NULL DEFAULT 0,
  -- 0, or since when the control runs that was started last in it
  control_since INTEGER NOT NULL DEFAULT 0,
  -- who keeps its job from running: its submission or its user, or a suspension; empty: nobody
  hold TEXT NOT NULL DEFAULT ''
    CHECK (hold IN ('', 'user', 'suspended')),
  -- the set of nodes that it is for, and nodes that it must not have; 0, empty: it is for all else
  final_set INTEGER NOT NULL DEFAULT 0,
  avoid TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX allocations_open ON allocations (id) WHERE state <> 'ended';
CREATE INDEX allocations_by_job ON allocations (job_id) WHERE job_id <> '';

-- One row per try at a trial; a retry is a new one.
CREATE TABLE attempts (
  id         INTEGER PRIMARY KEY,
  trial      INTEGER NOT NULL REFERENCES trials DEFERRABLE INITIALLY DEFERRED,
  number     INTEGER NOT NULL,     -- counts from 1 per trial
  allocation INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  nonce      TEXT NOT NULL UNIQUE, -- its records carry it
  dir        TEXT NOT NULL,        -- its folder; when it is over, <dir>.tar
  state      TEXT NOT NULL CHECK (state IN ('planned', 'queued', 'running', 'ended')),
  outcome    TEXT CHECK (outcome IN ('completed', 'oom', 'hung', 'timeout', 'node_failure', 'comm_error',
               'preempted', 'crashed', 'reaped', 'cancelled', 'rejected', 'lost', 'skipped')),
  counted    INTEGER NOT NULL DEFAULT 0 CHECK (counted IN (0, 1)),  -- 1: the trial's measurement
  revoked    INTEGER NOT NULL DEFAULT 0 CHECK (revoked IN (0, 1)),  -- 1: a result is kept and not counted
  exit_code  INTEGER NOT NULL DEFAULT -1,  -- of the rank that failed first; -1: none
  signal     INTEGER NOT NULL DEFAULT 0,
  cause      TEXT NOT NULL DEFAULT '',     -- the first evidence, one line
  source     TEXT NOT NULL DEFAULT '',     -- who said it: runner, exit, agent, policy, request
  leaked     INTEGER NOT NULL DEFAULT 0,   -- processes that outlived their ranks
  started_at INTEGER NOT NULL DEFAULT 0,
  ended_at   INTEGER NOT NULL DEFAULT 0,
  node TEXT NOT NULL DEFAULT '',  -- where the first cause was seen
  also TEXT NOT NULL DEFAULT '',  -- what contradicts the outcome
  -- the fastest trial of its cell when it was assigned; NULL: it runs to its end
  leader INTEGER,
  -- ms of a train step with this trial's batch: that trial's, and the bound; 0: none
  leader_step_ms REAL NOT NULL DEFAULT 0,
  give_up_above_ms REAL NOT NULL DEFAULT 0,
  fragmented INTEGER NOT NULL DEFAULT 0 CHECK (fragmented IN (0, 1)),
  expandable INTEGER NOT NULL DEFAULT 0 CHECK (expandable IN (0, 1)),
  -- what the first rank found in its environment, a JSON object; empty: not known
  environment TEXT NOT NULL DEFAULT '',
  -- of its container's image; unknown: its runtime tells none; empty: it had no container
  image_digest TEXT NOT NULL DEFAULT '',
  -- hash of the user's own programs, or of the snapshot that they were in; empty: not known
  code_hash TEXT NOT NULL DEFAULT '',
  others_cpu REAL NOT NULL DEFAULT 0,
  CHECK (outcome IS NULL OR state = 'ended'),
  CHECK (counted = 0 OR (outcome = 'completed' AND revoked = 0)),
  UNIQUE (trial, number)
) STRICT;
-- The promise: every trial is counted once. `counted` is in the index so that `results` finds
-- a trial's measurement without a look at the attempt.
CREATE UNIQUE INDEX attempts_counted ON attempts (trial, counted) WHERE counted = 1;
CREATE INDEX attempts_open ON attempts (trial) WHERE state <> 'ended';
CREATE INDEX attempts_by_allocation ON attempts (allocation);

-- One row per attempt with a durable result record. The columns from `tokens_per_s_per_gpu` to
-- `warmup` are the metrics, by name and in their units (include/shardsweep/metric.hpp).
CREATE TABLE measurements (
  attempt              INTEGER PRIMARY KEY REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  trial                INTEGER NOT NULL REFERENCES trials DEFERRABLE INITIALLY DEFERRED,
  tokens_per_s_per_gpu REAL,     -- tokens/s/GPU; what layouts are ranked by
  tokens_per_s         REAL,     -- tokens/s
  train_step_ms        REAL,     -- ms, median
  train_step_ms_min    REAL,     -- ms
  train_step_ms_p95    REAL,     -- ms
  train_step_ms_spread REAL,     -- 1: (p95 - min) / median
  mfu                  REAL,     -- 1
  tflops_per_gpu       REAL,     -- TFLOP/s
  peak_memory_bytes    INTEGER,  -- B, maximum over the ranks
  loss                 REAL,     -- nat
  tokens_per_step      INTEGER,  -- tokens
  n_params             INTEGER,  -- 1
  steps                INTEGER,  -- timed train steps
  warmup               INTEGER,  -- train steps before them
  mark                 TEXT CHECK (mark IN ('contaminated', 'implausible')),  -- kept, not ranked; NULL: none
  flops_model          TEXT NOT NULL,  -- name of the FLOPs formula behind mfu
  runner_version       TEXT NOT NULL,  -- as the start record says
  software             TEXT NOT NULL CHECK (json_valid(software)),  -- what else it says it ran: {"nccl": "2.28.9"}
  hosts                TEXT NOT NULL CHECK (json_valid(hosts)),     -- JSON array
  detail               TEXT NOT NULL,   -- the result record as it was written
  -- 1: ended early, as it was slower than its cell's best by more than search.cut_short: its speed
  -- is a bound, kept and not ranked
  cut_short INTEGER NOT NULL DEFAULT 0
    CHECK (cut_short IN (0, 1)),
  -- what tensors had, and what the allocator held from the device; NULL: not told
  peak_allocated_bytes INTEGER,
  peak_reserved_bytes INTEGER,
  -- variables of the first rank that change numbers, as it found them: "NAME=value NAME=value"
  settings TEXT NOT NULL DEFAULT '',
  -- share of the speed that the log rounds away; NULL: nothing
  resolution REAL,
  -- MHz, while it trained; NULL: not told
  sm_clock_mhz REAL,
  -- W of a GPU, while it trained; NULL: not told
  power_w REAL,
  -- what held its clock back, in words; empty: nothing, or it is not told
  throttled TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX measurements_by_trial ON measurements (trial);

-- Timed train steps of an attempt: a compact tree without rowids.
CREATE TABLE train_steps (
  attempt INTEGER NOT NULL REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  step    INTEGER NOT NULL,
  step_ms REAL NOT NULL,
  loss    REAL,
  PRIMARY KEY (attempt, step)
) STRICT, WITHOUT ROWID;

-- Nodes that have run something of ours.
CREATE TABLE nodes (
  node       TEXT NOT NULL,     -- as the scheduler calls it
  host       TEXT NOT NULL,     -- as it calls itself
  first_seen INTEGER NOT NULL,
  last_seen  INTEGER NOT NULL,
  PRIMARY KEY (node, host)
) STRICT, WITHOUT ROWID;

-- What happened, in order; append-only.
CREATE TABLE events (
  id         INTEGER PRIMARY KEY,
  at         INTEGER NOT NULL,
  sweep      INTEGER REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,
  trial      INTEGER REFERENCES trials DEFERRABLE INITIALLY DEFERRED,
  attempt    INTEGER REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  allocation INTEGER REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  kind       TEXT NOT NULL,     -- one word: submitted, claimed, started, ended, skipped, …
  detail     TEXT NOT NULL      -- one line
) STRICT;
CREATE INDEX events_by_sweep ON events (sweep);
CREATE INDEX events_by_trial ON events (trial) WHERE trial IS NOT NULL;
CREATE INDEX events_by_allocation ON events (allocation) WHERE allocation IS NOT NULL;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'events are append-only'); END;

-- Who may write: a single row. The epoch grows with every takeover and never shrinks.
CREATE TABLE lease (
  id        INTEGER PRIMARY KEY CHECK (id = 1),
  held      INTEGER NOT NULL CHECK (held IN (0, 1)),  -- 0: given back
  epoch     INTEGER NOT NULL,  -- 0: never held
  host      TEXT NOT NULL,
  boot_id   TEXT NOT NULL,     -- /proc/sys/kernel/random/boot_id
  pid       INTEGER NOT NULL,
  pid_start INTEGER NOT NULL,  -- field 22 of /proc/PID/stat
  since     INTEGER NOT NULL,
  renewed   INTEGER NOT NULL
) STRICT;
INSERT INTO lease VALUES (1, 0, 0, '', '', 0, 0, 0, 0);
CREATE INDEX attempts_by_node ON attempts (node) WHERE node <> '';

-- Which nodes an allocation had, as its agents said.
CREATE TABLE allocation_nodes (
  node       TEXT NOT NULL,
  allocation INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  has_lead INTEGER NOT NULL DEFAULT 0,
  -- switches or blocks above the node, the top one first: "core.leaf"; empty: not known
  switches TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (node, allocation)
) STRICT, WITHOUT ROWID;
CREATE INDEX allocation_nodes_by_allocation ON allocation_nodes (allocation);

-- What speaks against nodes.
CREATE TABLE node_evidence (
  id      INTEGER PRIMARY KEY,
  node    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  kind    TEXT NOT NULL,     -- silent, lost, hardware, dirty, failed, suspect, or an outcome
  trial   INTEGER REFERENCES trials DEFERRABLE INITIALLY DEFERRED,
  attempt INTEGER REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  detail  TEXT NOT NULL,
  counts  INTEGER NOT NULL DEFAULT 1 CHECK (counts IN (0, 1)),  -- 0: the node has come back since
  -- Beside its peers in one attempt: kinds 'slower' and 'on pace', which lead to 'slow'.
  ratio REAL NOT NULL DEFAULT 0,  -- own time over theirs; 0: not compared
  peers TEXT NOT NULL DEFAULT ''  -- some of them, with commas
) STRICT;
CREATE INDEX node_evidence_by_node ON node_evidence (node);
CREATE INDEX node_evidence_that_counts ON node_evidence (id) WHERE counts = 1;

-- Nodes that are, or have been, out.
CREATE TABLE node_states (
  node          TEXT PRIMARY KEY,
  state         TEXT NOT NULL CHECK (state IN ('trusted', 'quarantined', 'probation')),
  since         INTEGER NOT NULL,
  until         INTEGER NOT NULL,  -- quarantined: when it is tried again
  reason        TEXT NOT NULL,
  failed_probes INTEGER NOT NULL   -- in a row
) STRICT, WITHOUT ROWID;

-- Allocations made to try a node again with a short run.
CREATE TABLE probes (
  allocation INTEGER PRIMARY KEY REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  node       TEXT NOT NULL,
  outcome    TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'passed', 'failed')),
  cause      TEXT NOT NULL DEFAULT '',
  ended_at   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX probes_by_node ON probes (node);

-- Append-only while their sweep is there.
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM sweeps WHERE id = old.sweep AND deleting = 0) OR
  (old.sweep IS NULL AND old.trial IS NULL AND old.allocation IS NULL)
BEGIN SELECT raise(ABORT, 'events are append-only'); END;

-- What deleting an attempt or an allocation costs: SQLite searches each table that refers to it.
CREATE INDEX events_by_attempt ON events (attempt) WHERE attempt IS NOT NULL;
CREATE INDEX node_evidence_by_attempt ON node_evidence (attempt) WHERE attempt IS NOT NULL;
CREATE INDEX node_evidence_by_trial ON node_evidence (trial) WHERE trial IS NOT NULL;
CREATE INDEX allocations_by_sweep ON allocations (sweep) WHERE sweep IS NOT NULL;

-- A result is compared with those of its like.
CREATE INDEX trials_measured ON trials (sweep, model, seq_len, dtype, global_batch)
  WHERE outcome = 'completed';

-- How far the wall clock was ahead of the steady one of that boot, in microseconds: a single row.
CREATE TABLE wall_clock (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  boot_id TEXT NOT NULL,
  ahead   INTEGER NOT NULL
) STRICT;
INSERT INTO wall_clock VALUES (1, '', 0);

-- What a trial is ranked by stands in its row too, whoever writes the other two tables: a heatmap of a
-- million trials reads one index.
CREATE TRIGGER counted_no_more AFTER UPDATE OF counted ON attempts
WHEN new.counted = 0 AND old.counted = 1
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (NULL, NULL, NULL)
  WHERE id = old.trial AND counted_attempt = old.id;
END;
CREATE TRIGGER counted_gone AFTER DELETE ON attempts WHEN old.counted = 1
BEGIN UPDATE trials SET (counted_attempt, counted_mark, counted_speed) = (NULL, NULL, NULL)
  WHERE id = old.trial AND counted_attempt = old.id;
END;
CREATE TRIGGER counted_unmeasured AFTER DELETE ON measurements
BEGIN UPDATE trials SET (counted_mark, counted_speed) = (NULL, NULL)
  WHERE id = old.trial AND counted_attempt = old.attempt;
END;

-- The order in which results are listed.
CREATE INDEX trials_by_position ON trials (sweep, position);

-- Requests of commands that are done. The last ones: those before them are answered.
CREATE TABLE served_requests (
  n      INTEGER PRIMARY KEY,
  id     TEXT NOT NULL UNIQUE,  -- the request file's name
  at     INTEGER NOT NULL,
  answer TEXT NOT NULL CHECK (json_valid(answer))
) STRICT;
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
CREATE INDEX trials_final ON trials (sweep, final_of) WHERE final_of IS NOT NULL;
CREATE TRIGGER counted_code_in AFTER INSERT ON attempts WHEN new.counted = 1
BEGIN UPDATE trials SET counted_code = new.code_hash WHERE id = new.trial; END;
CREATE TRIGGER counted_code_now AFTER UPDATE OF counted, code_hash ON attempts
WHEN new.counted = 1
BEGIN UPDATE trials SET counted_code = new.code_hash WHERE id = new.trial; END;

-- Holds all that is ranked, cell by cell, and the usual axes of heatmaps. Within a cell it has
-- the order of the measurements, for what is not in it.
CREATE INDEX trials_ranked ON trials (model, seq_len, nodes, gpus, counted_attempt,
  counted_speed, counted_mark, runner, runner_version, counted_code, hidden, sweep, state,
  outcome, vars, dp, tp, pp, micro_batch, grad_accum, zero, recompute);

-- The sweep's fixed layout in an allocation, before and after what it measures, and the check of each
-- node, the allocation's first act.
CREATE TABLE controls (
  allocation     INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  time           TEXT NOT NULL CHECK (time IN ('start', 'end', 'check')),
  node           TEXT NOT NULL,  -- whose check it is; empty: a control on all nodes
  sweep          INTEGER NOT NULL REFERENCES sweeps DEFERRABLE INITIALLY DEFERRED,
  nodes          INTEGER NOT NULL,
  tokens_per_s   REAL NOT NULL,  -- per GPU; 0: it was not measured
  ratio          REAL NOT NULL,  -- to the median of the sweep's on as many nodes; 0: not known
  busbw_bytes_per_s REAL NOT NULL,  -- of its probe of the network; 0: not measured
  network_ratio  REAL NOT NULL,  -- as ratio
  gpu_seconds    REAL NOT NULL,  -- that it took
  cause          TEXT NOT NULL,  -- why it was not measured, or why the node has failed
  at             INTEGER NOT NULL,
  device         TEXT NOT NULL,  -- from here on of a check: the model of GPUs, or of the CPU
  gemm_flops     REAL NOT NULL,  -- FLOP/s of matrix products; 0: not measured
  sm_clock_mhz   REAL NOT NULL,  -- meanwhile; 0: not told
  host_free      REAL NOT NULL,  -- share of the host's memory; -1: not told
  gpu_used_bytes REAL NOT NULL,  -- of the GPU with the most; -1: not told
  seconds        REAL NOT NULL,  -- that it took
  unmade         TEXT NOT NULL,  -- checks that could not be made, and why
  blamed         INTEGER NOT NULL,  -- 1: the node has failed, not its site
  PRIMARY KEY (allocation, time, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX controls_by_sweep ON controls (sweep);
