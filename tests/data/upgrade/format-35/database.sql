BEGIN TRANSACTION;
CREATE TABLE allocation_nodes (
  node       TEXT NOT NULL,
  allocation INTEGER NOT NULL REFERENCES allocations DEFERRABLE INITIALLY DEFERRED, has_lead INTEGER NOT NULL DEFAULT 0, switches TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (node, allocation)
) STRICT, WITHOUT ROWID;
INSERT INTO "allocation_nodes" VALUES('local',1,0,'');
INSERT INTO "allocation_nodes" VALUES('local',2,0,'');
INSERT INTO "allocation_nodes" VALUES('local',3,0,'');
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
, started INTEGER NOT NULL DEFAULT 0, gave_back INTEGER NOT NULL DEFAULT 0, deferrals INTEGER NOT NULL DEFAULT 0, submit_after INTEGER NOT NULL DEFAULT 0, resubmissions INTEGER NOT NULL DEFAULT 0, missing TEXT NOT NULL DEFAULT ''
  CHECK (missing IN ('', 'job', 'account')), missing_since INTEGER NOT NULL DEFAULT 0, running_since INTEGER NOT NULL DEFAULT 0, deadline INTEGER NOT NULL DEFAULT 0, quiet_since INTEGER NOT NULL DEFAULT 0, control_since INTEGER NOT NULL DEFAULT 0, hold TEXT NOT NULL DEFAULT ''
  CHECK (hold IN ('', 'user', 'suspended')), final_set INTEGER NOT NULL DEFAULT 0, avoid TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "allocations" VALUES(1,1,'cca15bc8e8d5','ended-n1_cca15bc8e8d5','@HOST@/17836/1710659','@WORK@/test.db.d/allocations/cca15bc8e8d5','local',1,4,'ended','accepted','ended',1795883256084690,1795883256114831,1795883256704870,10,1,1,'drained','',900.0,'the lead''s process is gone','@HOST@',17836,1710659,1795883257174420,1,0,0,0,0,'',0,0,0,0,0,'',0,'');
