// SPDX-License-Identifier: Apache-2.0
// shardsweep: command line and daemon.
#include "cli/command_line.hpp"
#include "cli/commands/table.hpp"
#include "cli/ongoing.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"

#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <optional>

namespace {

using namespace shardsweep;

int fail(const Fault& fault) {
  // A message about a user's file already reads `file:line:column: …`.
  const bool placed =
      fault.kind == FaultKind::invalid_input && fault.what.find('\n') != std::string::npos;
  say(placed ? fault.what : "shardsweep: " + fault.what);
  const bool wrong = fault.kind == FaultKind::invalid_input;
  const bool interrupted = fault.kind == FaultKind::interrupted;
  return static_cast<int>(wrong ? ExitCode::wrong
          : interrupted         ? ExitCode::interrupted
                                : ExitCode::failed);
}

int run(int argc, char** argv) {
  // A closed pipe and a limit on the size of files are errors of ours to report, no death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const Parsed parsed = parse_arguments(all_commands(), argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto home = find_home(parsed.options.db);
  if (!home) return fail(home.error());
  const auto installation = find_installation();
  if (!installation) return fail(installation.error());
  const SystemClock clock;
  Session session{parsed.options, *home, *installation, clock};
  const Command& command = *find_command(all_commands(), parsed.options.command);
  std::optional<Ongoing> ongoing;
  if (!command.own_lines) ongoing.emplace(fmt::format("shardsweep {}", command.name), clock);
  if (command.last_sweep) mean_last_sweep(session);
  const auto code = command.run(session);
  return code ? static_cast<int>(*code) : fail(code.error());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    say(std::string("shardsweep: internal error: ") + error.what());
    return 1;
  }
}
