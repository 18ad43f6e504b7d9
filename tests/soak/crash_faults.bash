# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For crash_matrix: the faults. Each submits the sweep, waits for its moment, does its harm and
# heals it; the daemon runs when it returns.
# shellcheck disable=SC2034,SC2154  # `place`, `control`, `user`, and more are the round's

classes=(daemon answers controller nodes silence processes)
declare -A faults_of=(
  [daemon]='daemon_before_sbatch daemon_before_answer daemon_before_commit daemon_in_tick'
  [answers]='answer_lost answer_lost_unqueued sbatch_hangs_before sbatch_hangs_after'
  [controller]='controller_mid_sweep controller_at_start controller_forgets controller_away'
  [nodes]='batch_host_loses_slurmd node_loses_slurmd batch_host_dies node_dies'
  [silence]='accounting_away squeue_silent sacct_silent both_silent'
  [processes]='kill_lead kill_srun kill_agent kill_rank'
)

# doze MILLISECONDS: up to so long; which part of it the seed says.
doze() {
  local ms=$((RANDOM * 32768 + RANDOM))
  ms=$((ms % ($1 + 1)))
  sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
}

# ---- moments

some_job() { [ "$(sql "SELECT count(*) FROM allocations WHERE job_id <> ''")" -ge 1 ]; }
some_claim() { [ "$(sql 'SELECT count(*) FROM allocations WHERE claimed_at > 0')" -ge 1 ]; }
some_start() { [ "$(sql 'SELECT count(*) FROM attempts WHERE started_at > 0')" -ge 1 ]; }
ended() { [ "$(sql "SELECT count(*) FROM trials WHERE state = 'ended'")" -ge "$1" ]; }
runs_at() { [ -n "$("${user[@]}" squeue --me -h -t R -o %i)" ]; }

# A moment of the sweep's life, drawn.
await_moment() {
  case $((RANDOM % 5)) in
    0) wait_for 'submitted job' some_job ;;
    1) wait_for 'claimed allocation' some_claim ;;
    2) wait_for 'started attempt' some_start ;;
    *) wait_for 'ended trials' ended $((RANDOM % 5 + 1)) ;;
  esac
  doze 800
}

# ---- what the commands in front of Slurm's do

arm() { echo "$2" >"$control/$1"; }
disarm() { rm -f "$control/$1"; }
met() { [ -e "$control/met-$1" ]; }
reached() { [ -e "$control/reached-$1" ]; }
# to_sbatch WORD: to the one that is held.
to_sbatch() {
  local gate
  exec {gate}<>"$control/gate"
  echo "$1" >&"$gate"
  exec {gate}>&-
}
let_go() { to_sbatch go-on; }

# ---- the daemon

daemon_pid() { sql 'SELECT pid FROM lease WHERE pid > 0'; }
kill_daemon() {
  local pid
  pid=$(daemon_pid)
  # Not there any more: the sweep is over.
  if [ -n "$pid" ]; then kill -9 "$pid" 2>/dev/null || true; fi
}

submit_held() {
  arm sbatch "hold-$1"
  submit
  wait_for "sbatch that holds $1 it has submitted" reached "$1"
}

# The row is committed, sbatch is not started, or goes on without the daemon that has started it:
# before the next daemon, or beside it.
daemon_before_sbatch() {
  submit_held before
  kill_daemon
  case $((RANDOM % 3)) in
    0) to_sbatch end ;;
    1)
      doze 1000
      let_go
      ;;
    2)
      start_daemon
      doze 9000
      let_go
      return
      ;;
  esac
  doze 1000
  start_daemon
}

daemon_before_answer() {
  submit_held after
  doze 300
  kill_daemon
  to_sbatch end
  doze 2000
  start_daemon
}

# locked FILE BYTE: holds the lock that a writer of SQLite needs, until it is killed.
locked() {
  exec perl -e 'use Fcntl;
    for (["", 0x40000001], ["-shm", 120]) {
      open(my $file, "+<", "$ARGV[0]$_->[0]") or next;
      push @held, $file;
      until (fcntl($file, F_SETLK, pack("s s x4 q q i x4", F_WRLCK, 0, $_->[1], 1, 0))) {
        select(undef, undef, undef, 0.002);
      }
    }
    open(my $told, ">", $ARGV[1]);
    close($told);
    sleep 60;' "$place/sweep.db" "$control/locked"
}
cannot_commit() { grep -q 'commit: ' "$place/sweep.db.d/daemon.log"; }

# sbatch has answered, and the daemon dies with its answer in memory alone.
daemon_before_commit() {
  submit_held after
  locked &
  local lock=$!
  wait_for 'lock on the database' test -e "$control/locked"
  let_go
  wait_for 'daemon that cannot commit' cannot_commit
  kill_daemon
  {
    kill -9 "$lock"
    wait "$lock"
  } 2>/dev/null || true
  doze 2000
  start_daemon
}

daemon_in_tick() {
  submit
  await_moment
  kill_daemon
  doze 3000
  start_daemon
}