INSERT INTO "allocations" VALUES(2,1,'22dd34bb252e','ended-n1_22dd34bb252e','@HOST@/17870/1710769','@WORK@/test.db.d/allocations/22dd34bb252e','local',1,4,'ended','accepted','ended',1795883257174437,1795883257202428,1795883257915235,10,1,1,'drained','',900.0,'the lead''s process is gone','@HOST@',17870,1710769,1795883258207787,1,0,0,0,0,'',0,0,0,0,0,'',0,'');
INSERT INTO "allocations" VALUES(3,1,'0556ef597399','ended-n1_0556ef597399','@HOST@/17915/1710874','@WORK@/test.db.d/allocations/0556ef597399','local',1,4,'running','accepted','running',1795883258207804,1795883258244736,1795883258451457,6,0,0,'','',900.0,'','@HOST@',17915,1710874,0,1,0,0,0,0,'',0,0,0,0,0,'',0,'');
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
  ended_at   INTEGER NOT NULL DEFAULT 0, node TEXT NOT NULL DEFAULT '', also TEXT NOT NULL DEFAULT '', leader INTEGER, leader_step_ms REAL NOT NULL DEFAULT 0, give_up_above_ms REAL NOT NULL DEFAULT 0, fragmented INTEGER NOT NULL DEFAULT 0 CHECK (fragmented IN (0, 1)), expandable INTEGER NOT NULL DEFAULT 0 CHECK (expandable IN (0, 1)), environment TEXT NOT NULL DEFAULT '', image_digest TEXT NOT NULL DEFAULT '', code_hash TEXT NOT NULL DEFAULT '', others_cpu REAL NOT NULL DEFAULT 0,
  CHECK (outcome IS NULL OR state = 'ended'),
  CHECK (counted = 0 OR (outcome = 'completed' AND revoked = 0)),
  UNIQUE (trial, number)
) STRICT;
INSERT INTO "attempts" VALUES(1,1,1,1,'0dd29422fce782f900e92e8689a51e31','@WORK@/test.db.d/attempts/1.tiny-g1-dp1tp1pp1-mb1ga1-s32-fp32-k.0-d9d2c9.1.0dd29422','ended','completed',1,0,0,0,'','runner',0,1795883256357147,1795883256444077,'','',NULL,0.0,0.0,0,0,'{"CUDA_HOME":"/usr/local/cuda","K":"0","LOCAL_RANK":"0","LOCAL_WORLD_SIZE":"1","OMP_NUM_THREADS":"1","OPENBLAS_NUM_THREADS":"1","PATH":"/usr/bin:/bin","RANK":"0","SHARDSWEEP_MARKER":"cca15bc8e8d5/1/local","WORLD_SIZE":"1"}','','e8039a00a877caeb16c6891c3801e1ad',0.0);
INSERT INTO "attempts" VALUES(2,2,1,2,'e5aa2a4fece40446bdb92721464073bb','@WORK@/test.db.d/attempts/1.tiny-g1-dp1tp1pp1-mb2ga1-s32-fp32-k.0-992b62.1.e5aa2a4f','ended','completed',1,0,0,0,'','runner',0,1795883257437959,1795883257517581,'','',NULL,0.0,0.0,0,0,'{"CUDA_HOME":"/usr/local/cuda","K":"0","LOCAL_RANK":"0","LOCAL_WORLD_SIZE":"1","OMP_NUM_THREADS":"1","OPENBLAS_NUM_THREADS":"1","PATH":"/usr/bin:/bin","RANK":"0","SHARDSWEEP_MARKER":"22dd34bb252e/2/local","WORLD_SIZE":"1"}','','e8039a00a877caeb16c6891c3801e1ad',0.0);
INSERT INTO "attempts" VALUES(3,3,1,3,'6ff5a63ca8a6a90793a896328d197db9','@WORK@/test.db.d/attempts/1.tiny-g1-dp1tp1pp1-mb1ga1-s32-fp32-k.0-d9d2c9-f1.1.6ff5a63c','running',NULL,0,0,-1,0,'','',0,1795883258451457,0,'','',NULL,0.0,0.0,0,0,'','','',0.0);
INSERT INTO "attempts" VALUES(4,4,1,3,'8f694121f0072382fad5cb254b0e54ab','@WORK@/test.db.d/attempts/1.tiny-g1-dp1tp1pp1-mb2ga1-s32-fp32-k.0-992b62-f1.1.8f694121','queued',NULL,0,0,-1,0,'','',0,0,0,'','',NULL,0.0,0.0,0,0,'','','',0.0);
CREATE TABLE "controls" (
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
INSERT INTO "controls" VALUES(1,'check','local',1,1,0.0,0.0,0.0,0.0,5.56645760079845786094e-02,'',1795883256135587,'AMD EPYC',0.0,0.0,-1.0,-1.0,1.39161440019961446523e-02,'',0);
INSERT INTO "controls" VALUES(1,'end','',1,1,12800.0,1.0,0.0,0.0,0.699792,'',1795883256662472,'',0.0,0.0,-1.0,-1.0,0.0,'',0);
INSERT INTO "controls" VALUES(1,'start','',1,1,12800.0,1.0,0.0,0.0,0.876688,'',1795883256356186,'',0.0,0.0,-1.0,-1.0,0.0,'',0);
INSERT INTO "controls" VALUES(2,'check','local',1,1,0.0,0.0,0.0,0.0,2.21653240005252882838e-02,'',1795883257218066,'AMD EPYC',0.0,0.0,-1.0,-1.0,5.54133100013132207095e-03,'',0);
INSERT INTO "controls" VALUES(2,'end','',1,1,12800.0,1.0,0.0,0.0,0.837456,'',1795883257868630,'',0.0,0.0,-1.0,-1.0,0.0,'',0);
INSERT INTO "controls" VALUES(2,'start','',1,1,12800.0,1.0,0.0,0.0,0.854884,'',1795883257432921,'',0.0,0.0,-1.0,-1.0,0.0,'',0);
INSERT INTO "controls" VALUES(3,'check','local',1,1,0.0,0.0,0.0,0.0,4.25883399875601753592e-02,'',1795883258264305,'AMD EPYC',0.0,0.0,-1.0,-1.0,1.06470849968900438398e-02,'',0);
INSERT INTO "controls" VALUES(3,'start','',1,1,12800.0,1.0,0.0,0.0,0.708264,'',1795883258448455,'',0.0,0.0,-1.0,-1.0,0.0,'',0);
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
INSERT INTO "events" VALUES(1,1795883256068347,1,NULL,NULL,NULL,'submitted','2 trials: 2 new, 0 known (0 with an outcome), 0 gone; 0 left out');
INSERT INTO "events" VALUES(2,1795883256099143,1,NULL,NULL,1,'submitted','ended-n1_cca15bc8e8d5 as @HOST@/17836/1710659');
INSERT INTO "events" VALUES(3,1795883256131828,1,NULL,NULL,1,'claimed','lead 17836 on @HOST@');
INSERT INTO "events" VALUES(4,1795883256364764,1,1,1,1,'started','');
INSERT INTO "events" VALUES(5,1795883256461605,1,1,1,1,'completed','');
INSERT INTO "events" VALUES(6,1795883257174420,1,NULL,NULL,1,'allocation ended','drained');
INSERT INTO "events" VALUES(7,1795883257197451,1,NULL,NULL,2,'submitted','ended-n1_22dd34bb252e as @HOST@/17870/1710769');
INSERT INTO "events" VALUES(8,1795883257220901,1,NULL,NULL,2,'claimed','lead 17870 on @HOST@');
INSERT INTO "events" VALUES(9,1795883257447143,1,2,2,2,'started','');
INSERT INTO "events" VALUES(10,1795883257535736,1,2,2,2,'completed','');
INSERT INTO "events" VALUES(11,1795883257832076,2,NULL,NULL,NULL,'submitted','2 trials: 2 new, 0 known (0 with an outcome), 0 gone; 0 left out');
INSERT INTO "events" VALUES(12,1795883258207787,1,NULL,NULL,2,'allocation ended','drained');
INSERT INTO "events" VALUES(13,1795883258241060,1,NULL,NULL,3,'submitted','ended-n1_0556ef597399 as @HOST@/17915/1710874');
INSERT INTO "events" VALUES(14,1795883258264738,1,NULL,NULL,3,'claimed','lead 17915 on @HOST@');
INSERT INTO "events" VALUES(15,1795883258479288,1,3,3,3,'started','');
CREATE TABLE knowledge (
  id           INTEGER PRIMARY KEY,
  name         TEXT NOT NULL,     -- by its content
  imported_at  INTEGER NOT NULL,
  forgotten_at INTEGER NOT NULL DEFAULT 0,  -- 0: it is not
  text         TEXT NOT NULL      -- the file
) STRICT;
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
INSERT INTO "lease" VALUES(1,1,1,'@HOST@','eab2fb3b-e1ae-439c-8614-859b5bb25899',17835,1710641,1795883256059680,1795883256066214);
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
, cp_mode TEXT NOT NULL DEFAULT 'ring', head_dim INTEGER NOT NULL DEFAULT 0, experts INTEGER NOT NULL DEFAULT 0, experts_per_token INTEGER NOT NULL DEFAULT 0, expert_ffn INTEGER NOT NULL DEFAULT 0, shared_experts INTEGER NOT NULL DEFAULT 0, dense_layers INTEGER NOT NULL DEFAULT 0, expert_tp INTEGER NOT NULL DEFAULT 0, first_stage_layers INTEGER NOT NULL DEFAULT 0, last_stage_layers INTEGER NOT NULL DEFAULT 0, cuda_graphs INTEGER NOT NULL DEFAULT 0, offload TEXT NOT NULL DEFAULT 'none', kv_lora_rank INTEGER NOT NULL DEFAULT 0, q_lora_rank INTEGER NOT NULL DEFAULT 0, qk_rope_head_dim INTEGER NOT NULL DEFAULT 0, v_head_dim INTEGER NOT NULL DEFAULT 0, mtp_layers INTEGER NOT NULL DEFAULT 0) STRICT;
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
, cut_short INTEGER NOT NULL DEFAULT 0
  CHECK (cut_short IN (0, 1)), peak_allocated_bytes INTEGER, peak_reserved_bytes INTEGER, settings TEXT NOT NULL DEFAULT '', resolution REAL, sm_clock_mhz REAL, power_w REAL, throttled TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "measurements" VALUES(1,1,3200.0,NULL,10.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'','1','{}','["@HOST@"]','{"type": "result", "run_id": "0dd29422fce782f900e92e8689a51e31", "t": 1795883256.416098, "tokens_per_s_per_gpu": 3200.0, "train_step_ms": 10.0}',0,NULL,NULL,'',NULL,NULL,NULL,'');
