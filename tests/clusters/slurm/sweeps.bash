# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests that run sweeps on the cluster of lib.bash, as its user: each sweep has a folder of its
# own with a database, a site file and a sweep file. `bin` names the folder of the programs.

: "${bin:?folder of the programs}"

# shellcheck disable=SC2154  # `root` is lib.bash's
# begin NAME: what follows is about the sweep NAME.
begin() {
  sweep=$1
  place=$SLURM_CLUSTER_DIR/home/$sweep
  install -d -o "$SLURM_CLUSTER_USER" "$place"
  cp "$root/tests/clusters/slurm/stand_in" "$place/"
}

# site_with LINE…: the site file; each LINE is an option of sbatch.
site_with() {
  printf 'backend: slurm\nslurm:\n' >"$place/site.yaml"
  printf '  %s\n' "$@" >>"$place/site.yaml"
}

# two_trials SECONDS [LINE…]: a sweep file of two trials with one rank, of which the first to run
# takes SECONDS in its first attempt; each LINE is one more of the file.
two_trials() {
  cat >"$place/sweep.yaml" <<YAML
name: $sweep
cluster: {preset: cpu-2x}
runner: {name: stand-in, program: $place/stand_in}
constants: {model: tiny, dtype: fp32, seq_len: 32, global_batch_size: 2, gpus: 1}
axes: {micro_batch: [1, 2]}
env: {STAND_IN_FIRST: "$1", STAND_IN_DIR: $place}
watch: {agent_lease: 3s, node_lease: 3s, grace: 1s, file_beat: 500ms, interval: 100ms}
retry: {on_trial: 0}
slurm: {look: 1s}
YAML
  shift
  printf '%s\n' "$@" >>"$place/sweep.yaml"
}

# tool COMMAND…: shardsweep with the sweep's database.
tool() { as_user env "SHARDSWEEP_DB=$place/sweep.db" "$bin/shardsweep" "$@"; }
submit() {
  tool submit --site "$place/site.yaml" "$place/sweep.yaml" >>"$place/log" 2>&1 ||
    complain "'submit' ended with $?"
}
# sql QUERY: its rows.
sql() { tool query --format csv "$1" | tail -n +2; }
is() { [ "$(sql "$1")" = "$2" ]; }

daemon() { sed -n 's/.* daemon \([0-9]*\) has .*/\1/p' "$place/sweep.db.d/daemon.log" | tail -n 1; }
kill_daemon() { kill -9 "$(daemon)"; }
start_daemon() { tool daemon --until-idle >>"$place/sweep.db.d/daemon.log" 2>&1 & }
no_daemon() { [ ! -e "/proc/$(daemon)" ]; }

# The job of the sweep's allocation number N.
job_of() { sql "SELECT job_id FROM allocations ORDER BY id LIMIT 1 OFFSET $(($1 - 1))"; }
has_job() { is "SELECT count(*) >= $1 FROM allocations WHERE job_id <> ''" 1; }
# The first trial runs for the first time.
runs() { [ -e "$place/first" ]; }

# Before the cluster goes: daemons of sweeps that have not come to their end.
end_daemons() {
  local log pid
  for log in "$SLURM_CLUSTER_DIR"/home/*/sweep.db.d/daemon.log; do
    [ -e "$log" ] || continue
    while read -r pid; do
      if grep -qzF "${log%.d/daemon.log}" "/proc/$pid/cmdline" 2>/dev/null; then
        kill -9 "$pid" || true
      fi
    done < <(sed -n 's/.* daemon \([0-9]*\) has .*/\1/p' "$log")
  done
}
trap 'end_daemons; slurm_cluster down' EXIT

complain() {
  echo "FAILED: $sweep: $*" >&2
  {
    tool query "SELECT slug, state, outcome, cause, charged, elsewhere, attempts FROM trials"
    tool query "SELECT trial, number, state, outcome, source, cause FROM attempts"
    tool query "SELECT job_id, state, submission, job_state, end_reason, end_outcome, detail
                FROM allocations"
    tool query "SELECT kind, detail FROM events"
    tool status "$sweep"
    tail -n 20 "$place/sweep.db.d/daemon.log" "$place/log"
  } >&2 2>&1 || true
  exit 1
}
# await SECONDS WHAT COMMAND…: until COMMAND succeeds; SECONDS are those of a quiet machine.
await() {
  local deadline=$((SECONDS + $1 * $(patience))) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $deadline ] || complain "no $what in time"
    sleep 0.3
  done
}
# expect WHAT QUERY ANSWER: a pattern.
expect() {
  local got
  got=$(sql "$2")
  # shellcheck disable=SC2053  # a pattern
  [[ $got == $3 ]] || complain "$1: '$got' in place of '$3'"
}

# Every trial has its verdict and no daemon is left.
is_over() { is "SELECT count(*) FROM trials WHERE state <> 'ended'" 0; }
# What has to be true of every sweep that is over.
check_accounts() {
  await 30 'end of the daemon' no_daemon
  expect 'measured twice' \
    "SELECT count(*) FROM (SELECT trial FROM attempts WHERE counted = 1 GROUP BY trial
     HAVING count(*) > 1)" 0
  expect 'completed without a counted attempt' \
    "SELECT count(*) FROM trials t WHERE outcome = 'completed' AND NOT EXISTS
     (SELECT 1 FROM attempts WHERE trial = t.id AND counted = 1)" 0
  expect 'open attempts' "SELECT count(*) FROM attempts WHERE state <> 'ended'" 0
  expect 'open allocations' "SELECT count(*) FROM allocations WHERE state <> 'ended'" 0
  local left
  left=$(as_user squeue --me -h -o '%j' | grep -c "^$sweep-n" || true)
  [ "$left" = 0 ] || complain "$left jobs are left"
}
