// SPDX-License-Identifier: Apache-2.0
// shardsweep: command line and daemon.
#include "cli/command_line.hpp"
#include "cli/commands/table.hpp"

int main(int argc, char** argv) {
  return shardsweep::run_program(shardsweep::all_commands(), argc, argv);
}
