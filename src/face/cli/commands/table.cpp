// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/table.hpp"

#include <array>

// A line for each command, in the order of help.
#define SHARDSWEEP_COMMANDS(ROW) \
  ROW(command_new)               \
  ROW(command_plan)              \
  ROW(command_submit)            \
  ROW(command_run)               \
  ROW(command_suggest)           \
  ROW(command_explore)           \
  ROW(command_calibrate)         \
  ROW(command_render)            \
  ROW(command_status)            \
  ROW(command_follow)            \
  ROW(command_logs)              \
  ROW(command_pause)             \
  ROW(command_resume)            \
  ROW(command_cancel)            \
  ROW(command_rerun)             \
  ROW(command_delete)            \
  ROW(command_next)              \
  ROW(command_record)            \
  ROW(command_show)              \
  ROW(command_results)           \
  ROW(command_query)             \
  ROW(command_best)              \
  ROW(command_explain)           \
  ROW(command_compare)           \
  ROW(command_baseline)          \
  ROW(command_history)           \
  ROW(command_bisect)            \
  ROW(command_extrapolate)       \
  ROW(command_frontier)          \
  ROW(command_heatmap)           \
  ROW(command_report)            \
  ROW(command_ui)                \
  ROW(command_export)            \
  ROW(command_import)            \
  ROW(command_knowledge)         \
  ROW(command_read_log)          \
  ROW(command_nodes)             \
  ROW(command_daemon)            \
  ROW(command_tick)              \
  ROW(command_forget)            \
  ROW(command_doctor)            \
  ROW(command_preflight)         \
  ROW(command_bundle)            \
  ROW(command_init)              \
  ROW(command_selftest)          \
  ROW(command_gc)                \
  ROW(command_presets)           \
  ROW(command_trainers)          \
  ROW(command_names)             \
  ROW(command_help)

namespace shardsweep {

#define SHARDSWEEP_DECLARE(command) extern const Command command;
SHARDSWEEP_COMMANDS(SHARDSWEEP_DECLARE)

std::span<const Command* const> all_commands() {
#define SHARDSWEEP_ADDRESS(command) &(command),
  static const auto all = std::to_array({SHARDSWEEP_COMMANDS(SHARDSWEEP_ADDRESS)});
  return all;
}

}  // namespace shardsweep
