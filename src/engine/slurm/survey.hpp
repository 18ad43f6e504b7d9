// SPDX-License-Identifier: Apache-2.0
// What is asked of a Slurm beside our own jobs: limits and sizes once an hour, others' jobs as
// often as is said, and each only where somebody wants to know. One command at a time.
#pragma once

#include <shardsweep/command.hpp>
#include <shardsweep/scheduler.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::slurm {

class Survey {
 public:
  Survey(std::int64_t own_uid, std::string user, std::vector<std::string> environment)
      : own_uid_(own_uid), user_(std::move(user)), environment_(std::move(environment)) {}

  void ask(const std::optional<SiteQuestions>& questions) { questions_ = questions; }
  /// Starts what is due and takes what was answered. SiteSeen when all that was due is there,
  /// and LookFailed for what was not to be had.
  void step(double now_s, std::vector<SchedulerEvent>& events);
  /// An answer is on its way, or the first one still to be asked for.
  [[nodiscard]] bool settling() const { return command_ || (questions_ && !answered_); }
  [[nodiscard]] int ended_descriptor() const {
    return command_ ? command_->ended_descriptor() : -1;
  }

 private:
  enum class Topic : std::uint8_t { accounts, qos, partitions, others };
  static constexpr std::array<Topic, 4> topics{Topic::accounts, Topic::qos, Topic::partitions,
                                               Topic::others};

  [[nodiscard]] std::vector<std::string> command_for(Topic topic) const;
  [[nodiscard]] Result<void> take(const Result<CommandOutput>& output);
  [[nodiscard]] bool is_wanted(Topic topic) const;
  [[nodiscard]] bool is_due(Topic topic, double now_s) const;
  void start_next(double now_s, std::vector<SchedulerEvent>& events);
  void report(std::vector<SchedulerEvent>& events);

  std::int64_t own_uid_;
  std::string user_;
  std::vector<std::string> environment_;
  std::optional<SiteQuestions> questions_;
  std::optional<RunningCommand> command_;
  Topic topic_ = Topic::accounts;  ///< of `command_`
  std::array<std::optional<double>, topics.size()> asked_at_s_{};
  SiteFacts facts_;
  bool fresh_ = false;     ///< facts_ are not told yet
  bool answered_ = false;  ///< they have been told once
};

}  // namespace shardsweep::slurm
