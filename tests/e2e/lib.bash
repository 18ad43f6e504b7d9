# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For end-to-end tests: a home of their own, conditions waited for with a deadline, and what of
# ours is still alive.

# shellcheck source=tests/lib/patience.bash
source "$(dirname "${BASH_SOURCE[0]}")/../lib/patience.bash"

bin=${1:?folder of the programs}
shardsweep=$bin/shardsweep
work=$(mktemp -d)
export SHARDSWEEP_DB=$work/test.db HOME=$work/home XDG_CONFIG_HOME=$work/home/.config
unset SHARDSWEEP_HOME
mkdir -p "$HOME"

fail() {
  echo "FAILED: $*" >&2
  [ ! -e "$SHARDSWEEP_DB.d/daemon.log" ] || tail -n 30 "$SHARDSWEEP_DB.d/daemon.log" >&2
  echo "kept: $work" >&2
  trap - EXIT
  end_ours
  exit 1
}

# wait_for SECONDS WHAT COMMAND…: until COMMAND succeeds; SECONDS are those of a quiet machine.
wait_for() {
  local deadline=$((SECONDS + $1 * $(patience))) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $deadline ] || fail "no $what in time"
    sleep 0.02
  done
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

cleanup() {
  end_ours
  rm -rf "$work"
}
trap cleanup EXIT
