# SPDX-License-Identifier: Apache-2.0
# What scripts/gpu-check is made of: rows of its table, figures out of records, measurements with a
# time of their own. The caller sets $out, $rows and $self; nothing here knows what is measured.
# shellcheck shell=bash disable=SC2154

note() { printf '%s\n' "$*" >&2; }

# row NAME VALUE AIM VERDICT: VERDICT is ok, FAIL, missed, or a reason why it was left out.
row() {
  local name value
  name=${1//[\"\\]/}
  value=${2//[\"\\]/}
  printf '%-44s %-34s %-22s %s\n' "$name" "$value" "$3" "$4" | tee -a "$rows.txt" >&2
  printf '{"check":"%s","value":"%s","aim":"%s","verdict":"%s"}\n' "$name" "$value" "$3" "$4" \
    >>"$rows.json"
}

# number VALUE: it is one.
number() { [[ $1 =~ ^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$ ]]; }

# field FILE KEY: the last number of that name in a file of JSON, with or without a space after
# the colon; nothing where there is none.
field() {
  grep -oE "\"$2\": *[-+.0-9eE]+" "$1" 2>/dev/null | tail -n 1 | sed 's/.*: *//' || true
}

# word FILE KEY: likewise the last text.
word() {
  grep -oE "\"$2\": *\"[^\"]*\"" "$1" 2>/dev/null | tail -n 1 | sed 's/^[^:]*: *"//; s/"$//' ||
    true
}

# calc EXPRESSION NUMBER...: of awk, in which the numbers are a, b, c, d; nothing where one of them
# is no number.
calc() {
  local expression=$1 names=(a b c d) i=0 value
  local assignments=()
  shift
  for value in "$@"; do
    number "$value" || return 0
    assignments+=(-v "${names[i]}=$value")
    i=$((i + 1))
  done
  awk "${assignments[@]}" "BEGIN { if (($expression) == ($expression) + 0)
    printf \"%.6g\", ($expression) }" 2>/dev/null || true
}

# holds CONDITION NUMBER...: of awk, likewise.
holds() {
  local expression=$1
  shift
  [ "$(calc "($expression) ? 1 : 0" "$@")" = 1 ]
}

# figure NAME VALUE AIM CONDITION WORD: a row for a number a; an empty one FAILs. WORD stands where
# CONDITION does not hold; without one every number is ok.
figure() {
  if ! number "$2"; then
    row "$1" "no figure" "$3" FAIL
  elif [ -z "${4:-}" ] || holds "$4" "$2"; then
    row "$1" "$2" "$3" ok
  else
    row "$1" "$2" "$3" "$5"
  fi
}

# last_line FILE: what a program said in the end, as a value of the table.
last_line() { tail -n 1 "$1" 2>/dev/null | cut -c1-60; }

# program NAME LIMIT COMMAND...: a test program that says on its last line what it found.
program() {
  local name=$1 limit=$2 code=0
  shift 2
  timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1 || code=$?
  row "$name" "$(last_line "$out/$name.log")" 'exit 0' "$([ $code -eq 0 ] && echo ok || echo FAIL)"
}

# measurement NAME SECONDS: runs it as a process of its own, and marks it as done. Where it does not
# end, or fails, the rest goes on, and its row says so.
measurement() {
  local name=$1 limit=$2 code=0 log
  rows=$out/rows/$name
  rm -f "$rows".*
  : >"$rows.txt"
  : >"$rows.json"
  note "== $name, at most $limit s"
  timeout --kill-after=5 "$limit" "$self" --within "$name" "$out" || code=$?
  case $code in
    0) ;;
    124 | 137) row "$name" "not done within $limit s" - FAIL ;;
    *) row "$name" "exit $code" 'exit 0' FAIL ;;
  esac
  if grep -q '"verdict":"FAIL"' "$rows.json"; then
    for log in "$out/$name"*.log; do
      [ ! -s "$log" ] || printf '== %s\n%s\n' "${log##*/}" "$(tail -n 30 "$log")" >>"$rows.log"
    done
  fi
  : >"$rows.done"
}
