#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A runner in bash: the contract is in runner/OWN_RUNNER.md. Replace train().
set -euo pipefail
if [ "$1" = --capabilities ]; then
  echo '{"runner":"mine-sh","version":"1.0","dtype":["fp32"]}'
  exit
fi
declare -A flag
while [ $# -gt 1 ]; do
  flag[$1]=$2
  shift 2
done
record() { # TYPE KEYS: one line of JSON
  printf '{"type":"%s","run_id":"%s","t":%s%s}\n' "$1" "${flag[--run-id]}" "$EPOCHREALTIME" "$2" >>"${flag[--records]}"
  sync "${flag[--records]}" # a result counts when it is on the disk
}
train() { sleep "0.0${flag[--micro-batch]}"; }

[ "$RANK" = 0 ] || { train; exit; }
record start ',"version":"1.0"'
record phase ',"phase":"train"'
begin=${EPOCHREALTIME/./}
train
us=$((${EPOCHREALTIME/./} - begin))
tokens=$((flag[--dp] * flag[--micro-batch] * flag[--grad-accum] * flag[--seq-len]))
record result ",\"tokens_per_s_per_gpu\":$((tokens * 1000000 / us / WORLD_SIZE)),\"train_step_ms\":$((us / 1000))"
