// SPDX-License-Identifier: Apache-2.0
// Reads back what the first rank of an attempt found in its environment: what was written for
// it when it began, and what /proc shows of it until a train step has begun.
#pragma once

#include "agent/attempt_here.hpp"
#include "attempt/container.hpp"
#include "attempt/effective_environment.hpp"

#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

struct FirstRank {
  /// Process that was started for the rank: itself, or its container's runtime. 0: not ours.
  pid_t pid = 0;
  int rank = 0;
  std::vector<std::string> command;  ///< command as it runs inside
  std::vector<std::string> given;    ///< environment that the rank was given
  /// File into which the rank writes its environment when it begins (telling_environment).
  std::filesystem::path told;
};

/// Writes the environment of a rank on the host, in the process that becomes the rank.
void tell_environment(
    const std::filesystem::path& file, const std::vector<std::string>& environment);

class EnvironmentReading {
 public:
  EnvironmentReading(const AttemptSpec& spec, FirstRank rank, double now_s);

  /// Looks less and less often; `is_training`: for the last time.
  void look(bool is_training, double now_s);
  /// Ends the reading when the rank is gone, perhaps before any look. Removes the file.
  void finish();
  /// Sentence on what the container has changed; empty: nothing.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  /// Environment at the last look; empty if nothing could be read.
  [[nodiscard]] const Variables& found() const { return found_; }
  /// Environment in the form that is stored.
  [[nodiscard]] Variables kept() const {
    return for_keeping(
        found_, wanted_, image_.empty() ? Keeping::of_the_rank : Keeping::all, secrets_);
  }

 private:
  void judge(const Variables& own, const Variables& last);
  void read_told();
  void take(Variables own, Variables last);

  Variables wanted_;
  std::vector<std::string> secrets_;  ///< variables whose values are kept nowhere
  std::string image_;                 ///< empty: no container, and nothing is held against anybody
  FirstRank rank_;
  Variables told_;
  Variables found_;
  std::vector<VariableOverride> changes_;  ///< changes at the last look
  std::string fault_;
  double next_s_;
  double pause_s_;
  bool done_ = false;
};

// Environment of an attempt's first rank. It is compared with the given one while the rank runs. At
// the end it is written beside the runner's records, for every reader of the result. A container
// that has changed what counts would do so on every node and at every try, so the attempt is
// rejected.

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
  Timestamp since_;  ///< start of the rank: its environment dates from before
  bool is_judged_ = false;
};

}  // namespace shardsweep::agent
