-- SPDX-License-Identifier: Apache-2.0
-- The database, version 1. Words are stored as text and never renamed; times are integer
-- microseconds since 1970-01-01 UTC, 0 or NULL where there is none yet; booleans are 0 | 1.
-- Written by the daemon alone. What later versions add stands in migrations.cpp; this text stays
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
  submitted_at   INTEGER NOT NULL   -- time of the last submission
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
  global_batch      INTEGER NOT NULL
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
  ended_at       INTEGER NOT NULL DEFAULT 0
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
  detail               TEXT NOT NULL   -- the result record as it was written
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
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
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
