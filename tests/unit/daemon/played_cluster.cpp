// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace shardsweep::testing {

class PlayedScheduler final : public Scheduler {
 public:
  PlayedScheduler(PlayedCluster& cluster, Fate& fate) : cluster_(cluster), fate_(fate) {}
  [[nodiscard]] std::string name() const override { return "played"; }
  void submit(const AllocationRequest& request) override {
    fate_.call();
    PlayedCluster::Job& job = cluster_.jobs_[request.token];
    if (job.id.empty()) {
      job.id = fmt::format("job{}", ++cluster_.submitted_);
      job.lead.emplace(request.dir, job.id, cluster_.attempts_);
    }
    fate_.call();
    events_.emplace_back(SubmitAccepted{request.token, job.id});
  }
  void cancel(const AllocationHandle& handle) override {
    const auto job = cluster_.jobs_.find(handle.token);
    if (job != cluster_.jobs_.end()) job->second.ended = true;
  }
  void look(const std::vector<AllocationHandle>& handles) override {
    fate_.call();
    for (const AllocationHandle& handle : handles) {
      const auto job = cluster_.jobs_.find(handle.token);
      if (job == cluster_.jobs_.end()) {
        events_.emplace_back(JobNotSeen{handle.token});
        continue;
      }
      events_.emplace_back(JobSeen{.token = handle.token,
          .job_id = job->second.id,
          .state = job->second.ended ? JobState::ended : JobState::running,
          .detail = job->second.ended ? "gone" : "there"});
    }
  }
  [[nodiscard]] double look_interval_s() const override { return 0; }
  [[nodiscard]] std::vector<SchedulerEvent> poll() override { return std::exchange(events_, {}); }

 private:
  PlayedCluster& cluster_;
  Fate& fate_;
  std::vector<SchedulerEvent> events_;
};

std::unique_ptr<Scheduler> PlayedCluster::scheduler(Fate& fate) {
  return std::make_unique<PlayedScheduler>(*this, fate);
}

bool PlayedCluster::any_live() const {
  return std::any_of(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return !entry.second.ended; });
}

std::size_t PlayedCluster::results() const {
  return static_cast<std::size_t>(std::count_if(attempts_.by_nonce.begin(),
      attempts_.by_nonce.end(), [](const auto& entry) { return entry.second.result.has_value(); }));
}

void PlayedCluster::work(Job& job, std::mt19937_64& random, Timestamp now) {
  constexpr std::array outcomes{Outcome::completed, Outcome::completed, Outcome::completed,
      Outcome::completed, Outcome::oom, Outcome::crashed, Outcome::hung, Outcome::node_failure,
      Outcome::lost, Outcome::rejected};
  if (job.lead->runs()) {
    const Outcome outcome = outcomes[random() % outcomes.size()];
    const bool marked = outcome == Outcome::completed && random() % 8 == 0;
    return job.lead->end(outcome, now, marked ? Mark::contaminated : Mark::none);
  }
  if (job.lead->start_next(now) || !job.lead->draining()) return;
  job.lead->leave("drained", now);
  job.ended = true;
}

void PlayedCluster::play(std::mt19937_64& random, Timestamp now) {
  std::vector<Job*> live;
  for (auto& [token, job] : jobs_) {
    if (!job.ended) live.push_back(&job);
  }
  if (live.empty()) return;
  Job& job = *live[random() % live.size()];
  if (!job.lead->claimed()) {
    if (random() % 40 == 0) {
      job.ended = true;
    } else {
      (void)job.lead->claim(now);
    }
    return;
  }
  if (random() % 50 == 0) {
    // Killed without a word; its rank may have written its result.
    if (random() % 2 == 0) job.lead->leave_result();
    job.ended = true;
    return;
  }
  job.lead->hear(random, now);
  work(job, random, now);
}

}  // namespace shardsweep::testing
