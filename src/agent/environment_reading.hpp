// SPDX-License-Identifier: Apache-2.0
// Reads back what the first rank of an attempt found in its environment, from /proc, until a
// train step has begun.
#pragma once

#include "attempt/effective_environment.hpp"

#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

class EnvironmentReading {
 public:
  /// `pid`: what was started for the rank: itself, or its container's runtime. `command` and
  /// `given`: of the rank, as it runs inside.
  EnvironmentReading(const AttemptSpec& spec, pid_t pid, int rank,
                     std::vector<std::string> command, const std::vector<std::string>& given,
                     double now_s);

  /// Looks less and less often; `is_training`: for the last time.
  void look(bool is_training, double now_s);
  /// What its container has changed, seen twice: a sentence. Empty: nothing.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  /// What was seen last; empty where nothing could be read.
  [[nodiscard]] const Variables& found() const { return found_; }
  /// The same, as it is kept.
  [[nodiscard]] Variables kept() const {
    return for_keeping(found_, wanted_, image_.empty() ? Keeping::of_the_rank : Keeping::all);
  }

 private:
  void judge(const Variables& own, const Variables& last);

  Variables wanted_;
  std::string image_;  ///< empty: no container, and nothing is held against anybody
  pid_t pid_;
  int rank_;
  std::vector<std::string> command_;
  Variables found_;
  std::vector<Overridden> changes_;  ///< at the last look
  std::string fault_;
  double next_s_;
  double pause_s_;
  bool done_ = false;
};

}  // namespace shardsweep::agent
