# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of the class clock on a real Slurm: what tests/clusters/slurm has, and figures.
# `cluster` names the cluster and `bin` the programs before this is sourced.

soak=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/clusters/slurm/lib.bash
source "$soak/../clusters/slurm/lib.bash"
# shellcheck source=tests/clusters/slurm/sweeps.bash
source "$soak/../clusters/slurm/sweeps.bash"
# shellcheck source=tests/tools/lib/figures.bash
source "$soak/../tools/lib/figures.bash"
