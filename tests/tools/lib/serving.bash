# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of `ui`, after e2e/lib.bash.
# shellcheck disable=SC2154,SC2034  # work, shardsweep: of lib.bash; address: for the test

# serve OPTION…: `server` is its pid, `address` what it has printed, `where` the file with what it said.
serve() {
  rm -f "$work/address"
  (umask 077 && exec "$shardsweep" ui "$@" >"$work/address" 2>"$where") &
  server=$!
  wait_for 'address' has_address
  address=$(cat "$work/address")
}
has_address() {
  ! is_over "$server" || fail "ui has ended: $(cat "$where")"
  grep -qs '/$' "$work/address"
}
where=$work/where

# A sweep of four trials on this machine, measured.
measured_first() {
  cat >"$work/first.yaml" <<'SWEEP'
name: first
cluster: this-machine
constants: {model: tiny, dtype: fp32, seq_len: 32, global_batch_size: 8}
axes:
  gpus: [1, 2]
  micro_batch: [1, 2]
  dp: auto
  grad_accum: auto
measure: {warmup: 1, steps: 3}
SWEEP
  "$shardsweep" run "$work/first.yaml" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
}
need_browser() {
  command -v chromium >/dev/null && /usr/bin/python3 -c 'import websockets' 2>/dev/null && return 0
  echo 'no chromium or no python3-websockets, no page was opened'
  exit 77
}
