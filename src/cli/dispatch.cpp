// SPDX-License-Identifier: Apache-2.0
// Names to commands, faults to exit codes, and the two streams.
#include "cli/cell_text.hpp"
#include "cli/session.hpp"
#include "cli/terminal.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::array<std::pair<std::string_view, Command>, 30> commands{{
    {"plan", command_plan},       {"submit", command_submit},
    {"run", command_run},         {"render", command_render},
    {"status", command_status},   {"follow", command_follow},
    {"pause", command_control},   {"resume", command_control},
    {"cancel", command_control},  {"rerun", command_control},
    {"show", command_show},       {"results", command_results},
    {"query", command_query},     {"best", command_best},
    {"heatmap", command_heatmap}, {"export", command_export},
    {"daemon", command_daemon},   {"tick", command_tick},
    {"doctor", command_doctor},   {"gc", command_gc},
    {"replay", command_replay},   {"evaluate-memory", command_evaluate_memory},
    {"nodes", command_nodes},     {"import", command_import},
    {"suggest", command_suggest}, {"calibrate", command_calibrate},
    {"new", command_new},         {"presets", command_presets},
    {"names", command_names},     {"help", command_help},
}};

}  // namespace

Command find_command(const std::string& name) {
  for (const auto& [word, command] : commands) {
    if (word == name) return command;
  }
  return nullptr;
}

ExitCode exit_code_of(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::invalid_input:
      return ExitCode::wrong;
    case FaultKind::interrupted:
      return ExitCode::interrupted;
    case FaultKind::rejected:
    case FaultKind::unavailable:
    case FaultKind::timed_out:
    case FaultKind::busy:
    case FaultKind::corrupt:
      break;
  }
  return ExitCode::failed;
}

Result<void> print_result(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0) {
    // Who reads has seen enough (`results | head`): leave as every command does.
    if (errno == EPIPE) {
      std::signal(SIGPIPE, SIG_DFL);
      std::raise(SIGPIPE);
    }
    return fault(FaultKind::unavailable,
                 fmt::format("standard output: {}", std::strerror(errno)));
  }
  return {};
}

void say(std::string_view text) {
  // A line and a caret below it stay as they are.
  const auto width = terminal_of(STDERR_FILENO).width;
  const bool fold =
      width && ::isatty(STDERR_FILENO) == 1 && text.find('\n') == std::string_view::npos;
  std::string shown;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    // Names, causes and what other programs said may hold codes that a terminal obeys.
    const std::string line = printable(text.substr(at, end - at));
    for (const std::string& part : fold ? folded(line, *width) : std::vector{line})
      shown += part + '\n';
    at = end + 1;
  }
  std::fwrite(shown.data(), 1, shown.size(), stderr);
}

}  // namespace shardsweep
