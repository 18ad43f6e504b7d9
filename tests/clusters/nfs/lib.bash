# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Two hosts that share a home over a scripted NFS (scripted_nfs.cpp): host a is this mount
# namespace, where the daemon runs; host b is another, where leads, agents and ranks run. Both
# see the home under the same path. As root.
if [ "$(id -u)" != 0 ] || [ ! -w /dev/fuse ] || [ ! -x "$1/scripted_nfs" ] ||
  ! unshare -m true 2>/dev/null; then
  echo 'SKIPPED: the scripted NFS needs root, /dev/fuse, libfuse3 and mount namespaces'
  exit 77
fi
: "${here:?}"
[ -n "${IN_NAMESPACE:-}" ] || IN_NAMESPACE=1 exec unshare -m "$0" "$@"
# shellcheck source=tests/programs/e2e/lib.bash
source "$here/../../programs/e2e/lib.bash" "$1"

cache=${SHARDSWEEP_NFS_CACHE:-3} # seconds that stand for NFS's 60
home=$work/home_of_sweeps
rules=$work/rules
counts=$work/counts
server=0
host_b=0

# start_nfs FLAGS…: mounts an empty home on both hosts.
start_nfs() {
  mkdir -p "$work/server" "$work/a" "$work/b" "$home" "$work/bin"
  "$bin/scripted_nfs" --folder "$work/server" --a "$work/a" --b "$work/b" --cache "$cache" \
    --rules "$rules" --counts "$counts" "$@" &
  server=$!
  wait_for 'mount of host a' mountpoint -q "$work/a"
  wait_for 'mount of host b' mountpoint -q "$work/b"
  mount --bind "$work/a" "$home"
  # shellcheck disable=SC2016  # for the inner shell
  unshare -m --uts --propagation private \
    sh -c 'hostname host-b; mount --bind "$0/b" "$1"; : >"$0/b_is_up"; exec tail -f /dev/null' "$work" "$home" &
  host_b=$!
  wait_for 'host b' test -e "$work/b_is_up"
  cp "$bin/shardsweep" "$work/bin/"
  ln -sfn "$bin/shardbench-cpu" "$work/bin/shardbench-cpu"
  ln -sfn "$bin/../share" "$work/share"
  printf '#!/bin/sh\nexec nsenter -t %s --mount --uts --root -- "%s" "$@"\n' "$host_b" \
    "$bin/shardsweep-agent" >"$work/bin/shardsweep-agent"
  chmod +x "$work/bin/shardsweep-agent"
  shardsweep=$work/bin/shardsweep
  export SHARDSWEEP_DB=$home/test.db
}

# Read where it lies: a file system with a fault may not answer.
daemon_log() { echo "$work/server/test.db.d/daemon.log"; }

# Also after a failure: host b would keep the output of this script open, and ctest would wait
# for its end.
release() {
  end_ours
  umount -l "$home" "$work/a" "$work/b" 2>/dev/null || true
  for pid in $server $host_b; do
    [ "$pid" = 0 ] || kill -9 "$pid" 2>/dev/null || true
    [ "$pid" = 0 ] || wait "$pid" 2>/dev/null || true
  done
  server=0
  host_b=0
}
end_nfs() {
  release
  rm -rf "$work/server" "$work/b_is_up" "$rules"
}

# on_b COMMAND…: on the other host.
on_b() { nsenter -t $host_b --mount --uts --root -- "$@"; }

# fault LINE…: these rules from now on; none: no fault.
fault() {
  if [ $# -eq 0 ]; then
    rm -f "$rules"
    return
  fi
  printf '%s\n' "$@" >"$rules.new"
  mv "$rules.new" "$rules"
}

count_of() { awk -v h="$1" -v o="$2" '$1 == h && $2 == o { print $3 }' "$counts"; }

running() { [ "$(sql "SELECT count(*) FROM attempts WHERE state = 'running'")" -ge 1 ]; }
says() { grep -qF "$1" <<<"$("$shardsweep" status 2>&1)"; }
ended() { [ "$(sql "SELECT count(*) FROM trials WHERE state <> 'ended'")" = 0 ]; }

# No lease runs out on a busy machine, unless the case says so.
submit() {
  "$shardsweep" submit "$here/../../programs/e2e/kill.yaml" --set watch.agent_lease=300s \
    --set watch.node_lease=300s "$@" >"$work/said" 2>&1 ||
    fail "submit: $(cat "$work/said")"
}

# Everything was measured, counted once, and nobody was charged.
# shellcheck disable=SC2120  # most sweeps have six
check_whole() {
  local trials=${1:-6}
  [ "$(sql "SELECT count(*) FROM trials WHERE outcome = 'completed'")" = "$trials" ] ||
    fail "completed: $(sql "SELECT group_concat(outcome || ': ' || cause, '; ') FROM trials WHERE outcome <> 'completed'")"
  [ "$(sql "SELECT count(*) FROM attempts WHERE counted")" = "$trials" ] || fail 'counted twice, or not at all'
  [ "$(sql "SELECT sum(charged) FROM trials")" = 0 ] ||
    fail "charged: $(sql "SELECT group_concat(cause, '; ') FROM attempts WHERE outcome <> 'completed'")"
}
# Nothing had to be done twice.
check_no_retry() {
  [ "$(sql "SELECT count(*) FROM attempts WHERE outcome <> 'completed'")" = 0 ] ||
    fail "attempts that failed: $(sql "SELECT group_concat(outcome || ': ' || cause, '; ') FROM attempts WHERE outcome <> 'completed'")"
}
