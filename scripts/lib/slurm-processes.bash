# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts/slurm-cluster: its daemons are started, waited for, found again and ended.
# shellcheck disable=SC2154  # the settings are the script's

# start_time PID: with the pid it names one process for good.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra stat <<<"${stat##*) }"
  # A zombie is dead.
  [ "${stat[0]}" != Z ] && echo "${stat[19]}"
}

# launch NAME COMMAND…: a daemon that stays in the foreground, in a session and with an
# environment of its own; that environment is how its children are recognised.
launch() {
  local daemon=$1 settings=(PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TZ="${TZ:-}"
    "SLURM_CONF=$dir/slurm.conf" "SHARDSWEEP_SLURM_CLUSTER=$dir")
  shift
  if [ -z "${TZ:-}" ]; then unset 'settings[2]'; fi
  if alive "$daemon"; then die "$daemon runs already"; fi
  (
    cd /
    umask 022
    # Jobs get these limits: no core files, as many open files as there may be.
    ulimit -c 0
    ulimit -n hard
    if [ -n "${lock:-}" ]; then exec {lock}<&-; fi
    exec env -i "${settings[@]}" setsid "$@"
  ) >"$dir/log/$daemon.out" 2>&1 </dev/null &
  echo "$! $(start_time $!)" >"$dir/pids/$daemon"
  disown $!
}

pid_of() {
  local pid _
  read -r pid _ 2>/dev/null <"$dir/pids/$1" && echo "$pid"
}
alive() {
  local pid started
  [ -r "$dir/pids/$1" ] || return 1
  read -r pid started <"$dir/pids/$1" || return 1
  [ "$(start_time "$pid")" = "$started" ]
}

# await DAEMON SECONDS COMMAND…: until COMMAND succeeds. A daemon that died is not waited for, nor
# one that has said 'fatal': a slurmctld was still there half a minute later.
await() {
  local daemon=$1 deadline=$((SECONDS + $2)) log why
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ! alive "$daemon"; then
      why='ended by itself'
    elif grep -q ': fatal: ' "$dir/log/$daemon.out"; then
      why='gave up'
    elif [ $SECONDS -ge $deadline ]; then
      why='does not answer in time'
    else
      sleep 0.05
      continue
    fi
    echo "slurm-cluster: $daemon $why" >&2
    for log in "$dir/log/$daemon.log" "$dir/log/$daemon.out"; do
      if [ -s "$log" ]; then tail -n 12 "$log" | sed "s|^|${log##*/}: |" >&2; fi
    done
    return 1
  done
}

listens() {
  local port
  port=$(printf ':%04X 00000000:0000 0A' "$1")
  grep -qF "$port" /proc/net/tcp
}

start_munge() {
  launch munged munged -F --force "--socket=$dir/run/munge.socket" \
    "--key-file=$dir/secret/munge.key" "--pid-file=$dir/run/munged.pid" \
    "--log-file=$dir/log/munged.log" "--seed-file=$dir/secret/munge.seed"
}
munge_answers() { munge -n -S "$dir/run/munge.socket" | unmunge -S "$dir/run/munge.socket"; }

# A temporary folder of its own: a server that starts removes what it takes for the leftovers of
# others in a shared one, which breaks another cluster that comes up at the same time.
database_options() {
  echo --no-defaults "--datadir=$dir/mysql" "--tmpdir=$dir/tmp" --user=root --innodb-buffer-pool-size=24M \
    --innodb-log-file-size=16M --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 \
    --innodb-use-native-aio=0 --innodb-lock-wait-timeout=900 --performance-schema=off \
    --aria-pagecache-buffer-size=4M --key-buffer-size=1M --skip-name-resolve
}
start_database() {
  local options
  read -ra options <<<"$(database_options)"
  if ! mariadb-install-db "${options[@]}" --skip-test-db >"$dir/log/install-db.out" 2>&1; then
    tail -n 12 "$dir/log/install-db.out" >&2
    return 1
  fi
  launch mariadbd mariadbd "${options[@]}" --skip-networking --skip-log-bin \
    "--socket=$dir/run/mysql.socket" "--pid-file=$dir/run/mariadbd.pid"
  # slurmdbd makes its database itself, by a second connect after one that failed. After that the
  # client library of MariaDB 11.8.9 allows no columns at all.
  await mariadbd 120 mariadb --no-defaults -S "$dir/run/mysql.socket" \
    -e 'CREATE DATABASE IF NOT EXISTS slurm_acct'
}

