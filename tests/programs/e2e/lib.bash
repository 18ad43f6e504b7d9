# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For end-to-end tests: a home of their own, conditions that are waited for, points at which a
# program dies or waits, and what of ours is still alive.

# shellcheck source=tests/tools/lib/waiting.bash
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib/waiting.bash"
# shellcheck source=tests/tools/lib/fail_points.bash
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib/fail_points.bash"

bin=${1:?folder of the programs}
[ -x "$bin/shardsweep" ] || {
  echo "FAILED: $bin holds no shardsweep" >&2
  exit 1
}
bin=$(cd "$bin" && pwd)
shardsweep=$bin/shardsweep
work=$(mktemp -d)
export SHARDSWEEP_DB=$work/test.db HOME=$work/home XDG_CONFIG_HOME=$work/home/.config
unset SHARDSWEEP_HOME
mkdir -p "$HOME"

# Which case of a test runs; empty: it has one.
case_now=
daemon_log() { echo "$SHARDSWEEP_DB.d/daemon.log"; }
# What a failed test gives back. Its files stay.
release() { end_ours; }

fail() {
  echo "FAILED: ${case_now:+$case_now: }$*" >&2
  [ ! -e "$(daemon_log)" ] || tail -n 30 "$(daemon_log)" >&2
  echo "kept: $work" >&2
  trap - EXIT
  release
  exit 1
}

# hold FIFO: runs that read it stand still; let_go FIFO: they go on, and later ones don't stop.
hold() { mkfifo "$1"; }
let_go() {
  local writer
  exec {writer}<>"$1"
  rm "$1"
  exec {writer}>&-
}

# stands_still K: the run with the var k = K has begun to train, as its records say.
stands_still() {
  grep -qs '"phase": *"train"' "$(sql "SELECT a.dir FROM attempts AS a JOIN trials AS t ON t.id = a.trial
    WHERE a.state = 'running' AND json_extract(t.vars, '\$.k') = $1")/records.jsonl"
}

# sql QUERY: one value.
sql() { "$shardsweep" query --format csv "$1" | sed -n 2p; }

# Every process that works for this test: by its database's path in command line or environment.
ours() {
  local dir pid
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    if [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ]; then continue; fi
    if grep -qzF "$work/" "$dir/cmdline" 2>/dev/null; then
      echo "$pid"
    elif grep -qzF "SHARDSWEEP_DB=$SHARDSWEEP_DB" "$dir/environ" 2>/dev/null && works "$dir"; then
      echo "$pid"
    fi
  done
}
# works DIR: a program of ours or what one has started; not the shells and tools of the test.
works() {
  grep -qzE '^SHARDSWEEP_(MARKER|AGENT)=' "$1/environ" 2>/dev/null ||
    [[ $(readlink "$1/exe") == "$bin"/* ]]
}
none_of_ours() { [ -z "$(ours)" ]; }
end_ours() { ours | xargs -r kill -9 2>/dev/null || true; }

# leave STATUS COMMAND: at the end of the script. A command that failed unseen is named.
leave() {
  [ "$1" = 0 ] || [ "$1" = 77 ] || fail "'$2' ended with $1"
  release
  rm -rf "$work"
}
trap 'leave $? "$BASH_COMMAND"' EXIT
# CTest's limit.
trap 'fail "ended by SIGTERM${waiting_for:+ while it waited for: $waiting_for}"' TERM