INSERT INTO "measurements" VALUES(2,2,3200.0,NULL,20.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'','1','{}','["@HOST@"]','{"type": "result", "run_id": "e5aa2a4fece40446bdb92721464073bb", "t": 1795883257.4965363, "tokens_per_s_per_gpu": 3200.0, "train_step_ms": 20.0}',0,NULL,NULL,'',NULL,NULL,NULL,'');
CREATE TABLE node_evidence (
  id      INTEGER PRIMARY KEY,
  node    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  kind    TEXT NOT NULL,     -- silent, lost, hardware, dirty, failed, suspect, or an outcome
  trial   INTEGER REFERENCES trials DEFERRABLE INITIALLY DEFERRED,
  attempt INTEGER REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  detail  TEXT NOT NULL,
  counts  INTEGER NOT NULL DEFAULT 1 CHECK (counts IN (0, 1))  -- 0: the node has come back since
, ratio REAL NOT NULL DEFAULT 0, peers TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE node_states (
  node          TEXT PRIMARY KEY,
  state         TEXT NOT NULL CHECK (state IN ('trusted', 'quarantined', 'probation')),
  since         INTEGER NOT NULL,
  until         INTEGER NOT NULL,  -- quarantined: when it is tried again
  reason        TEXT NOT NULL,
  failed_probes INTEGER NOT NULL   -- in a row
) STRICT, WITHOUT ROWID;
CREATE TABLE nodes (
  node       TEXT NOT NULL,     -- as the scheduler calls it
  host       TEXT NOT NULL,     -- as it calls itself
  first_seen INTEGER NOT NULL,
  last_seen  INTEGER NOT NULL,
  PRIMARY KEY (node, host)
) STRICT, WITHOUT ROWID;
INSERT INTO "nodes" VALUES('local','@HOST@',1795883256116938,1795883258247197);
CREATE TABLE probes (
  allocation INTEGER PRIMARY KEY REFERENCES allocations DEFERRABLE INITIALLY DEFERRED,
  node       TEXT NOT NULL,
  outcome    TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'passed', 'failed')),
  cause      TEXT NOT NULL DEFAULT '',
  ended_at   INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE served_requests (
  n      INTEGER PRIMARY KEY,
  id     TEXT NOT NULL UNIQUE,  -- the request file's name
  at     INTEGER NOT NULL,
  answer TEXT NOT NULL CHECK (json_valid(answer))
) STRICT;
INSERT INTO "served_requests" VALUES(1,'00001795883255906475-@HOST@-17833-1',1795883256080856,'{"counts":{"fresh":2,"gone":0,"known":0,"left_out":0,"measured":0,"resubmitted":0,"sweep":1,"trials":2},"text":"''ended'' submitted: 2 trials"}');
INSERT INTO "served_requests" VALUES(2,'00001795883257805373-@HOST@-17887-1',1795883257860165,'{"counts":{"fresh":2,"gone":0,"known":0,"left_out":0,"measured":0,"resubmitted":0,"sweep":2,"trials":2},"text":"''open'' submitted: 2 trials"}');
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
, failed_starts INTEGER NOT NULL DEFAULT 0, failed_nodes INTEGER NOT NULL DEFAULT 0, held TEXT NOT NULL DEFAULT '', deleting INTEGER NOT NULL DEFAULT 0, remeasure_at INTEGER NOT NULL DEFAULT 0, remeasured INTEGER NOT NULL DEFAULT 0, remeasuring INTEGER NOT NULL DEFAULT 0, remeasured_was TEXT NOT NULL DEFAULT '', remeasured_is TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "sweeps" VALUES(1,'ended','active','# SPDX-License-Identifier: Apache-2.0
# What upgrades are tested with: a control, a check of nodes, finals, and trials that stand still. It is submitted a second time,
# under another name with another value of k.
name: ended
cluster: {preset: this-machine, memory: 256MiB}
runner: {program: ./trainer}
constants: {model: tiny, dtype: fp32, seq_len: 32, gpus: 1, grad_accum: 1}
axes: {micro_batch: [1, 2]}
vars: {k: [0]}
control: {micro_batch: 1, dp: auto}
check: {home: 1min}
measure: {warmup: 1, steps: 2, finalists: 2, resolve: 1%}
lane: {length: 1}
watch: {interval: 20ms, beat: 100ms, others_cpu_limit: 0}
daemon: {tick: 20ms}
','# A complete sweep: presets written out, every default in force.
name: ended

cluster:
  name: this-machine
  gpus_per_node: 4
  memory: 256MiB
  gemm_efficiency: 0.7  # share of the peak in a layer''s matrix products
  attention_efficiency: 0.55  # share of the peak in flash attention
  intra_node_efficiency: 0.7  # share of intra_node_bandwidth in collectives
  inter_node_efficiency: 0.8  # share of inter_node_bandwidth in collectives
  this_machine: true
  shared_host: true

models:
  tiny: {layers: 2, hidden: 64, ffn: 128, heads: 4, kv_heads: 2, vocab: 256}

constants:
  model: tiny  # model preset or a model of this file
  dtype: fp32  # type of weights and activations; fp8: of the layers'' products, by current or delayed scaling
  seq_len: 32  # tokens per sample
  gpus: 1  # world size, for worlds smaller than a node
  grad_accum: 1  # micro-batches per train step and DP rank
  dp: auto  # data parallel degree
  tp: 1  # tensor parallel degree
  pp: 1  # pipeline parallel degree
  cp: 1  # context parallel degree: ranks that share each sequence
  cp_mode: ring  # how they share attention: keys and values go round, or heads are exchanged for tokens
  ep: 1  # expert parallel degree: ranks of dp x cp that share the experts of each layer
  vpp: 1  # virtual pipeline stages per rank, which 1f1b interleaves and zb-v folds
  dp_replicate: 1  # replicas of ZeRO''s shards, each over dp / dp_replicate ranks
  zero: 0  # ZeRO stage
  recompute: none  # activations computed again in backward: as the trainer selects them, of whole layers, or of modules that Megatron-LM names
  sequence_parallel: false  # activations between TP regions split along the sequence
  schedule: 1f1b  # pipeline schedule; zb-v needs vpp 2
  rank_order: tp-dp-pp  # order of the dimensions over the ranks, fastest first; cp before dp where it is not named
  bucket_mb: 25  # MiB of gradients per DP all-reduce
  overlap: true  # DP communication overlaps backward
  expert_tp: 0  # ranks that split each expert; 0: those of tp
  first_stage_layers: 0  # layers of the pipeline''s first stage, which has the embedding; 0: as many as the others
  last_stage_layers: 0  # layers of the pipeline''s last stage, which has the loss; 0: as many as the others
  cuda_graphs: false  # a layer''s kernels are launched as one CUDA graph
  offload: none  # in the host''s memory between its uses: the optimizer''s state, or weights and gradients too

axes:
  micro_batch: [1, 2]  # samples per micro-batch

vars:
  k: [0]

control: {micro_batch: 1, dp: auto, k: 0}  # every allocation runs it at its start and end; no probe of the network

measure:
  warmup: 1  # train steps before the timed ones
  steps: 2  # timed train steps
  first: 0  # of them before the finals; 0: all
  finalists: 2  # layouts of each cell that run again
  repeats: until_resolved  # rounds of the finals
  resolve: 0.01  # a difference of less does not matter
  node_sets: 1  # of which each has to say the same

runner:
  program: @WORK@/trainer  # empty: shardbench''s, beside shardsweep itself
  args: []
  gives_up: false  # whether it takes --give-up-above, as its --capabilities say
  hashes:  # of its own programs
    @WORK@/trainer: e8039a00a877caeb16c6891c3801e1ad

search:
  policy: exhaustive  # exhaustive | best_first
  until: {}  # of a cell (model x seq_len x nodes); empty: its last trial
  rules: {micro_batch: true, grad_accum: true, memory: true}  # named rules in force
  learn_across: true  # whether cells learn from each other

watch:
  start_limit: 1min  # longest wait for a rank''s first record
  rendezvous_limit: 1min  # longest time for ranks to find each other
  init_limit: 5min  # longest time to make weights and communicators; the largest worlds take minutes
  first_step_limit: 5min  # longest first train step; it also compiles, tunes and connects
  step_limit: 2min  # longest later train step
  hang_floor: 5s  # with flight recorders: a step may be hung after so long without an operation of any rank
  hang_factor: 2  # a step is hung after so many times the longest step so far; 0 leaves only step_limit
  evidence: 1s  # time for backtraces of hung ranks before they end
  gdb: 10s  # time for gdb to print backtraces of hung ranks; 0 does not run it
  others_cpu_limit: 0  # share of a node''s CPUs that others may use during a measurement: above it the measurement is contaminated; 1 records it alone, as on hosts that are shared; 0 does not look
  container_limit: 20min  # longest time to make the container on a node
  gpu_release: 30s  # longest wait for free GPU memory before an attempt; 0 does not look
  gpu_slack: 1GiB  # GPU memory that may be in use before an attempt; drivers keep some hundred MB
  learn_factor: 5  # the limits shrink to so many times the longest pause of three finished attempts of a lane; 0 keeps them
  learn_floor: 1min  # no limit shrinks below this
  teardown_limit: 1min  # longest time for processes to end after the result
  grace: 5s  # time between SIGTERM and SIGKILL
  beat: 100ms  # interval of a sign of life between lead and node agent
  agent_lease: 15s  # an agent that hears nothing for so long ends its ranks and itself
  node_lease: 15s  # a node that is silent for so long has failed
  file_beat: 5s  # interval of the lead''s sign of life for the daemon; each is a line in a shared file
  interval: 20ms  # interval at which an agent checks records and limits
  keep_log: 256KiB  # size kept of each rank''s output: half from its beginning, half from its end
  log_limit: 1GiB  # most that one rank may print before the attempt ends; 0 sets no limit
  file_limit: 64GiB  # largest file that a rank may write, also in shared memory; 0 sets no limit

retry:
  on_trial: 1  # times that a crash or a hang is tried again
  elsewhere: 5  # times that a failure of infrastructure is tried again
  fragmented: 1  # 1: out of memory by fragmentation is tried again with expandable_segments:True; 0: it is not
  failed_starts: 3  # allocations in a row that start nothing, or die with all that they started, before the sweep pauses
  failed_nodes: 10  # the same, where the nodes failed first

node_health:
  quarantine_after: 1  # failures before a node is excluded; a short run lets it back in
  suspect_after: 2  # trials that failed on a node and ran elsewhere, or jobs that started nothing on it, before it is excluded
  layout_after: 3  # nodes that fail under one trial before the trial is to blame
  most_out: 16  # most nodes excluded at once; 0 excludes none
  probe_after: 10min  # time before an excluded node is tried by a short run; doubled by each failure
  probe_limit: 5min  # longest such run
  remember: 7d  # age at which evidence against a node expires
  control_tolerance: 10%  # most that an allocation''s control may differ from the sweep''s median
  network_factor: 2  # most times that a network probe may be slower or faster than the median
  control_least: 3  # controls on as many nodes before one is judged
  slow_factor: 1.2  # a node is slow from so many times its peers'' time for the same work
  slow_after: 3  # attempts in which a node was slow, before it is reported
  slow_nodes: report  # report shows slow nodes; exclude leaves them out of new jobs

check:
  home: 1min  # the first act of an allocation, on each node: the database''s folder is written, read and removed from within this time; 0 does not check it
  memory: 0  # the same: least free memory of the host, as a share of what is free on the median of nodes with the same device (of all of it, with fewer than three), and no more GPU memory in use than watch.gpu_slack; 0 does not check it
  gemm: 0  # the same: least speed of shardbench''s matrix products, as a share of the median of nodes with the same device; 0 does not check it
  clocks: 0  # the same: least clock of a GPU meanwhile, as a share of that median; errors of its memory and a slowdown by its hardware fail too; 0 does not check it
  allreduce: 0  # the same: least bandwidth of shardbench''s all-reduce between a node and the better of two others, as a share of that median; 0 does not check it
  limit: 1min  # longest time for these on all nodes, and again for each round of all-reduces; a node that has not answered then has failed
  hook: 1min  # longest time for each line of the site file''s ''before'' and ''after''

limits:
  max_points: 10000000  # largest grid; a larger one is probably a mistake
  max_stored_left_out: 50000  # points left out that are stored one by one; the rest is counted
  max_nodes: 0  # most nodes in use at once; 0 sets no limit
  max_gpu_hours: 0  # no attempt starts beyond this; 0 sets no limit
  max_allocations: 0  # most allocations at once; 0 means four on a cluster, one on this machine
  max_pending: 0  # most allocations waiting in the queue; 0 sets no limit
  partition_share: 100%  # most of a partition''s nodes, for all sweeps of a database; 100% sets no limit
  yield: never  # while others wait for nodes: never changes nothing, hold asks for no more, drain also leaves after the present attempt
  slow_factor: 20  # an attempt is a timeout after so many times its predicted time; 0 leaves only attempt_time
  slow_floor: 15min  # no attempt is a timeout by slow_factor before this
  attempt_time: 2h  # longest attempt
  hours: always  # by the login node''s clock, days optional; what runs has ended by their end

lane:
  length: 1  # attempts per allocation; 0 means as many as there are, 1 a job per trial
  array: 1  # allocations submitted as one job array; 1 submits each by itself
  ahead: 30min  # run time assigned ahead; jobs go on so long without a daemon
  time_margin: 1.5  # wall time asked for, as a multiple of the predicted time
  min_time: 15min  # least wall time asked for
  max_time: 4h  # most wall time asked for; short jobs fit into gaps of the schedule
  stop_before_end: 1min  # wall time that must remain when an attempt ends
  idle_limit: 1min  # a lead without work for so long returns its nodes

slurm:
  look: 10s  # interval between questions to Slurm; each costs about three RPCs
  submit_limit: 150s  # longest wait for sbatch; then the job is looked for
  agents_limit: 10min  # longest wait of a job for its node agents; a node''s prolog may take minutes
  look_others: 1min  # interval between questions about others'' jobs, for limits.yield

daemon:
  tick: 20ms  # interval of the daemon while something runs; longer with more than 8 jobs
  idle_tick: 1s  # interval of the daemon while nothing runs
  lease_renew: 5s  # interval at which the daemon renews its lease; each is a write
  lease_ttl: 30s  # a lease that was not renewed for so long is free
  claim_limit: 10min  # longest wait for a started allocation to claim its work; a prolog may take minutes
  lead_limit: 5min  # an allocation whose lead is silent for so long is cancelled
  file_delay: 1min  # on a network file system: time until a file shows what another host has written
  records_limit: 90s  # records and lines of a lead that can''t be read are tried again for so long; then their trial is lost
  query_limit: 1min  # longest wait for squeue, sacct and scancel
  stall: 3h  # a sweep that holds nodes without starting or ending an attempt for so long is reported
  blind: 10min  # a scheduler that does not answer for so long is reported
','84a9527d28fcbf64af9c55dbef54cbfc','local','','','this-machine','upgraded','1','["k"]',2,0,'{}',1,'d6a3062fd2f575a94cf1baa33f42ee10','{"fresh":2,"gone":0,"known":0,"left_out":0,"measured":0,"name":"ended","resubmitted":false,"trials":2,"undecided":0}',1795883256068347,0,0,'',0,0,0,0,'','');
INSERT INTO "sweeps" VALUES(2,'open','active','# SPDX-License-Identifier: Apache-2.0
# What upgrades are tested with: a control, a check of nodes, finals, and trials that stand still. It is submitted a second time,
# under another name with another value of k.
name: ended
cluster: {preset: this-machine, memory: 256MiB}
runner: {program: ./trainer}
constants: {model: tiny, dtype: fp32, seq_len: 32, gpus: 1, grad_accum: 1}
axes: {micro_batch: [1, 2]}
vars: {k: [0]}
control: {micro_batch: 1, dp: auto}
check: {home: 1min}
measure: {warmup: 1, steps: 2, finalists: 2, resolve: 1%}
lane: {length: 1}
watch: {interval: 20ms, beat: 100ms, others_cpu_limit: 0}
daemon: {tick: 20ms}
','# A complete sweep: presets written out, every default in force.
name: open

cluster:
  name: this-machine
  gpus_per_node: 4
  memory: 256MiB
  gemm_efficiency: 0.7  # share of the peak in a layer''s matrix products
  attention_efficiency: 0.55  # share of the peak in flash attention
  intra_node_efficiency: 0.7  # share of intra_node_bandwidth in collectives
  inter_node_efficiency: 0.8  # share of inter_node_bandwidth in collectives
  this_machine: true
  shared_host: true

models:
  tiny: {layers: 2, hidden: 64, ffn: 128, heads: 4, kv_heads: 2, vocab: 256}

constants:
  model: tiny  # model preset or a model of this file
  dtype: fp32  # type of weights and activations; fp8: of the layers'' products, by current or delayed scaling
  seq_len: 32  # tokens per sample
  gpus: 1  # world size, for worlds smaller than a node
  grad_accum: 1  # micro-batches per train step and DP rank
  dp: auto  # data parallel degree
  tp: 1  # tensor parallel degree
  pp: 1  # pipeline parallel degree
  cp: 1  # context parallel degree: ranks that share each sequence
  cp_mode: ring  # how they share attention: keys and values go round, or heads are exchanged for tokens
  ep: 1  # expert parallel degree: ranks of dp x cp that share the experts of each layer
  vpp: 1  # virtual pipeline stages per rank, which 1f1b interleaves and zb-v folds
  dp_replicate: 1  # replicas of ZeRO''s shards, each over dp / dp_replicate ranks
  zero: 0  # ZeRO stage
  recompute: none  # activations computed again in backward: as the trainer selects them, of whole layers, or of modules that Megatron-LM names
  sequence_parallel: false  # activations between TP regions split along the sequence
  schedule: 1f1b  # pipeline schedule; zb-v needs vpp 2
  rank_order: tp-dp-pp  # order of the dimensions over the ranks, fastest first; cp before dp where it is not named
  bucket_mb: 25  # MiB of gradients per DP all-reduce
  overlap: true  # DP communication overlaps backward
  expert_tp: 0  # ranks that split each expert; 0: those of tp
  first_stage_layers: 0  # layers of the pipeline''s first stage, which has the embedding; 0: as many as the others
  last_stage_layers: 0  # layers of the pipeline''s last stage, which has the loss; 0: as many as the others
  cuda_graphs: false  # a layer''s kernels are launched as one CUDA graph
  offload: none  # in the host''s memory between its uses: the optimizer''s state, or weights and gradients too

axes:
  micro_batch: [1, 2]  # samples per micro-batch

vars:
  k: [1]

control: {micro_batch: 1, dp: auto, k: 1}  # every allocation runs it at its start and end; no probe of the network

measure:
  warmup: 1  # train steps before the timed ones
  steps: 2  # timed train steps
  first: 0  # of them before the finals; 0: all
  finalists: 2  # layouts of each cell that run again
  repeats: until_resolved  # rounds of the finals
  resolve: 0.01  # a difference of less does not matter
  node_sets: 1  # of which each has to say the same

runner:
  program: @WORK@/trainer  # empty: shardbench''s, beside shardsweep itself
  args: []
  gives_up: false  # whether it takes --give-up-above, as its --capabilities say
  hashes:  # of its own programs
    @WORK@/trainer: e8039a00a877caeb16c6891c3801e1ad

search:
  policy: exhaustive  # exhaustive | best_first
  until: {}  # of a cell (model x seq_len x nodes); empty: its last trial
  rules: {micro_batch: true, grad_accum: true, memory: true}  # named rules in force
  learn_across: true  # whether cells learn from each other

watch:
  start_limit: 1min  # longest wait for a rank''s first record
  rendezvous_limit: 1min  # longest time for ranks to find each other
  init_limit: 5min  # longest time to make weights and communicators; the largest worlds take minutes
  first_step_limit: 5min  # longest first train step; it also compiles, tunes and connects
  step_limit: 2min  # longest later train step
  hang_floor: 5s  # with flight recorders: a step may be hung after so long without an operation of any rank
  hang_factor: 2  # a step is hung after so many times the longest step so far; 0 leaves only step_limit
  evidence: 1s  # time for backtraces of hung ranks before they end
  gdb: 10s  # time for gdb to print backtraces of hung ranks; 0 does not run it
  others_cpu_limit: 0  # share of a node''s CPUs that others may use during a measurement: above it the measurement is contaminated; 1 records it alone, as on hosts that are shared; 0 does not look
  container_limit: 20min  # longest time to make the container on a node
  gpu_release: 30s  # longest wait for free GPU memory before an attempt; 0 does not look
  gpu_slack: 1GiB  # GPU memory that may be in use before an attempt; drivers keep some hundred MB
  learn_factor: 5  # the limits shrink to so many times the longest pause of three finished attempts of a lane; 0 keeps them
  learn_floor: 1min  # no limit shrinks below this
  teardown_limit: 1min  # longest time for processes to end after the result
  grace: 5s  # time between SIGTERM and SIGKILL
  beat: 100ms  # interval of a sign of life between lead and node agent
  agent_lease: 15s  # an agent that hears nothing for so long ends its ranks and itself
  node_lease: 15s  # a node that is silent for so long has failed
  file_beat: 5s  # interval of the lead''s sign of life for the daemon; each is a line in a shared file
  interval: 20ms  # interval at which an agent checks records and limits
  keep_log: 256KiB  # size kept of each rank''s output: half from its beginning, half from its end
  log_limit: 1GiB  # most that one rank may print before the attempt ends; 0 sets no limit
  file_limit: 64GiB  # largest file that a rank may write, also in shared memory; 0 sets no limit

retry:
  on_trial: 1  # times that a crash or a hang is tried again
  elsewhere: 5  # times that a failure of infrastructure is tried again
  fragmented: 1  # 1: out of memory by fragmentation is tried again with expandable_segments:True; 0: it is not
  failed_starts: 3  # allocations in a row that start nothing, or die with all that they started, before the sweep pauses
  failed_nodes: 10  # the same, where the nodes failed first

node_health:
  quarantine_after: 1  # failures before a node is excluded; a short run lets it back in
  suspect_after: 2  # trials that failed on a node and ran elsewhere, or jobs that started nothing on it, before it is excluded
  layout_after: 3  # nodes that fail under one trial before the trial is to blame
  most_out: 16  # most nodes excluded at once; 0 excludes none
  probe_after: 10min  # time before an excluded node is tried by a short run; doubled by each failure
  probe_limit: 5min  # longest such run
  remember: 7d  # age at which evidence against a node expires
  control_tolerance: 10%  # most that an allocation''s control may differ from the sweep''s median
  network_factor: 2  # most times that a network probe may be slower or faster than the median
  control_least: 3  # controls on as many nodes before one is judged
  slow_factor: 1.2  # a node is slow from so many times its peers'' time for the same work
  slow_after: 3  # attempts in which a node was slow, before it is reported
  slow_nodes: report  # report shows slow nodes; exclude leaves them out of new jobs

check:
  home: 1min  # the first act of an allocation, on each node: the database''s folder is written, read and removed from within this time; 0 does not check it
  memory: 0  # the same: least free memory of the host, as a share of what is free on the median of nodes with the same device (of all of it, with fewer than three), and no more GPU memory in use than watch.gpu_slack; 0 does not check it
  gemm: 0  # the same: least speed of shardbench''s matrix products, as a share of the median of nodes with the same device; 0 does not check it
  clocks: 0  # the same: least clock of a GPU meanwhile, as a share of that median; errors of its memory and a slowdown by its hardware fail too; 0 does not check it
  allreduce: 0  # the same: least bandwidth of shardbench''s all-reduce between a node and the better of two others, as a share of that median; 0 does not check it
  limit: 1min  # longest time for these on all nodes, and again for each round of all-reduces; a node that has not answered then has failed
  hook: 1min  # longest time for each line of the site file''s ''before'' and ''after''

limits:
  max_points: 10000000  # largest grid; a larger one is probably a mistake
  max_stored_left_out: 50000  # points left out that are stored one by one; the rest is counted
  max_nodes: 0  # most nodes in use at once; 0 sets no limit
  max_gpu_hours: 0  # no attempt starts beyond this; 0 sets no limit
  max_allocations: 0  # most allocations at once; 0 means four on a cluster, one on this machine
  max_pending: 0  # most allocations waiting in the queue; 0 sets no limit
  partition_share: 100%  # most of a partition''s nodes, for all sweeps of a database; 100% sets no limit
  yield: never  # while others wait for nodes: never changes nothing, hold asks for no more, drain also leaves after the present attempt
  slow_factor: 20  # an attempt is a timeout after so many times its predicted time; 0 leaves only attempt_time
  slow_floor: 15min  # no attempt is a timeout by slow_factor before this
  attempt_time: 2h  # longest attempt
  hours: always  # by the login node''s clock, days optional; what runs has ended by their end

lane:
  length: 1  # attempts per allocation; 0 means as many as there are, 1 a job per trial
  array: 1  # allocations submitted as one job array; 1 submits each by itself
  ahead: 30min  # run time assigned ahead; jobs go on so long without a daemon
  time_margin: 1.5  # wall time asked for, as a multiple of the predicted time
  min_time: 15min  # least wall time asked for
  max_time: 4h  # most wall time asked for; short jobs fit into gaps of the schedule
  stop_before_end: 1min  # wall time that must remain when an attempt ends
  idle_limit: 1min  # a lead without work for so long returns its nodes

slurm:
  look: 10s  # interval between questions to Slurm; each costs about three RPCs
  submit_limit: 150s  # longest wait for sbatch; then the job is looked for
  agents_limit: 10min  # longest wait of a job for its node agents; a node''s prolog may take minutes
  look_others: 1min  # interval between questions about others'' jobs, for limits.yield

daemon:
  tick: 20ms  # interval of the daemon while something runs; longer with more than 8 jobs
  idle_tick: 1s  # interval of the daemon while nothing runs
  lease_renew: 5s  # interval at which the daemon renews its lease; each is a write
  lease_ttl: 30s  # a lease that was not renewed for so long is free
  claim_limit: 10min  # longest wait for a started allocation to claim its work; a prolog may take minutes
  lead_limit: 5min  # an allocation whose lead is silent for so long is cancelled
  file_delay: 1min  # on a network file system: time until a file shows what another host has written
  records_limit: 90s  # records and lines of a lead that can''t be read are tried again for so long; then their trial is lost
  query_limit: 1min  # longest wait for squeue, sacct and scancel
  stall: 3h  # a sweep that holds nodes without starting or ending an attempt for so long is reported
  blind: 10min  # a scheduler that does not answer for so long is reported
','a28dbbac90780a834b0ef0cff48397ce','local','','','this-machine','upgraded','1','["k"]',2,0,'{}',1,'7be5c119b444368d699c67d97ff34614','{"fresh":2,"gone":0,"known":0,"left_out":0,"measured":0,"name":"open","resubmitted":false,"trials":2,"undecided":0}',1795883257832076,0,0,'Waits for ended, which has this machine.',0,0,0,0,'','');
CREATE TABLE train_steps (
  attempt INTEGER NOT NULL REFERENCES attempts DEFERRABLE INITIALLY DEFERRED,
  step    INTEGER NOT NULL,
  step_ms REAL NOT NULL,
  loss    REAL,
  PRIMARY KEY (attempt, step)
) STRICT, WITHOUT ROWID;
INSERT INTO "train_steps" VALUES(1,0,10.0,NULL);
INSERT INTO "train_steps" VALUES(1,1,10.0,NULL);
INSERT INTO "train_steps" VALUES(1,2,10.0,NULL);
INSERT INTO "train_steps" VALUES(2,0,20.0,NULL);
INSERT INTO "train_steps" VALUES(2,1,20.0,NULL);
INSERT INTO "train_steps" VALUES(2,2,20.0,NULL);
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
  attempts          INTEGER NOT NULL DEFAULT 0, prior TEXT
  CHECK (prior IN ('completed', 'oom', 'hung', 'timeout', 'node_failure', 'comm_error',
    'preempted', 'crashed', 'reaped', 'cancelled', 'rejected', 'lost', 'skipped')), prior_cause TEXT NOT NULL DEFAULT '', cancelled_by TEXT NOT NULL DEFAULT ''
  CHECK (cancelled_by IN ('', 'sweep', 'name', 'budget')), counted_attempt INTEGER, counted_mark TEXT, counted_speed REAL, fragmented INTEGER NOT NULL DEFAULT 0 CHECK (fragmented IN (0, 1)), expandable INTEGER NOT NULL DEFAULT 0 CHECK (expandable IN (0, 1)), final_of INTEGER, final_round INTEGER NOT NULL DEFAULT 0, final_resolve REAL NOT NULL DEFAULT 0, counted_code TEXT NOT NULL DEFAULT '', final_set INTEGER NOT NULL DEFAULT 0, final_sets INTEGER NOT NULL DEFAULT 1, final_avoid TEXT NOT NULL DEFAULT '', cp_mode TEXT NOT NULL DEFAULT 'ring', head_dim INTEGER NOT NULL DEFAULT 0, experts INTEGER NOT NULL DEFAULT 0, experts_per_token INTEGER NOT NULL DEFAULT 0, expert_ffn INTEGER NOT NULL DEFAULT 0, shared_experts INTEGER NOT NULL DEFAULT 0, dense_layers INTEGER NOT NULL DEFAULT 0, layout TEXT NOT NULL DEFAULT '', side TEXT NOT NULL DEFAULT ''
  CHECK (side IN ('', 'profile', 'memory')), again INTEGER NOT NULL DEFAULT 0, software TEXT NOT NULL DEFAULT '', expert_tp INTEGER NOT NULL DEFAULT 0, first_stage_layers INTEGER NOT NULL DEFAULT 0, last_stage_layers INTEGER NOT NULL DEFAULT 0, cuda_graphs INTEGER NOT NULL DEFAULT 0, offload TEXT NOT NULL DEFAULT 'none', kv_lora_rank INTEGER NOT NULL DEFAULT 0, q_lora_rank INTEGER NOT NULL DEFAULT 0, qk_rope_head_dim INTEGER NOT NULL DEFAULT 0, v_head_dim INTEGER NOT NULL DEFAULT 0, mtp_layers INTEGER NOT NULL DEFAULT 0,         -- number of the last attempt
  CHECK ((state = 'ended') = (outcome IS NOT NULL)),
  UNIQUE (sweep, identity),
  UNIQUE (sweep, slug)
) STRICT;
INSERT INTO "trials" VALUES(1,1,'tiny-g1-dp1tp1pp1-mb1ga1-s32-fp32-k.0-d9d2c9','d9d2c9d1d117847995010f6c3612eb1d','c74232946d622327f39bb4e47899d339',1,'tiny',0,1,32,'fp32',1,1,1,1,1,1,1,1,1,0,'none',0,'1f1b','tp-dp-pp',25,1,1,'{"k":0}',2,64,128,4,2,256,1,'upgraded','1',1995776,0.0,0.519369204618054,0.0,0,'ended','completed','',0,0,1,NULL,'','',1,NULL,3200.0,0,0,NULL,0,0.0,'e8039a00a877caeb16c6891c3801e1ad',0,1,'','ring',0,0,0,0,0,0,'dp1 tp1 pp1 mb1 ga1 z0','',0,'',0,0,0,0,'none',0,0,0,0,0);
INSERT INTO "trials" VALUES(2,1,'tiny-g1-dp1tp1pp1-mb2ga1-s32-fp32-k.0-992b62','992b627d17747f4692d80bc96d234bc7','c74232946d622327f39bb4e47899d339',2,'tiny',0,1,32,'fp32',1,1,1,1,1,1,1,2,1,0,'none',0,'1f1b','tp-dp-pp',25,1,1,'{"k":0}',2,64,128,4,2,256,2,'upgraded','1',2282496,0.0,5.33588596430447426044e-01,0.0,0,'ended','completed','',0,0,1,NULL,'','',2,NULL,3200.0,0,0,NULL,0,0.0,'e8039a00a877caeb16c6891c3801e1ad',0,1,'','ring',0,0,0,0,0,0,'dp1 tp1 pp1 mb2 ga1 z0','',0,'',0,0,0,0,'none',0,0,0,0,0);
INSERT INTO "trials" VALUES(3,1,'tiny-g1-dp1tp1pp1-mb1ga1-s32-fp32-k.0-d9d2c9-f1','d9d2c9d1d117847995010f6c3612eb1d/f1','c74232946d622327f39bb4e47899d339',3,'tiny',0,1,32,'fp32',1,1,1,1,1,1,1,1,1,0,'none',0,'1f1b','tp-dp-pp',25,1,2,'{"k":0}',2,64,128,4,2,256,1,'upgraded','1',1995776,0.0,0.08693,0.0,0,'running',NULL,'',0,0,1,NULL,'','',NULL,NULL,NULL,0,0,1,1,0.01,'',1,1,'','ring',0,0,0,0,0,0,'dp1 tp1 pp1 mb1 ga1 z0','',0,'',0,0,0,0,'none',0,0,0,0,0);
INSERT INTO "trials" VALUES(4,1,'tiny-g1-dp1tp1pp1-mb2ga1-s32-fp32-k.0-992b62-f1','992b627d17747f4692d80bc96d234bc7/f1','c74232946d622327f39bb4e47899d339',4,'tiny',0,1,32,'fp32',1,1,1,1,1,1,1,2,1,0,'none',0,'1f1b','tp-dp-pp',25,1,2,'{"k":0}',2,64,128,4,2,256,2,'upgraded','1',2282496,0.0,5.33588596430447426044e-01,0.0,0,'queued',NULL,'',0,0,1,NULL,'','',NULL,NULL,NULL,0,0,2,1,0.01,'',1,1,'','ring',0,0,0,0,0,0,'dp1 tp1 pp1 mb2 ga1 z0','',0,'',0,0,0,0,'none',0,0,0,0,0);
INSERT INTO "trials" VALUES(5,2,'tiny-g1-dp1tp1pp1-mb1ga1-s32-fp32-k.1-d9d2c9','d9d2c9cf6717847995010f6c36117648','c7423291f3622327f39bb4e478984ab4',1,'tiny',0,1,32,'fp32',1,1,1,1,1,1,1,1,1,0,'none',0,'1f1b','tp-dp-pp',25,1,1,'{"k":1}',2,64,128,4,2,256,1,'upgraded','1',1995776,0.0,0.519369204618054,0.0,0,'planned',NULL,'',0,0,0,NULL,'','',NULL,NULL,NULL,0,0,NULL,0,0.0,'',0,1,'','ring',0,0,0,0,0,0,'dp1 tp1 pp1 mb1 ga1 z0','',0,'',0,0,0,0,'none',0,0,0,0,0);
INSERT INTO "trials" VALUES(6,2,'tiny-g1-dp1tp1pp1-mb2ga1-s32-fp32-k.1-992b62','992b627ab5747f4692d80bc96d21e0ca','c7423291f3622327f39bb4e478984ab4',2,'tiny',0,1,32,'fp32',1,1,1,1,1,1,1,2,1,0,'none',0,'1f1b','tp-dp-pp',25,1,1,'{"k":1}',2,64,128,4,2,256,2,'upgraded','1',2282496,0.0,5.33588596430447426044e-01,0.0,0,'planned',NULL,'',0,0,0,NULL,'','',NULL,NULL,NULL,0,0,NULL,0,0.0,'',0,1,'','ring',0,0,0,0,0,0,'dp1 tp1 pp1 mb2 ga1 z0','',0,'',0,0,0,0,'none',0,0,0,0,0);
CREATE TABLE wall_clock (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  boot_id TEXT NOT NULL,
  ahead   INTEGER NOT NULL
) STRICT;
INSERT INTO "wall_clock" VALUES(1,'eab2fb3b-e1ae-439c-8614-859b5bb25899',1795866149498639);
CREATE INDEX trials_by_slug ON trials (slug);
CREATE INDEX trials_by_state ON trials (sweep, hidden, state, outcome);
CREATE INDEX trials_repeated ON trials (sweep) WHERE repeat > 1;
CREATE INDEX left_out_by_sweep ON left_out (sweep);
CREATE INDEX allocations_open ON allocations (id) WHERE state <> 'ended';
CREATE INDEX allocations_by_job ON allocations (job_id) WHERE job_id <> '';
CREATE UNIQUE INDEX attempts_counted ON attempts (trial, counted) WHERE counted = 1;
CREATE INDEX attempts_open ON attempts (trial) WHERE state <> 'ended';
CREATE INDEX attempts_by_allocation ON attempts (allocation);
CREATE INDEX measurements_by_trial ON measurements (trial);
CREATE INDEX events_by_sweep ON events (sweep);
CREATE INDEX events_by_trial ON events (trial) WHERE trial IS NOT NULL;
CREATE INDEX events_by_allocation ON events (allocation) WHERE allocation IS NOT NULL;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'events are append-only'); END;
CREATE INDEX attempts_by_node ON attempts (node) WHERE node <> '';
CREATE INDEX allocation_nodes_by_allocation ON allocation_nodes (allocation);
CREATE INDEX node_evidence_by_node ON node_evidence (node);
CREATE INDEX node_evidence_that_counts ON node_evidence (id) WHERE counts = 1;
CREATE INDEX probes_by_node ON probes (node);
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM sweeps WHERE id = old.sweep AND deleting = 0) OR
  (old.sweep IS NULL AND old.trial IS NULL AND old.allocation IS NULL)
