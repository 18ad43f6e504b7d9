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

# two_trials HOLD [LINE…]: a sweep file of two trials with one rank. The run number HOLD, as they
# begin, stands still until let_go; none does if HOLD is 'none'. Each LINE is one more of the file.
# No lease and no limit runs out on a busy machine: a test that is about one sets it.
two_trials() {
  cat >"$place/sweep.yaml" <<YAML
name: $sweep
cluster: {preset: cpu-2x}
runner: {name: stand-in, program: $place/stand_in}
constants: {model: tiny, dtype: fp32, seq_len: 32, global_batch_size: 2, gpus: 1}
axes: {micro_batch: [1, 2]}
env: {STAND_IN_HOLD: "$1", STAND_IN_DIR: $place}
watch: $patient_watch
retry: {on_trial: 0}
slurm: {look: 1s}
YAML
  shift
  printf '%s\n' "$@" >>"$place/sweep.yaml"
  make_gates 1
}
patient_watch='{agent_lease: 300s, node_lease: 300s, step_limit: 1h, first_step_limit: 1h, grace: 1s, file_beat: 500ms, interval: 100ms}'
# make_gates RANKS: for what is held; let_go opens them, when somebody stands there.
make_gates() {
  local rank
  for ((rank = 0; rank < $1; ++rank)); do
    mkfifo -m 666 "$place/go.$rank"
  done
}
let_go() {
  local fifo gate
  wait_for 'run that stands still' is_held
  for fifo in "$place"/go.*; do
    exec {gate}<>"$fifo"
    echo >&"$gate"
    exec {gate}>&-
  done
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

daemon_log() { echo "$place/sweep.db.d/daemon.log"; }
kill_daemon() { kill -9 "$(last_daemon "$(daemon_log)")"; }
start_daemon() { tool daemon --until-idle >>"$(daemon_log)" 2>&1 & }

# The job of the sweep's allocation number N.
job_of() { sql "SELECT job_id FROM allocations ORDER BY id LIMIT 1 OFFSET $(($1 - 1))"; }
has_job() { is "SELECT count(*) >= $1 FROM allocations WHERE job_id <> ''" 1; }
# The run that is held stands still.
is_held() { [ -e "$place/held.0" ]; }

# Before the cluster goes: daemons of sweeps that have not come to their end.
end_daemons() {
  local log pid
  for log in "$SLURM_CLUSTER_DIR"/home/*/sweep.db.d/daemon.log; do
    [ -e "$log" ] || continue
    while read -r pid; do
      if grep -qzF "${log%.d/daemon.log}" "/proc/$pid/cmdline" 2>/dev/null; then
        kill -9 "$pid" || true
      fi
    done < <(daemons_of "$log")
  done
}
trap 'end_daemons; slurm_cluster down' EXIT

show_sweep() {
  [ -n "${place:-}" ] || return 0
  # The first ones of many tell enough.
  tool query "SELECT slug, state, outcome, cause, charged, elsewhere, attempts FROM trials LIMIT 60"
  tool query "SELECT trial, number, state, outcome, source, cause FROM attempts LIMIT 60"
  tool query "SELECT job_id, state, submission, job_state, end_reason, end_outcome, detail
              FROM allocations LIMIT 60"
  tool query "SELECT kind, detail FROM events LIMIT 120"
  tool status "$sweep"
  tail -n 20 "$(daemon_log)" "$place/log"
}
show_all() {
  echo "sweep ${sweep:-}"
  as_user squeue --me -t all -o '%i %j %P %T %r %N' 2>&1 || true
  show_sweep 2>&1 || true
}
complain() {
  echo "FAILED: $sweep: $*" >&2
  show_all >&2
  exit 1
}
# expect WHAT QUERY ANSWER: a pattern.
expect() {
  local got
  got=$(sql "$2")
  # shellcheck disable=SC2053  # a pattern
  [[ $got == $3 ]] || complain "$1: '$got' in place of '$3'"
}

# Every trial has its verdict and no daemon is left.
all_ended() { is "SELECT count(*) FROM trials WHERE state <> 'ended'" 0; }
# A job is completing for a while when its allocation has ended. A controller that was killed before it had
# noted an end knows its job as running, until its node registers again.
no_job_left() {
  local jobs
  jobs=$(as_user squeue --me -h -o '%j') && ! grep -q "^$sweep-n" <<<"$jobs"
}
# What has to be true of every sweep that is over.
check_accounts() {
  wait_for 'end of the daemon' no_daemon "$(daemon_log)"
  expect 'measured twice' \
    "SELECT count(*) FROM (SELECT trial FROM attempts WHERE counted = 1 GROUP BY trial
     HAVING count(*) > 1)" 0
  expect 'completed without a counted attempt' \
    "SELECT count(*) FROM trials t WHERE outcome = 'completed' AND NOT EXISTS
     (SELECT 1 FROM attempts WHERE trial = t.id AND counted = 1)" 0
  expect 'open attempts' "SELECT count(*) FROM attempts WHERE state <> 'ended'" 0
  expect 'open allocations' "SELECT count(*) FROM allocations WHERE state <> 'ended'" 0
  wait_for 'end of the jobs' no_job_left
}

# start_cases PREFIX [CASE…]: each function PREFIX_CASE in a shell of its own, beside the others; all
# of them if none is named. end_cases waits for all.
declare -A case_pids
start_cases() {
  local prefix=$1 case chosen=" ${*:2} "
  for case in $(declare -F | sed -n "s/^declare -f ${prefix}_//p"); do
    [ $# -eq 1 ] || [[ $chosen == *" $case "* ]] || continue
    (
      trap told_to_end TERM
      began=$SECONDS
      "${prefix}_$case"
      echo "$case: $((SECONDS - began)) s"
    ) &
    case_pids[${prefix}_$case]=$!
  done
}
end_cases() {
  local case failed=()
  [ ${#case_pids[@]} -gt 0 ] || fail 'there is no such case'
  for case in "${!case_pids[@]}"; do wait "${case_pids[$case]}" || failed+=("$case"); done
  [ ${#failed[@]} -eq 0 ] || {
    echo "FAILED: ${failed[*]}" >&2
    exit 1
  }
}
