// SPDX-License-Identifier: Apache-2.0
// What is asked of slurmrestd beside our own jobs: sizes of partitions once an hour, others'
// jobs as often as is said, each only where somebody wants to know. Limits of accounts and QOS
// are not: no version tells them all, and a job beyond one is told to come back.
#pragma once

#include "slurm/rest_json.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

class RestSurvey {
 public:
  explicit RestSurvey(std::int64_t own_uid) : own_uid_(own_uid) {}

  void ask(const std::optional<SiteQuestions>& questions) { questions_ = questions; }
  /// Something is to be requested, and nothing is on its way.
  [[nodiscard]] bool is_due(double now_s) const { return !asked_ && due(now_s); }
  /// What, below /slurm/<version>/; only where something is due.
  [[nodiscard]] std::string_view next(double now_s);
  [[nodiscard]] double answer_limit_s() const;
  /// The answer to it.
  [[nodiscard]] Result<void> take(const Result<std::string>& body);
  /// SiteSeen when all that is wanted has been answered, or could not be. Before anything is
  /// asked again: answers that come as slowly as they are asked for would never be told.
  void report(std::vector<SchedulerEvent>& events);
  [[nodiscard]] bool settling() const { return asked_ || (questions_ && !answered_); }

 private:
  enum class Topic : std::uint8_t { partitions, others };
  static constexpr std::array<Topic, 2> topics{Topic::partitions, Topic::others};
  [[nodiscard]] bool is_wanted(Topic topic) const;
  [[nodiscard]] std::optional<Topic> due(double now_s) const;

  std::int64_t own_uid_;
  std::optional<SiteQuestions> questions_;
  std::optional<Topic> asked_;
  std::array<std::optional<double>, topics.size()> asked_at_s_{};
  SiteFacts facts_;
  bool fresh_ = false;     ///< facts_ are not told yet
  bool answered_ = false;  ///< they have been told once
};

}  // namespace shardsweep::slurm