BEGIN SELECT raise(ABORT, 'events are append-only'); END;
CREATE INDEX events_by_attempt ON events (attempt) WHERE attempt IS NOT NULL;
CREATE INDEX node_evidence_by_attempt ON node_evidence (attempt) WHERE attempt IS NOT NULL;
CREATE INDEX node_evidence_by_trial ON node_evidence (trial) WHERE trial IS NOT NULL;
CREATE INDEX allocations_by_sweep ON allocations (sweep) WHERE sweep IS NOT NULL;
CREATE INDEX trials_measured ON trials (sweep, model, seq_len, dtype, global_batch)
  WHERE outcome = 'completed';
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
CREATE INDEX trials_by_position ON trials (sweep, position);
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
CREATE INDEX trials_ranked ON trials (model, seq_len, nodes, gpus, counted_attempt,
  counted_speed, counted_mark, runner, runner_version, counted_code, hidden, sweep, state,
  outcome, vars, dp, tp, pp, micro_batch, grad_accum, zero, recompute);
CREATE INDEX controls_by_sweep ON controls (sweep);
CREATE INDEX trials_beside ON trials (sweep) WHERE side <> '';
CREATE UNIQUE INDEX knowledge_by_name ON knowledge (name) WHERE forgotten_at = 0;
CREATE VIEW attempt_parts AS
SELECT a.id AS attempt, a.started_at, a.ended_at,
  (SELECT count(*) FROM train_steps AS x WHERE x.attempt = a.id) AS steps,
  (SELECT CAST(ifnull(sum(x.step_ms), 0) * 1000 AS INTEGER) FROM train_steps AS x
    WHERE x.attempt = a.id) AS steps_us,
  ifnull((SELECT CAST(json_extract(m.detail, '$.t')
      * iif(json_type(m.detail, '$.t') = 'integer', 1, 1e6) AS INTEGER)
    FROM measurements AS m WHERE m.attempt = a.id AND json_valid(m.detail)), 0) AS result_at