start_dbd() {
  # Its client library looks for the database's socket in the environment.
  launch slurmdbd env "MYSQL_UNIX_PORT=$dir/run/mysql.socket" slurmdbd -D
  await slurmdbd 120 sacctmgr -n list cluster
}

start_ctld() {
  launch slurmctld slurmctld -D
  await slurmctld 120 ctld_answers
}
ctld_answers() { timeout 5 scontrol ping | grep 'is UP' >/dev/null; }

launch_node() {
  local setup=$dir/setup/n$1
  if [ -e "$setup" ]; then
    # shellcheck disable=SC2016  # the inner shell's
    launch "n$1" unshare --mount --propagation private /bin/bash -ec '. "$1"; exec slurmd -D -N "$2"' \
      setup "$setup" "n$1"
  else
    launch "n$1" slurmd -D -N "n$1"
  fi
}
# setup_node N FILE
setup_node() {
  mkdir -p "$dir/setup"
  cp "$2" "$dir/setup/n$1"
  kill_node "$1"
  launch_node "$1"
  await_node "$1"
}
await_node() { await "n$1" 120 node_is_up "n$1"; }
node_is_up() {
  [ -n "$(sinfo -h -n "$1" -t idle,alloc,mix,comp,drain -o %n)" ] &&
    [ -z "$(sinfo -h -n "$1" -t no_respond,down -o %n)" ]
}

# One server checks tokens, the other whose process asks: a single one cannot do both. Each serves
# all versions that it knows: which these are depends on Slurm's own version.
start_rest() {
  local server=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --init-groups slurmrestd)
  rm -f "$dir/rest/socket"
  launch rest env SLURM_JWT=daemon "${server[@]}" -a rest_auth/jwt "127.0.0.1:$(rest_port)"
  launch rest-local "${server[@]}" -a rest_auth/local "unix:$dir/rest/socket"
  await rest 120 listens "$(rest_port)"
  await rest-local 120 test -S "$dir/rest/socket"
  note_api
}
# The newest version that the server has: v0.0.38 with Slurm 22.05.
note_api() {
  local api
  api=$(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --init-groups \
    curl -sS -m 30 --unix-socket "$dir/rest/socket" http://local/openapi/v3 |
    tr -d '\\' | grep -o '/slurm/v0\.0\.[0-9]*/job/submit' | cut -d/ -f3 | sort -V | tail -n 1) || true
  [ -n "$api" ] || die 'slurmrestd names no version with job/submit'
  sed -i '/^export SLURMRESTD_API=/d' "$dir/env"
  echo "export SLURMRESTD_API=$api" >>"$dir/env"
}
stop_rest() {
  stop rest -15
  stop rest-local -15
}

# stop DAEMON SIGNAL: and its end is waited for.
stop() {
  local pid deadline=$((SECONDS + 60))
  if alive "$1"; then
    pid=$(pid_of "$1")
    kill "$2" "$pid" 2>/dev/null || true
    while alive "$1"; do
      [ $SECONDS -lt $deadline ] || die "$1, pid $pid, does not end"
      sleep 0.02
    done
  fi
}

