# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the tests that run sweeps/chaos.yaml, here and on a Slurm: what its faults deserve, and what
# became of them.

# Seconds where people have minutes: what a hang costs a test is these.
# shellcheck disable=SC2034  # for those that source this
chaos_limits=(--set watch.hang_floor=2s --set watch.init_limit=6s --set watch.rendezvous_limit=6s
  --set watch.first_step_limit=6s --set watch.teardown_limit=3s --set watch.grace=1s
  --set watch.interval=100ms)
# A row per kind of fault and outcome.
# shellcheck disable=SC2034
chaos_outcomes="SELECT json_extract(vars, '\$.shardbench_fault'), outcome, count(*) FROM trials
  GROUP BY 1, 2 ORDER BY 1, 2"
# Processes that outlive their rank are counted with the attempt.
# shellcheck disable=SC2034
chaos_unseen_orphans="SELECT count(*) FROM trials t
  WHERE json_extract(vars, '\$.shardbench_fault') IN ('fork@train', 'hold@warmup') AND NOT EXISTS
  (SELECT 1 FROM attempts WHERE trial = t.id AND counted = 1 AND leaked > 0)"
# It names the last rank.
# shellcheck disable=SC2034
chaos_unnamed_hangs="SELECT count(*) FROM trials WHERE outcome = 'hung' AND
  json_extract(vars, '\$.shardbench_fault') LIKE '%@train%' AND
  cause NOT LIKE '%; rank ' || (gpus - 1) || ' on %'"

# deserves FAULT: the outcome that it should have.
deserves() {
  case $1 in
    none | slow@* | garbage@* | fork@* | hold@* | stop@teardown) echo completed ;;
    hang@* | stop@*) echo hung ;;
    oom@*) echo oom ;;
    *) echo crashed ;;
  esac
}

# confusion ROW…: the rows of $chaos_outcomes, as a table. Fails where a trial has another outcome
# than its fault deserves.
confusion() {
  local row fault outcome count verdict wrong=0 trials=0
  echo 'fault                outcome       trials'
  for row in "$@"; do
    IFS=, read -r fault outcome count <<<"$row"
    verdict=''
    trials=$((trials + count))
    if [ "$outcome" != "$(deserves "$fault")" ]; then
      verdict=" <- $(deserves "$fault")"
      wrong=$((wrong + count))
    fi
    printf '%-20s %-12s %7d%s\n' "$fault" "$outcome" "$count" "$verdict"
  done
  echo "$trials trials, $wrong with another outcome than they deserve"
  [ $trials -gt 0 ] && [ $wrong = 0 ]
}
