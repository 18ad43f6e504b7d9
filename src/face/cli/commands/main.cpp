// SPDX-License-Identifier: Apache-2.0
// shardsweep: command line and daemon.
#include "cli/command_line.hpp"
#include "cli/commands/table.hpp"

#include <array>
#include <string>

int main(int argc, char** argv) {
  // The program without arguments says what to do next.
  std::string status = "status";
  std::string next = "--next";
  std::array<char*, 4> alone{argv[0], status.data(), next.data(), nullptr};
  if (argc == 1) return shardsweep::run_program(shardsweep::all_commands(), 3, alone.data());
  return shardsweep::run_program(shardsweep::all_commands(), argc, argv);
}
