# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Fail points of include/shardsweep/fail_point.hpp, for scripts: where a program dies, stands still
# or meets a full disk. A test that needs the same point twice asks for it with another folder.

# failing_at FOLDER NAME[:n]:ACTION[,…] COMMAND…: runs COMMAND, and what it starts, with them.
failing_at() {
  local folder=$1 points=$2
  shift 2
  mkdir -p -m 777 "$folder"
  SHARDSWEEP_FAIL_DIR=$folder SHARDSWEEP_FAIL_AT=$points "$@"
}
# reached FOLDER NAME: a process is there, or has been; its pid is in the file.
reached() { [ -s "$1/$2" ]; }
# go_on FOLDER NAME: ends the waiting of wait-for-file.
go_on() { : >"$1/$2.go"; }
