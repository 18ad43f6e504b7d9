// SPDX-License-Identifier: Apache-2.0
// What Slurm's commands and slurmrestd have in common as ways to Slurm: when the site is asked
// about more than our own jobs, what a look concludes, and which jobs were cancelled lately.
#pragma once

#include "slurm/words/look.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/policy.hpp>
#include <shardsweep/scheduler.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::slurm {

// Submissions are looked up from a little before they were made: clocks differ.
inline constexpr double accounting_margin_s = 300;
// Limits and sizes change when somebody changes the configuration.
inline constexpr double settings_again_s = 3600;

/// Questions about more than our own jobs, each only if a sweep needs the answer: limits and sizes
/// once an hour, others' jobs as often as the site file says.
class SiteSurvey {
 public:
  void ask(const std::optional<SiteQuestions>& questions) { questions_ = questions; }
  /// SiteSeen when all that is wanted has been answered, or could not be.
  void report(std::vector<SchedulerEvent>& events) {
    if (!questions_ || (answered_ && !fresh_)) return;
    const bool whole = std::all_of(topics_.begin(), topics_.end(),
        [this](Topic topic) { return !is_wanted(topic) || asked_at_s(topic); });
    if (!whole) return;
    answered_ = true;
    fresh_ = false;
    events.emplace_back(SiteSeen{facts_});
  }

 protected:
  enum class Topic : std::uint8_t { accounts, qos, partitions, others };

  SiteSurvey(std::int64_t own_uid, std::vector<Topic> topics)
      : own_uid_(own_uid), topics_(std::move(topics)) {}

  [[nodiscard]] bool is_wanted(Topic topic) const {
    return questions_ && (topic != Topic::others || questions_->others);
  }
  [[nodiscard]] bool is_due(Topic topic, double now_s) {
    if (!is_wanted(topic)) return false;
    const auto asked = asked_at_s(topic);
    return !asked ||
        now_s - *asked >= (topic == Topic::others ? questions_->others_s : settings_again_s);
  }
  void begin(Topic topic, double now_s) {
    asked_at_s(topic) = now_s;
    fresh_ = true;
  }
  [[nodiscard]] bool is_unanswered() const { return questions_ && !answered_; }
  std::optional<double>& asked_at_s(Topic topic) {
    return asked_at_s_.at(static_cast<std::size_t>(topic));
  }

  std::int64_t own_uid_;
  std::vector<Topic> topics_;
  std::optional<SiteQuestions> questions_;
  SiteFacts facts_;

 private:
  std::array<std::optional<double>, 4> asked_at_s_{};
  bool fresh_ = false;     ///< facts_ are not told yet
  bool answered_ = false;  ///< facts_ have been told once
};

class SlurmScheduler : public Scheduler {
 public:
  [[nodiscard]] std::string name() const override { return "slurm"; }
  [[nodiscard]] double look_interval_s() const override { return policy_.look_s; }
  [[nodiscard]] bool knows_site() const override { return true; }
  void answer_within(double limit_s) override { policy_.query_limit_s = limit_s; }
  void submit(const AllocationRequest& request) override { waiting_.push_back(request); }

 protected:
  SlurmScheduler(const Policy& policy, const Clock& clock) : policy_(policy), clock_(clock) {}

  [[nodiscard]] double now_s() const {
    return std::chrono::duration<double>(clock_.steady().time_since_epoch()).count();
  }
  /// A cancelled job takes KillWait and an epilog to be gone.
  [[nodiscard]] bool cancelled_lately(const std::string& id) const {
    constexpr double again_s = 60;
    const auto known = cancelled_at_s_.find(id);
    return known != cancelled_at_s_.end() && now_s() - known->second < again_s;
  }
  virtual void cancel_waiting(const NamedJob& job) = 0;
  void conclude_look(const std::vector<AllocationHandle>& handles, const std::vector<Job>& jobs,
      LookContext context) {
    context.own_uid = static_cast<std::int64_t>(::getuid());
    context.now_s = now_s();
    LookResult result = conclude(handles, jobs, context, missed_);
    for (const NamedJob& job : result.cancel)
      cancel_waiting(job);
    for (SchedulerEvent& event : result.events) {
      // Accounting names our user for both; without accounting nobody is named.
      auto* seen = std::get_if<JobSeen>(&event);
      if (seen != nullptr && cancelled_at_s_.contains(seen->job_id)) mark_own_cancel(*seen);
      events_.push_back(std::move(event));
    }
  }

  Policy policy_;
  const Clock& clock_;
  std::deque<AllocationRequest> waiting_;
  MissedJobs missed_;
  std::map<std::string, double> cancelled_at_s_;
  std::vector<SchedulerEvent> events_;
};

}  // namespace shardsweep::slurm
