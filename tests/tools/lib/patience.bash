# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests that wait for a condition with a limit. A limit is what a quiet machine needs with room
# to spare; where others compute too, everything takes longer by their share.

# patience: the factor, a whole number: 2, and the load of each processor.
patience() {
  local load
  read -r load _ </proc/loadavg
  echo $((2 + ${load%.*} / $(nproc)))
}