FROM attempts AS a;
CREATE VIEW trial_results AS
SELECT (SELECT name FROM sweeps WHERE id = t.sweep) AS sweep, t.slug AS trial, t.state, t.outcome, t.cause, t.counted_mark AS mark,
  t.model, t.nodes, t.gpus, t.seq_len, t.dtype, t.dp, t.tp, t.pp, t.cp, t.cp_mode, t.ep, t.vpp, t.dp_replicate, t.micro_batch, t.grad_accum, t.zero, t.recompute, t.sequence_parallel, t.schedule, t.rank_order, t.bucket_mb, t.overlap, t.expert_tp, t.first_stage_layers, t.last_stage_layers, t.cuda_graphs, t.offload, t.repeat, t.global_batch, t.vars,
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
  t.layers, t.hidden_size AS hidden, t.ffn, t.heads, t.kv_heads, t.vocab, t.head_dim, t.experts, t.experts_per_token, t.expert_ffn, t.shared_experts, t.dense_layers, t.kv_lora_rank, t.q_lora_rank, t.qk_rope_head_dim, t.v_head_dim, t.mtp_layers,
  t.runner, t.runner_version, iif(t.counted_attempt IS NULL, '', t.counted_code) AS code_hash, nullif(iif(t.again > 0, 0, t.final_round), 0) AS final_round, (SELECT count(*) FROM attempts AS a WHERE a.trial = t.id
    AND (a.started_at > 0 OR a.counted = 1)) AS attempts, t.lane, t.position, t.id AS trial_id,
  t.sweep AS sweep_id, t.counted_attempt AS attempt_id, t.hidden = 0 AS in_file
