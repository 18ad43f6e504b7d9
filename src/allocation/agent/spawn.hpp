// SPDX-License-Identifier: Apache-2.0
// fork and exec, for a rank and for the lead's one child. After them nothing of ours is open
// in the child, no signal is blocked and none ignored.
#pragma once

#include "attempt/attempt_machine.hpp"
#include "machine/descriptor.hpp"

#include <shardsweep/result.hpp>

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::agent {

struct RankProcess {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::filesystem::path directory;    ///< working folder
  std::filesystem::path output;       ///< stdout and stderr, appended
  pid_t group = 0;                    ///< 0: leads a new process group
  std::int64_t file_limit_bytes = 0;  ///< 0: none
};

/// A program that can't be started says so in its output and in `report`, and exits with 127.
[[nodiscard]] Result<pid_t> start_rank(const RankProcess& rank, Descriptor* report = nullptr);

/// Reads the report of a process that has ended; empty: its program was started.
[[nodiscard]] std::optional<StartFailure> start_failure(const Descriptor& report);
/// Finds a failed start in the last line that a task of a Slurm step has printed.
[[nodiscard]] std::optional<StartFailure> start_failure_in(std::string_view last_line);

/// Becomes that rank in this process, a task of a Slurm step; only returns if it can't.
[[nodiscard]] int become_step_rank(const RankProcess& rank);

/// Environment of this process at this moment.
[[nodiscard]] std::vector<std::string> current_environment();

/// Absolute path of this program.
[[nodiscard]] Result<std::string> own_program();

/// The program of that name in the absolute folders of PATH. Without PATH, as in a job that was
/// submitted with --export=NIL, those of a shell.
[[nodiscard]] Result<std::string> find_program(
    const std::string& name, const std::vector<std::string>& environment);

/// A child and its two pipes.
struct PipedChild {
  pid_t pid = 0;
  Descriptor to;    ///< stdin of the child
  Descriptor from;  ///< stdout of the child
};
[[nodiscard]] Result<PipedChild> start_piped(
    const std::vector<std::string>& argv, const std::vector<std::string>& environment);

}  // namespace shardsweep::agent
