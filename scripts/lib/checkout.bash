# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The tests' Slurm runs jobs as a user without rights, from the checkout and its build folder.

# others_may_enter FOLDER
others_may_enter() {
  setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$1" -a -r "$1/README.md"
}

closed_checkout() {
  echo "the tests on Slurm run as user nobody, who may not enter $1. Clone to a folder that" \
    "others may enter, such as /srv."
}
