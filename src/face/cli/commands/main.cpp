// SPDX-License-Identifier: Apache-2.0
// shardsweep: command line and daemon.
#include "cli/command_line.hpp"
#include "cli/commands/table.hpp"

#include <string>
#include <string_view>
#include <vector>

int main(int argc, char** argv) {
  // The program without a command says what to do next, with a database of one's choice, too.
  std::string status = "status";
  std::string next = "--next";
  const std::string_view first = argc > 1 ? argv[1] : "";
  const bool alone = argc == 1 || (argc == 2 && first.starts_with("--db=")) ||
      (argc == 3 && first == "--db" && *argv[2] != '-');
  if (!alone) return shardsweep::run_program(shardsweep::all_commands(), argc, argv);
  std::vector<char*> words{argv[0], status.data(), next.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  words.push_back(nullptr);
  return shardsweep::run_program(
      shardsweep::all_commands(), static_cast<int>(words.size()) - 1, words.data());
}
