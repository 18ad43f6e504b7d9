// SPDX-License-Identifier: Apache-2.0
// A program beside the first rank that prints the trainer's version: same environment, same
// folder, over within a second or so.
#pragma once

#include "agent/spawn.hpp"

#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <string>
#include <vector>

namespace shardsweep::agent {

/// Of the trainer in `spec`, by the interpreter that its command line names, else python3;
/// empty: its versions are not told apart.
[[nodiscard]] std::vector<std::string> trainer_probe_command(const AttemptSpec& spec);

class TrainerProbe {
 public:
  /// `like`: the first rank's process, whose environment and folder it gets. Where it does not
  /// start there is no version.
  void start(const AttemptSpec& spec, RankProcess like, const std::filesystem::path& output);
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// It has been started and has not ended.
  [[nodiscard]] bool runs() const;
  void end();

 private:
  pid_t pid_ = 0;
};

}  // namespace shardsweep::agent