# with_environment ENTRY…: processes that were started with all of these in their environment.
with_environment() {
  local entry files
  files=(/proc/[0-9]*/environ)
  for entry in "$@"; do
    [ ${#files[@]} -gt 0 ] || return 0
    mapfile -t files < <(grep -lzxF -- "$entry" "${files[@]}" 2>/dev/null)
  done
  printf '%s\n' "${files[@]}" | sed -nE 's|^/proc/([0-9]+)/environ$|\1|p'
}

# A slurmstepd has written its title over its environment: it is known by the log that it holds
# open. log_holders LOG…
log_holders() {
  local link pid log target
  for link in /proc/[0-9]*/exe; do
    target=$(readlink "$link" 2>/dev/null) || continue
    if [[ $target != */slurmstepd* ]]; then continue; fi
    pid=${link#/proc/}
    pid=${pid%/exe}
    for log in "$@"; do
      if find "/proc/$pid/fd" -lname "$log" 2>/dev/null | grep . >/dev/null; then echo "$pid"; fi
    done
  done
}

job_processes() { with_environment "SLURM_CONF=$dir/slurm.conf" | with_job_id "$@"; }
with_job_id() {
  local pid
  while read -r pid; do
    if ! grep -qz '^SLURM_JOB_ID=' "/proc/$pid/environ" 2>/dev/null; then continue; fi
    if [ $# -gt 0 ] && ! grep -qzxF "SLURMD_NODENAME=$1" "/proc/$pid/environ" 2>/dev/null; then
      continue
    fi
    echo "$pid"
  done
}

kill_node() {
  local pids
  stop "n$1" -9
  mapfile -t pids < <(log_holders "$dir/log/n$1.log")
  end "${pids[@]}"
}

crash_node() {
  local pids
  kill_node "$1"
  mapfile -t pids < <(job_processes "n$1")
  end "${pids[@]}"
}

# Everything that belongs to this cluster: its daemons, their descendants, and processes of its
# jobs wherever they hang; never this script or what called it.
all_of_it() {
  local pids mine=" $$ $BASHPID " pid=$$
  while [ "$pid" -gt 1 ]; do
    pid=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
    mine+="$pid "
  done
  mapfile -t pids < <(
    {
      with_environment "SHARDSWEEP_SLURM_CLUSTER=$dir"
      local file
      for file in "$dir"/pids/*; do
        if alive "${file##*/}"; then pid_of "${file##*/}"; fi
      done
      log_holders "$dir/log/*"
      job_processes
    } | sort -un
  )
  [ ${#pids[@]} -gt 0 ] || return 0
  ps -e -o pid=,ppid=,stat= | awk -v roots="${pids[*]}" -v mine="$mine" '
    { parent[$1] = $2; state[$1] = $3 }
    END {
      split(roots, list, " ")
      for (i in list) in_it[list[i]] = 1
      do {
        more = 0
        for (p in parent) if (!(p in in_it) && (parent[p] in in_it)) { in_it[p] = 1; more = 1 }
      } while (more)
      for (p in in_it) if ((p in parent) && state[p] !~ /^Z/ && !index(mine, " " p " ")) print p
    }'
}

end() { [ $# -eq 0 ] || kill -9 "$@" 2>/dev/null || true; }

end_all() {
  local deadline pids
  while :; do
    mapfile -t pids < <(all_of_it)
    if [ ${#pids[@]} -eq 0 ]; then return 0; fi
    # From the first kill on: on a slow machine to look alone takes long.
    : "${deadline:=$((SECONDS + 120))}"
    [ $SECONDS -lt $deadline ] || return 1
    end "${pids[@]}"
    sleep 0.05
  done
}

# What jobs that were killed leave of their groups.
remove_cgroups() {
  local node deadline=$((SECONDS + 60))
  for ((node = 1; node <= nodes; ++node)); do
    while [ -d "/sys/fs/cgroup/memory/slurm_n$node" ]; do
      find "/sys/fs/cgroup/memory/slurm_n$node" -depth -type d -exec rmdir {} \; 2>/dev/null || true
      [ $SECONDS -lt $deadline ] || die "cannot remove /sys/fs/cgroup/memory/slurm_n$node"
    done
  done
}
