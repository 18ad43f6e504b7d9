// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a run as the agent does, one process each, and waits for them.
#pragma once

#include "measurement/recorder_report.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace shardbench {

/// A folder of its own under the system's temporary folder, removed with its contents.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// How a rank is told who it is.
enum class Identity { flags, slurm };

struct Surroundings {
  std::string output = "/dev/null";  // file that takes what the ranks write to stdout
  std::string errors = "/dev/null";  // and to stderr
  Identity identity = Identity::flags;
};

class Launch {
 public:
  /// Ranks [0, world) of `program`, each with its identity and `arguments`.
  Launch(const std::string& program, int world, const std::vector<std::string>& arguments,
      const Surroundings& surroundings = {});
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  /// Sends a signal; after SIGSTOP the rank stands still.
  void signal(int rank, int number) const;
  /// Exit codes by rank; −signal for a killed one, still_running for one that is there after
  /// `limit_s`. Does not wait for rank `except`.
  std::vector<int> wait(double limit_s, int except = -1);
  static constexpr int still_running = 1000;

 private:
  bool is_running(int except);

  std::vector<pid_t> pids_;
  std::vector<int> codes_;
};

/// Longer than any run of these tests takes on any machine, in seconds.
constexpr double patience_s = 600;
/// Gives later launches the clock of hand_clock.hpp, which is the library `preload`.
void use_hand_clock(const std::string& preload);
/// Moves it at once.
void let_pass(double seconds);
/// The value of --deadline for `phase`.
std::string deadline(const std::string& phase, double seconds);
/// A small model with records and recorder in `folder`, and `more`. Its deadlines are short
/// by the clock of hand_clock.hpp, without which they are not to pass.
std::vector<std::string> flags_in(const ScratchFolder& folder, std::vector<std::string> more);

std::string read_file(const std::string& path);
/// Waits until `path` contains `text`; false after `limit_s`.
bool wait_for_text(const std::string& path, const std::string& text, double limit_s);

/// Ranks that the flight recorders in `folder` blame.
std::vector<i64> guilty_ranks(const ScratchFolder& folder);
/// Waits until they name `ranks`, once; false after `limit_s`.
bool wait_for_guilty(const ScratchFolder& folder, const std::vector<i64>& ranks, double limit_s);

}  // namespace shardbench
