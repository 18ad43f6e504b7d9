// SPDX-License-Identifier: Apache-2.0
// A scheduler and leads on this machine that a test plays: without processes and without
// waiting. The files between daemon and lead are real.
#pragma once

#include "unit/daemon/mortal.hpp"
#include "unit/daemon/played_lead.hpp"

#include <shardsweep/scheduler.hpp>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

namespace shardsweep::testing {

/// Jobs with their leads. They outlive every daemon.
class PlayedCluster {
 public:
  /// What was really done, by the attempt's nonce.
  [[nodiscard]] const PlayedAttempts& attempts() const { return attempts_; }
  [[nodiscard]] std::size_t results() const;
  /// One lead does one thing, or its job dies.
  void play(std::mt19937_64& random, Timestamp now);
  [[nodiscard]] bool any_live() const;
  [[nodiscard]] std::unique_ptr<Scheduler> scheduler(Fate& fate);

 private:
  friend class PlayedScheduler;
  struct Job {
    std::string id;
    std::optional<PlayedLead> lead;
    bool ended = false;
  };
  static void work(Job& job, std::mt19937_64& random, Timestamp now);

  std::map<std::string, Job> jobs_;  ///< by token
  PlayedAttempts attempts_;
  int submitted_ = 0;
};

}  // namespace shardsweep::testing
