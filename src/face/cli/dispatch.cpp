// SPDX-License-Identifier: Apache-2.0
// Names to commands, faults to exit codes.
#include "cli/session.hpp"

#include <array>
#include <utility>

namespace shardsweep {
namespace {

constexpr std::array<std::pair<std::string_view, Command>, 40> commands{{
    {"plan", command_plan},         {"submit", command_submit},
    {"run", command_run},           {"render", command_render},
    {"status", command_status},     {"follow", command_follow},
    {"pause", command_control},     {"resume", command_control},
    {"cancel", command_control},    {"rerun", command_control},
    {"show", command_show},         {"results", command_results},
    {"query", command_query},       {"best", command_best},
    {"heatmap", command_heatmap},   {"export", command_export},
    {"daemon", command_daemon},     {"tick", command_tick},
    {"doctor", command_doctor},     {"gc", command_gc},
    {"replay", command_replay},     {"evaluate-memory", command_evaluate_memory},
    {"nodes", command_nodes},       {"import", command_import},
    {"suggest", command_suggest},   {"calibrate", command_calibrate},
    {"new", command_new},           {"presets", command_presets},
    {"names", command_names},       {"help", command_help},
    {"logs", command_logs},         {"delete", command_control},
    {"read-log", command_read_log}, {"report", command_report},
    {"explain", command_explain},   {"frontier", command_frontier},
    {"compare", command_compare},   {"init", command_init},
    {"selftest", command_selftest}, {"extrapolate", command_extrapolate},
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
    case FaultKind::internal:
      break;
  }
  return ExitCode::failed;
}

}  // namespace shardsweep
