// SPDX-License-Identifier: Apache-2.0
// Port: running other programs, with limits on their time and on their output.
#pragma once

#include <shardsweep/result.hpp>

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

struct CommandOutput {
  int exit_code = -1;  ///< -1 if a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
  bool truncated = false;  ///< the output exceeded `output_limit`
};

struct CommandOptions {
  std::chrono::milliseconds deadline{10'000};
  std::size_t output_limit = 4 << 20;  ///< bytes of stdout and of stderr each
  /// Returns the part of each piece of stdout to keep, which counts for `output_limit`; empty: keep
  /// all. A fault ends the program and is returned.
  std::function<Result<std::string>(std::string_view piece)> keep{};
  /// "NAME=value": all that it gets; none: what we have.
  std::optional<std::vector<std::string>> environment{};
};

/// A program that runs beside the poll loop. argv[0] is a path or a name on PATH; no shell.
class RunningCommand {
 public:
  [[nodiscard]] static Result<RunningCommand> start(
      const std::vector<std::string>& argv, const CommandOptions& options);
  RunningCommand(RunningCommand&&) noexcept;
  RunningCommand& operator=(RunningCommand&&) noexcept;
  ~RunningCommand();  ///< ends it, and what it started, if it still runs

  /// Polls without blocking. Returns the output once the program has ended, also if its remains
  /// keep the output open; `timed_out` after its whole process group was ended at the deadline.
  [[nodiscard]] std::optional<Result<CommandOutput>> poll();
  /// Waits for that.
  [[nodiscard]] Result<CommandOutput> wait();
  /// Readable when the program has ended and a poll() is worthwhile; -1: not known.
  [[nodiscard]] int ended_descriptor() const;

 private:
  struct State;
  explicit RunningCommand(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Runs a program to its end.
[[nodiscard]] Result<CommandOutput> run_command(
    const std::vector<std::string>& argv, const CommandOptions& options);

/// Starts a program in a session of its own, with standard input from /dev/null and output
/// appended to `log`. The program may outlive its caller, which otherwise must reap it.
[[nodiscard]] Result<pid_t> spawn_detached(
    const std::vector<std::string>& argv, const std::filesystem::path& log);

/// "NAME=value" of all variables that this process has.
[[nodiscard]] std::vector<std::string> own_environment();

/// Name of this user on this machine: from /etc/passwd, else from the program `id`; empty if the
/// number has no name. glibc is not asked: a static program has no other libraries.
[[nodiscard]] const std::string& user_name();

/// Absolute path of a program on PATH; empty if there is none.
[[nodiscard]] std::filesystem::path find_on_path(const std::string& program);

// Port: an end for a call of a library that asks nobody whether it may go on.

/// If it lives longer than `limit`, the process writes `words` and a line end to stderr and
/// ends at once with `exit_code`, without destructors: for programs that only read. One at a
/// time.
class Overtime {
 public:
  Overtime(std::chrono::seconds limit, const std::string& words, int exit_code);
  Overtime(const Overtime&) = delete;
  Overtime& operator=(const Overtime&) = delete;
  ~Overtime();
};

}  // namespace shardsweep
