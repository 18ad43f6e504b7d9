// SPDX-License-Identifier: Apache-2.0
// What the first rank of an attempt found in its environment: compared with what it was given
// while it runs, and written beside the runner's records when it is over, where whoever reads
// the result reads it too. A container that has changed what counts would do so on every node
// and at every try, so the attempt is rejected.
#pragma once

#include "agent/attempt_here.hpp"
#include "agent/environment_reading.hpp"
#include "attempt/container.hpp"

#include <optional>
#include <string>

namespace shardsweep::agent {

class EnvironmentRecord {
 public:
  /// `pid`: 0 for a step, whose ranks are slurmstepd's: the first one may be on another host.
  /// `inside`: the rank as it runs in its container, if it has one.
  EnvironmentRecord(const AttemptHere& here, pid_t pid, RankStart inside);

  /// `is_training`: for the last time. What speaks against the attempt, once.
  [[nodiscard]] std::optional<Evidence> look(bool is_training);
  /// The ranks are gone. Writes the records.
  [[nodiscard]] std::optional<Evidence> finish(const std::string& image_digest);

 private:
  [[nodiscard]] std::optional<Evidence> judge();
  void write(const WrittenRecord& record) const;

  const AttemptHere& here_;
  EnvironmentReading reading_;
  Timestamp since_;  ///< when the rank was started: whatever it made of it, it was so before
  bool is_judged_ = false;
};

}  // namespace shardsweep::agent