FROM trials AS t;
CREATE VIEW all_results AS
SELECT t.sweep, t.trial, t.state, t.outcome, t.cause, t.mark,
  t.model, t.nodes, t.gpus, t.seq_len, t.dtype, t.dp, t.tp, t.pp, t.cp, t.cp_mode, t.ep, t.vpp, t.dp_replicate, t.micro_batch, t.grad_accum, t.zero, t.recompute, t.sequence_parallel, t.schedule, t.rank_order, t.bucket_mb, t.overlap, t.expert_tp, t.first_stage_layers, t.last_stage_layers, t.cuda_graphs, t.offload, t.repeat, t.global_batch, t.vars, t.layout,
  t.tokens_per_s_per_gpu, m.tokens_per_s, m.train_step_ms, m.train_step_ms_min,
  m.train_step_ms_p95, m.train_step_ms_spread, m.mfu, m.tflops_per_gpu, m.peak_memory_bytes,
  m.peak_allocated_bytes, m.peak_reserved_bytes, m.loss, m.tokens_per_step, m.n_params, m.steps, m.warmup, m.resolution, m.sm_clock_mhz, m.power_w,
  nullif(m.throttled, '') AS throttled, m.cut_short,
  (SELECT b.slug FROM trials AS b WHERE m.cut_short AND b.id = a.leader) AS beaten_by,
  t.predicted_memory_bytes, t.predicted_train_step_s, t.predicted_attempt_s,
  t.predicted_tokens_per_s_per_gpu, t.layers, t.hidden, t.ffn, t.heads, t.kv_heads, t.vocab, t.head_dim, t.experts, t.experts_per_token, t.expert_ffn, t.shared_experts, t.dense_layers, t.kv_lora_rank, t.q_lora_rank, t.qk_rope_head_dim, t.v_head_dim, t.mtp_layers,
  t.runner, t.runner_version, m.flops_model, m.software, m.hosts,
  m.settings, nullif(a.image_digest, '') AS image_digest, t.code_hash,
  (SELECT cluster FROM sweeps WHERE id = t.sweep_id) AS cluster,
  t.final_round, nullif((SELECT f.final_set FROM trials AS f WHERE f.id = t.trial_id), 0) AS final_set,
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
CREATE VIEW side_runs AS
SELECT (SELECT name FROM sweeps WHERE id = t.sweep) AS sweep, t.side AS tool,
  (SELECT slug FROM trials WHERE id = t.final_of) AS of_trial, t.layout, t.slug AS trial, t.state,
  t.outcome, t.cause, (SELECT a.dir FROM attempts AS a WHERE a.trial = t.id
    ORDER BY a.number DESC LIMIT 1) AS dir, t.final_of, t.id AS trial_id, t.sweep AS sweep_id
FROM trials AS t WHERE t.side <> '' AND t.hidden = 0;
CREATE VIEW results AS SELECT * FROM all_results
WHERE in_file AND trial_id NOT IN (SELECT id FROM trials WHERE side <> '');
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
COMMIT;
PRAGMA application_id = 1936225143;
PRAGMA user_version = 35;
