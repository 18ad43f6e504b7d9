# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests against a real Slurm: a cluster that ends with the test, commands as its user, and
# conditions waited for with a deadline. `cluster` names it before this is sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=tests/tools/lib/patience.bash
source "$root/tests/tools/lib/patience.bash"
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

fail() {
  echo "FAILED: $*" >&2
  if [ -e "${SLURM_CLUSTER_DIR:-}" ]; then
    as_user squeue --me -t all -o '%i %j %P %T %r %N' >&2 || true
    tail -n 15 "$SLURM_CLUSTER_DIR/log/slurmctld.log" >&2 || true
  fi
  exit 1
}

# wait_for SECONDS WHAT COMMAND…: until COMMAND succeeds; SECONDS are those of a quiet machine.
wait_for() {
  local deadline=$((SECONDS + $1 * $(patience))) what=$2
  shift 2
  until "$@"; do
    [ $SECONDS -lt $deadline ] || fail "no $what in time"
    sleep 0.1
  done
}

# job_state ID: state, reason and nodes, while squeue knows the job.
job_state() { as_user squeue -h -t all -j "$1" -o '%T %r %N' 2>/dev/null; }
job_is() { [[ $(job_state "$1") == $2 ]]; }  # a pattern

trap 'slurm_cluster down' EXIT
slurm_cluster down