# ---- answers

submit_armed() {
  arm sbatch "$1"
  submit
  wait_for 'sbatch' met sbatch
}
answer_lost() { submit_armed lose-after; }
answer_lost_unqueued() { submit_armed lose-before; }
sbatch_hangs_before() { submit_armed hang-before; }
sbatch_hangs_after() { submit_armed hang-after; }

# ---- slurmctld

stop_controller() {
  slurm_was_broken=yes
  slurm_cluster kill-ctld
}
restart_controller() {
  stop_controller
  doze "$1"
  slurm_cluster start-ctld
}

controller_mid_sweep() {
  submit
  await_moment
  restart_controller 4000
}

# It has not saved that the job runs: the same id starts again.
controller_at_start() {
  submit
  wait_for 'running job' runs_at
  doze 900
  restart_controller 500
}

# It has not saved that there is a job: its id is given to another one, which is none of ours.
controller_forgets() {
  submit_held after
  stop_controller
  if [ $((RANDOM % 2)) = 0 ]; then let_go; fi
  slurm_cluster start-ctld
  said_before=$(stat -c %s "$SLURM_CLUSTER_DIR/log/slurmctld.log")
  stranger=$("${user[@]}" sbatch --parsable -J stranger -o /dev/null -p main --mem=10 --wrap 'sleep 3')
  let_go
}
# Slurm itself may hold it: a node that knows its id refuses it.
check_stranger() {
  [ -n "$stranger" ] || return 0
  if tail -c "+$((said_before + 1))" "$SLURM_CLUSTER_DIR/log/slurmctld.log" |
    grep "REQUEST_KILL_JOB JobId=$stranger uid $(id -u "$SLURM_CLUSTER_USER")\$" >/dev/null; then
    wrong strangers "job $stranger, which is none of ours, was cancelled"
  fi
  scancel "$stranger" 2>/dev/null || true
}

controller_away() {
  submit_held before
  stop_controller
  let_go
  doze 4000
  slurm_cluster start-ctld
}

# ---- nodes

# of_some_job FORMAT: of a job of the sweep that runs.
of_some_job() { "${user[@]}" squeue --me -h -t R -o "$1" | sed -n 1p; }
batch_host() { of_some_job %B; }
other_node() {
  local nodes
  nodes=$("${user[@]}" squeue --me -h -t R -o '%D %N' | awk '$1 == 2 { print $2; exit }')
  [ -z "$nodes" ] || scontrol show hostnames "$nodes" | tail -n 1
}

# harm_node HOW WHICH: the node, for a while that Slurm notices or does not.
harm_node() {
  submit
  await_moment
  local node
  node=$("$2")
  # The sweep is over, or none of its jobs has a second node now.
  if [ -z "$node" ]; then node=n$((RANDOM % 3 + 1)); fi
  slurm_was_broken=yes
  slurm_cluster "$1" "$node"
  doze 12000
  # It runs again at once, but may not be up before it has registered.
  slurm_cluster start-node "$node" >>"$place/log" 2>&1 &
}
batch_host_loses_slurmd() { harm_node kill-node batch_host; }
node_loses_slurmd() { harm_node kill-node other_node; }
batch_host_dies() { harm_node crash-node batch_host; }
node_dies() { harm_node crash-node other_node; }

# ---- silence

accounting_away() {
  submit
  await_moment
  slurm_cluster stop-dbd
  doze 5000
  slurm_cluster start-dbd
}

# silent COMMAND…: they fail, hang or print what is no answer, for a while.
silent() {
  local modes=(fail garbage torn hang) name
  submit
  if [ $((RANDOM % 3)) != 0 ]; then await_moment; fi
  for name in "$@"; do arm "$name" "${modes[RANDOM % 4]}"; done
  doze 8000
  for name in "$@"; do disarm "$name"; done
}
squeue_silent() { silent squeue; }
sacct_silent() { silent sacct; }
both_silent() { silent squeue sacct; }

# ---- processes of a job

victims() {
  case $1 in
    lead) pgrep -f "shardsweep-agent lead --dir $place/" ;;
    srun) pgrep -f "^[^ ]*/?srun .*shardsweep-agent node .*--token ($(tokens))" ;;
    agent) pgrep -f "^[^ ]*shardsweep-agent node .*--token ($(tokens))" ;;
    rank) pgrep -f "shardbench-cpu .*$place/" ;;
  esac || true
}
tokens() { sql 'SELECT token FROM allocations' | paste -sd '|'; }
# Killed, or over before it could be.
killed_or_over() {
  local pids
  mapfile -t pids < <(victims "$1")
  if [ ${#pids[@]} -eq 0 ]; then
    all_ended
    return
  fi
  kill -9 "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null
}
kill_one() {
  submit
  await_moment
  wait_for "$1 to be killed" killed_or_over "$1"
}
kill_lead() { kill_one lead; }
kill_srun() { kill_one srun; }
kill_agent() { kill_one agent; }
kill_rank() { kill_one rank; }
