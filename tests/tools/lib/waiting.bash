# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The one place where a test of shell looks again and again. A wait has no limit of its own: on a busy
# machine everything takes longer, and a test that ends earlier tells nothing. CTest's limit ends it
# (SIGTERM), and then it says what it waited for.

# What is waited for; empty: nothing.
waiting_for=
# wait_for WHAT COMMAND…: until COMMAND succeeds.
wait_for() {
  local looks=0
  waiting_for=$1
  shift
  until "$@"; do
    looks=$((looks + 1))
    # For who reads along.
    [ $((looks % 200)) != 0 ] || echo "- waits for: $waiting_for" >&2
    # A look starts programs: what comes soon is seen soon, and who waits for long leaves the cores to
    # the others.
    if [ $looks -lt 10 ]; then
      sleep 0.02
    elif [ $looks -lt 30 ]; then
      sleep 0.1
    else
      sleep 0.25
    fi
  done
  waiting_for=
}
# is_over PID: the process has ended, whoever waits for it.
is_over() { ! [ -e "/proc/$1/exe" ] || grep -qs '^State:.*zombie' "/proc/$1/status"; }
# daemons_of LOG: the pids of all that have written it, in their order.
daemons_of() { sed -n 's/.* daemon \([0-9]*\) has .*/\1/p' "$1"; }
last_daemon() { daemons_of "$1" | tail -n 1; }
# no_daemon LOG: the last one has ended, and its lock with it; "nothing is left to do" it says before.
no_daemon() { is_over "$(last_daemon "$1")"; }
