# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests against a real Slurm: a cluster that ends with the test, commands as its user, and
# conditions that are waited for. `cluster` names it before this is sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=tests/tools/lib/waiting.bash
source "$root/tests/tools/lib/waiting.bash"
# shellcheck source=scripts/lib/checkout.bash
source "$root/scripts/lib/checkout.bash"
: "${cluster:?name of the cluster}"
slurm_cluster() { "$root/scripts/slurm-cluster" --name "$cluster" "$@"; }
as_user() { slurm_cluster as-user -- "$@"; }

# Missing root or packages: CTest counts the test as skipped.
if [ "$(id -u)" -ne 0 ]; then
  echo "skipped: a Slurm of one's own needs root" >&2
  exit 77
fi
if ! command -v slurmctld slurmd munged >/dev/null; then
  echo "skipped: needs scripts/packages slurm" >&2
  exit 77
fi

if ! others_may_enter "$root"; then
  echo "skipped: $(closed_checkout "$root")" >&2
  exit 77
fi

# show_all: what a test that fails says of itself.
show_all() {
  [ -e "${SLURM_CLUSTER_DIR:-}" ] || return 0
  as_user squeue --me -t all -o '%i %j %P %T %r %N' || true
  tail -n 15 "$SLURM_CLUSTER_DIR/log/slurmctld.log" || true
}
fail() {
  echo "FAILED: $*" >&2
  show_all >&2
  exit 1
}

# told_to_end: by `timeout`, when CTest's limit has come. A subshell sets the trap anew.
told_to_end() {
  trap '' TERM
  # shellcheck disable=SC2154  # waiting.bash's
  fail "told to end while it waited for ${waiting_for:-a command}"
}
trap told_to_end TERM

# job_state ID: state, reason and nodes, while squeue knows the job.
job_state() { as_user squeue -h -t all -j "$1" -o '%T %r %N' 2>/dev/null; }
# shellcheck disable=SC2053  # a pattern
job_is() { [[ $(job_state "$1") == $2 ]]; }

trap 'slurm_cluster down' EXIT
# Of a test that had the same pid.
if [ -e "${TMPDIR:-/tmp}/shardsweep-slurm-$cluster" ]; then slurm_cluster down; fi
