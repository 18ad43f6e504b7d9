# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For crash_matrix: its cases. Each submits the sweep, waits for its moment, does its harm and heals
# it; a daemon runs when it returns.
# shellcheck disable=SC2034,SC2154  # `place`, `control`, `fails`, and more are crash_matrix's

row_cases=(
  # The longest first.
  batch_host_dies node_dies batch_host_loses_slurmd node_loses_slurmd agent_dies
  sbatch_never sbatch_before_next sbatch_beside_next sbatch_answers_nobody
  daemon_committed daemon_ordered daemon_submitted daemon_accepted daemon_lines_read daemon_records_read
  answer_lost answer_lost_unqueued sbatch_hangs_before sbatch_hangs_after
  squeue_fails squeue_garbage squeue_torn squeue_hangs
  sacct_fails sacct_garbage sacct_torn sacct_hangs
  lead_dies srun_dies rank_dies
  lead_claimed lead_claimed_written lead_started_written lead_ended lead_ended_written lead_bye
  node_launched node_ended
)
# Of slurmctld and slurmdbd there is one: on a cluster of their own.
cluster_cases=(controller_mid_sweep controller_forgets controller_away accounting_away)

# ---- what the commands in front of Slurm's do

arm() { echo "$2" >"$control/$1"; }
disarm() { rm -f "$control/$1"; }
# met NAME [TIMES]: it has been called so often since it was armed.
met() { [ "$(cat "$control/met-$1" 2>/dev/null | wc -l)" -ge "${2:-1}" ]; }
has_reached() { [ -e "$control/reached-$1" ]; }
# to_sbatch WORD: to the one that is held.
to_sbatch() {
  local gate
  exec {gate}<>"$control/gate"
  echo "$1" >&"$gate"
  exec {gate}>&-
}
no_sbatch() { ! pgrep -f "$place/bin/sbatch" >/dev/null; }
# submit_held before|after: sbatch stands still before it submits, or before it answers.
submit_held() {
  arm sbatch "hold-$1"
  submit
  wait_for "sbatch that stands still $1 its work" has_reached "$1"
}
end_of_daemon() {
  kill_daemon
  wait_for 'end of the daemon' no_daemon "$(daemon_log)"
}
in_queue() { [ -n "$(as_user squeue --me -h -o %j | grep "^$sweep-n")" ]; }
is_claimed() { is 'SELECT count(*) > 0 FROM allocations WHERE claimed_at > 0' 1; }

# ---- the daemon, between its decision and Slurm's answer

# The row is committed, and sbatch ends with the daemon that has started it.
crash_sbatch_never() {
  trials none
  submit_held before
  end_of_daemon
  to_sbatch end
  wait_for 'end of sbatch' no_sbatch
  start_daemon
}
# It goes on without that daemon.
crash_sbatch_before_next() {
  trials none 'lane: {length: 1, array: 3}'
  submit_held before
  end_of_daemon
  to_sbatch go-on
  wait_for 'job in the queue' in_queue
  start_daemon
}
# It goes on when another daemon has missed the job and submitted it again: of two with one token
# one measures.
crash_sbatch_beside_next() {
  trials none
  submit_held before
  end_of_daemon
  start_daemon
  wait_for 'claim of the second job' is_claimed
  to_sbatch go-on
}
crash_sbatch_answers_nobody() {
  trials none 'lane: {length: 1, array: 3}'
  submit_held after
  end_of_daemon
  to_sbatch end
  start_daemon
}

# daemon_at POINT: it dies there, and another one takes over.
daemon_at() {
  trials none
  points=("SHARDSWEEP_FAIL_DIR=$fails" "SHARDSWEEP_FAIL_AT=$1:kill")
  submit
  points=()
  wait_for "daemon at $1" reached "$fails" "${1%%:*}"
  wait_for 'end of the daemon' no_daemon "$(daemon_log)"
  start_daemon
}
crash_daemon_committed() { daemon_at daemon.committed:2; }
crash_daemon_ordered() { daemon_at daemon.ordered; }
crash_daemon_submitted() { daemon_at daemon.submitted; }
crash_daemon_accepted() { daemon_at daemon.accepted; }
crash_daemon_lines_read() { daemon_at daemon.lines_read; }
crash_daemon_records_read() { daemon_at daemon.records_read; }

# ---- answers

# A submission that hangs is in doubt after so long.
give_up_soon() { sed -i 's/look: 1s/look: 1s, submit_limit: 5s/' "$place/sweep.yaml"; }
# submit_armed MODE [LINE…]: the first sbatch does so.
submit_armed() {
  trials none "${@:2}"
  give_up_soon
  arm sbatch "$1"
  submit
  wait_for 'sbatch' met sbatch
}
crash_answer_lost() { submit_armed lose-after; }
crash_answer_lost_unqueued() { submit_armed lose-before 'lane: {length: 1, array: 3}'; }
crash_sbatch_hangs_before() { submit_armed hang-before; }
crash_sbatch_hangs_after() { submit_armed hang-after; }

# silent squeue|sacct MODE: while the daemon looks twice. Accounting is asked for jobs that the queue does
# not know: for one whose submission is in doubt.
silent() {
  trials none 'daemon: {query_limit: 4s}'
  arm "$1" "$2"
  if [ "$1" = sacct ]; then arm sbatch lose-before; fi
  submit
  wait_for "two looks of $1" met "$1" 2
  disarm "$1"
}
crash_squeue_fails() { silent squeue fail; }
crash_squeue_garbage() { silent squeue garbage; }
crash_squeue_torn() { silent squeue torn; }
crash_squeue_hangs() { silent squeue hang; }
crash_sacct_fails() { silent sacct fail; }
crash_sacct_garbage() { silent sacct garbage; }
crash_sacct_torn() { silent sacct torn; }
crash_sacct_hangs() { silent sacct hang; }

