# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For what measures: figures as JSON lines.

# figure NAME KEY=VALUE…: one line on standard output. A value that is a number stays one.
figure() {
  local line pair value
  line="{\"figure\":\"$1\""
  shift
  for pair in "$@"; do
    value=${pair#*=}
    [[ $value =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?$ ]] || value="\"${value//[\"\\]/ }\""
    line+=",\"${pair%%=*}\":$value"
  done
  echo "$line}"
}
