// SPDX-License-Identifier: Apache-2.0
// When the scheduler ends the job that a lead runs in: from its environment, or by asking
// squeue until it has answered once. Nothing here waits.
#pragma once

#include "agent/environment.hpp"
#include "agent/log.hpp"
#include "agent/spawn.hpp"

#include <shardsweep/clock.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

class JobEnd {
 public:
  /// Outside a job (no SLURM_JOB_ID in `own`) there is no end to learn.
  explicit JobEnd(const Environment& own);

  /// One look: starts squeue, takes what it has said, or gives it up.
  void step(const Clock& clock, const Log& log);
  /// None: no end, or not known.
  [[nodiscard]] std::optional<double> left_s(const Clock& clock) const;
  /// An answer is due any moment: the first attempt may wait for it, but not for long.
  [[nodiscard]] bool first_answer_due(const Clock& clock) const;

 private:
  void ask(double now_s, const Log& log);
  void listen(double now_s, const Log& log);
  void conclude(bool succeeded, double now_s, const Log& log);

  std::string job_;  ///< empty: nothing (more) to ask
  Environment environment_;
  std::optional<Timestamp> end_;
  std::optional<PipedChild> squeue_;
  std::string said_;
  double asked_s_ = 0;
  bool answered_ = false;  ///< or failed to
  double ask_again_s_ = 0;
};

}  // namespace shardsweep::agent
