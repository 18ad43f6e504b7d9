// SPDX-License-Identifier: Apache-2.0
// What a program of commands does with its arguments.
#include "cli/command_line.hpp"
#include "cli/printing.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <optional>

namespace shardsweep {
namespace {

int fail(std::string_view program, const Fault& fault) {
  // A message about a user's file already reads `file:line:column: …`.
  const bool placed =
      fault.kind == FaultKind::invalid_input && fault.what.find('\n') != std::string::npos;
  say(placed ? fault.what : fmt::format("{}: {}", program, fault.what));
  const bool wrong = fault.kind == FaultKind::invalid_input;
  const bool interrupted = fault.kind == FaultKind::interrupted;
  return static_cast<int>(wrong ? ExitCode::wrong
          : interrupted         ? ExitCode::interrupted
                                : ExitCode::failed);
}

int run(std::span<const Command* const> commands, int argc, char** argv, std::string_view program) {
  // A closed pipe and a limit on the size of files are errors of ours to report, no death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const ParsedArguments parsed = parse_arguments(commands, argc, argv, program);
  if (parsed.exit_code) return *parsed.exit_code;
  const auto home = find_home(parsed.options.db);
  if (!home) return fail(program, home.error());
  const auto installation = find_installation();
  if (!installation) return fail(program, installation.error());
  if (const auto checked = check_output(*home, parsed.options.out); !checked)
    return fail(program, checked.error());
  const SystemClock clock;
  Session session{parsed.options, *home, *installation, clock};
  const Command& command = *find_command(commands, parsed.options.command);
  std::optional<ProgressLine> ongoing;
  if (!command.own_lines) ongoing.emplace(fmt::format("{} {}", program, command.name), clock);
  if (command.last_sweep) mean_last_sweep(session);
  const auto code = command.run(session);
  return code ? static_cast<int>(*code) : fail(program, code.error());
}

}  // namespace

int run_program(
    std::span<const Command* const> commands, int argc, char** argv, std::string_view program) {
  try {
    return run(commands, argc, argv, program);
  } catch (const std::exception& error) {
    say("{}: internal error: {}", program, error.what());
    return 1;
  }
}

}  // namespace shardsweep