# ---- processes of a job that stands still on two nodes

all_held() { [ "$(find "$place" -name 'held.*' | wc -l)" = 4 ]; }
submit_wide() {
  wide_trials 1 "$@"
  submit
  wait_for 'ranks that stand still on two nodes' all_held
  local nodes
  mapfile -t nodes < <(scontrol show hostnames "$(as_user squeue -h -j "$(job_of 1)" -o %N)")
  batch_host=${nodes[0]} other_node=${nodes[1]}
}
token() { sql 'SELECT token FROM allocations ORDER BY id LIMIT 1'; }
# kill_one PATTERN: the first of the processes whose command line it is.
kill_one() {
  local pids
  mapfile -t pids < <(pgrep -f "$1")
  [ ${#pids[@]} -gt 0 ] || complain "no process '$1'"
  kill -9 "${pids[0]}"
}
crash_lead_dies() {
  submit_wide
  kill_one "shardsweep-agent lead --dir $place/"
}
crash_srun_dies() {
  submit_wide
  kill_one "^[^ ]*/?srun .*shardsweep-agent node .*--token $(token)"
}
crash_agent_dies() {
  submit_wide
  kill_one "^[^ ]*shardsweep-agent node .*--token $(token)"
}
crash_rank_dies() {
  submit_wide
  kill_one "stand_in .*$place/"
}

# job_at POINT: a process of the first job dies there.
job_at() {
  wide_trials none
  printf 'prolog: ["export SHARDSWEEP_FAIL_DIR=%s SHARDSWEEP_FAIL_AT=%s:kill"]\n' "$fails" "$1" \
    >>"$place/site.yaml"
  submit
  wait_for "process at $1" reached "$fails" "${1%%:*}"
}
crash_lead_claimed() { job_at lead.claimed; }
crash_lead_claimed_written() { job_at lead.claimed_written; }
crash_lead_started_written() { job_at lead.started_written:2; }
crash_lead_ended() { job_at lead.ended; }
crash_lead_ended_written() { job_at lead.ended_written:2; }
crash_lead_bye() { job_at lead.bye; }
crash_node_launched() { job_at node.launched; }
crash_node_ended() { job_at node.ended; }

# ---- nodes

# harm_node HOW batch|other: Slurm gives the node up, as it does after SlurmdTimeout, and lets it in
# again. It goes on calling the job running, which has other nodes.
harm_node() {
  local node
  submit_wide 'daemon: {lead_limit: 20s}'
  node=$batch_host
  if [ "$2" = other ]; then node=$other_node; fi
  slurm_cluster "$1" "$node"
  scontrol update "nodename=$node" state=down reason='a test'
  slurm_cluster start-node "$node" &
  wait_for "$node again" let_in "$node"
  wait $!
}
let_in() {
  scontrol update "nodename=$1" state=resume 2>/dev/null || true
  [ -n "$(sinfo -h -n "$1" -t idle,alloc,mix,comp -o %n)" ]
}
crash_batch_host_dies() { harm_node crash-node batch; }
crash_node_dies() { harm_node crash-node other; }
crash_batch_host_loses_slurmd() { harm_node kill-node batch; }
crash_node_loses_slurmd() { harm_node kill-node other; }

# ---- slurmctld, slurmdbd

crash_controller_mid_sweep() {
  submit_wide
  slurm_cluster kill-ctld
  arm squeue count
  wait_for 'two looks without an answer' met squeue 2
  disarm squeue
  slurm_cluster start-ctld
  let_go
}
# It has not saved that there is a job: its id is given to another one, which is none of ours. All trials
# are of one job: an sbatch beside it could come after slurmctld's new start and get that id first.
crash_controller_forgets() {
  local saved=$SLURM_CLUSTER_DIR/spool/before stranger said
  wide_trials none
  scontrol shutdown slurmctld
  wait_for 'end of slurmctld' is_over "$(cut -d' ' -f1 "$SLURM_CLUSTER_DIR/pids/slurmctld")"
  cp -a "$SLURM_CLUSTER_DIR/spool/ctld" "$saved"
  slurm_cluster start-ctld
  # Ours waits; when slurmctld starts anew it has forgotten this too.
  scontrol update "partitionname=$partition" state=down
  submit_held after
  slurm_cluster kill-ctld
  rm -rf "$SLURM_CLUSTER_DIR/spool/ctld"
  mv "$saved" "$SLURM_CLUSTER_DIR/spool/ctld"
  slurm_cluster start-ctld
  said=$(stat -c %s "$SLURM_CLUSTER_DIR/log/slurmctld.log")
  stranger=$(as_user sbatch --parsable -J stranger -o /dev/null -p "$partition" --mem=10 --wrap true)
  to_sbatch go-on
  wait_for 'id that is also the stranger'"'"'s' \
    is "SELECT count(*) > 0 FROM events WHERE kind = 'submitted' AND detail LIKE '% as $stranger'" 1
  wait_for 'end of the sweep' all_ended
  if tail -c "+$((said + 1))" "$SLURM_CLUSTER_DIR/log/slurmctld.log" |
    grep "REQUEST_KILL_JOB JobId=$stranger uid $(id -u "$SLURM_CLUSTER_USER")\$" >/dev/null; then
    complain "job $stranger, which is none of ours, was cancelled"
  fi
}
crash_controller_away() {
  trials none
  give_up_soon
  submit_held before
  slurm_cluster kill-ctld
  to_sbatch go-on
  wait_for 'end of sbatch' no_sbatch
  slurm_cluster start-ctld
}
crash_accounting_away() {
  submit_wide
  slurm_cluster stop-dbd
  let_go
  wait_for 'end of all trials' all_ended
  slurm_cluster start-dbd
}
