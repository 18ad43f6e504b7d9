// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_cluster.hpp"

#include <shardsweep/protocol.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <ostream>
#include <utility>

namespace shardsweep::testing {

Result<std::optional<LeaseHolder>> MortalStore::lease_holder() {
  return mortal([&] { return store_->lease_holder(); });
}
Result<LeaseHolder> MortalStore::take_lease(LeaseHolder claim) {
  return mortal([&] { return store_->take_lease(claim); });
}
Result<void> MortalStore::renew_lease(Timestamp now) {
  return mortal([&] { return store_->renew_lease(now); });
}
Result<void> MortalStore::release_lease() {
  return mortal([&] { return store_->release_lease(); });
}
Result<World> MortalStore::load_world() {
  return mortal([&] { return store_->load_world(); });
}
Result<void> MortalStore::commit(std::span<const Change> changes) {
  return mortal([&] { return store_->commit(changes); });
}
Result<Store::InboxProgress> MortalStore::accept_inbox(const std::filesystem::path& file,
                                                       Timestamp now, std::int64_t rows) {
  return mortal([&] { return store_->accept_inbox(file, now, rows); });
}
Result<Point> MortalStore::point_of(TrialId trial, const SweepSpec& sweep) {
  return mortal([&] { return store_->point_of(trial, sweep); });
}
Result<std::vector<SearchRow>> MortalStore::search_rows(SweepId id, const SweepSpec& sweep) {
  return mortal([&] { return store_->search_rows(id, sweep); });
}
Result<Selected> MortalStore::select_trials(const std::vector<std::string>& names,
                                            const std::string& where) {
  return mortal([&] { return store_->select_trials(names, where); });
}
Result<bool> MortalStore::work_left() {
  return mortal([&] { return store_->work_left(); });
}
Result<SweepContents> MortalStore::contents_of(SweepId sweep) {
  return mortal([&] { return store_->contents_of(sweep); });
}
Result<bool> MortalStore::delete_sweep(SweepId sweep, std::int64_t rows,
                                       const ForgetFolder& forget) {
  // Small pieces, so that deletions take several ticks.
  return mortal(
      [&] { return store_->delete_sweep(sweep, std::min<std::int64_t>(rows, 3), forget); });
}
Result<std::vector<double>> MortalStore::losses_of_others(TrialId trial, double steps) {
  return mortal([&] { return store_->losses_of_others(trial, steps); });
}
Result<RunnerName> MortalStore::runner_of(TrialId trial) {
  return mortal([&] { return store_->runner_of(trial); });
}
Result<double> MortalStore::gpu_seconds(SweepId sweep) {
  return mortal([&] { return store_->gpu_seconds(sweep); });
}

class PlayedScheduler final : public Scheduler {
 public:
  PlayedScheduler(PlayedCluster& cluster, Fate& fate) : cluster_(cluster), fate_(fate) {}
  [[nodiscard]] std::string name() const override { return "played"; }
  void submit(const AllocationRequest& request) override {
    fate_.call();
    PlayedCluster::Job& job = cluster_.jobs_[request.token];
    if (job.id.empty()) {
      job.id = fmt::format("job{}", ++cluster_.submitted_);
      job.paths.dir = request.dir;
      job.orders.emplace(job.paths.to_lead());
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
      events_.emplace_back(
          JobSeen{.token = handle.token,
                  .job_id = job->second.id,
                  .state = job->second.ended ? JobState::ended : JobState::running,
                  .detail = job->second.ended ? "gone" : "there"});
    }
  }
  [[nodiscard]] double look_interval_s() const override { return 0; }
  [[nodiscard]] std::vector<SchedulerEvent> poll() override {
    return std::exchange(events_, {});
  }

 private:
  PlayedCluster& cluster_;
  Fate& fate_;
  std::vector<SchedulerEvent> events_;
};

std::unique_ptr<Scheduler> PlayedCluster::scheduler(Fate& fate) {
  return std::make_unique<PlayedScheduler>(*this, fate);
}

bool PlayedCluster::any_live() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& entry) { return !entry.second.ended; });
}

void PlayedCluster::say(Job& job, FromLeadBody body, Timestamp now) {
  auto writer = LineWriter::open(job.paths.from_lead());
  REQUIRE(writer);
  REQUIRE(writer->append(encode(FromLead{++job.n, now, std::move(body)}), false));
}

void PlayedCluster::write_result(const Assign& assign) {
  const double value = 1000.0 + static_cast<double>(results_.size());
  std::ofstream(AttemptPaths{assign.dir}.records(), std::ios::app) << fmt::format(
      R"({{"type":"result","run_id":"{}","tokens_per_s_per_gpu":{},"train_step_ms":1}})"
      "\n",
      assign.nonce, value);
  results_.emplace(assign.nonce, value);
}

void PlayedCluster::end(Job& job, Outcome outcome, Timestamp now, const std::string& mark) {
  const Assign assign = *std::exchange(job.running, std::nullopt);
  if (outcome == Outcome::completed) write_result(assign);
  job.work.ended(assign, outcome);
  say(job,
      Ended{.attempt = assign.attempt,
            .nonce = assign.nonce,
            .outcome = outcome,
            .cause = "played",
            .source = "agent",
            .mark = mark},
      now);
}

/// What the daemon has said. One that is told to end may have measured all the same.
void PlayedCluster::hear(Job& job, std::mt19937_64& random, Timestamp now) {
  const auto lines = job.orders->look();
  REQUIRE(lines);
  for (const std::string& text : *lines) {
    const auto line = decode_to_lead(text);
    REQUIRE(line);
    const AssignmentNews news = job.work.apply(*line);
    for (const AttemptId attempt : news.revoked)
      say(job, Revoked{attempt}, now);
    for (const auto& [assign, why] : news.cancelled)
      say(job,
          Ended{.attempt = assign.attempt,
                .nonce = assign.nonce,
                .outcome = Outcome::cancelled,
                .cause = why,
                .source = "request"},
          now);
    if (news.end_running)
      end(job, random() % 3 == 0 ? Outcome::completed : Outcome::cancelled, now);
  }
}

void PlayedCluster::work(Job& job, std::mt19937_64& random, Timestamp now) {
  constexpr std::array outcomes{Outcome::completed, Outcome::completed,    Outcome::completed,
                                Outcome::completed, Outcome::oom,          Outcome::crashed,
                                Outcome::hung,      Outcome::node_failure, Outcome::lost,
                                Outcome::rejected};
  if (job.running) {
    const Outcome outcome = outcomes[random() % outcomes.size()];
    const bool marked = outcome == Outcome::completed && random() % 8 == 0;
    return end(job, outcome, now, marked ? "contaminated" : "");
  }
  if (auto next = job.work.next()) {
    job.running = next->assign;
    if (next->skipped_because.empty())
      return say(job, Started{next->assign.attempt, next->assign.nonce}, now);
    return end(job, Outcome::skipped, now);
  }
  if (!job.work.draining()) return;
  say(job, Bye{"drained"}, now);
  job.ended = true;
}

void PlayedCluster::play(std::mt19937_64& random, Timestamp now) {
  std::vector<Job*> live;
  for (auto& [token, job] : jobs_) {
    if (!job.ended) live.push_back(&job);
  }
  if (live.empty()) return;
  Job& job = *live[random() % live.size()];
  if (!job.claimed) {
    if (random() % 40 == 0) {
      job.ended = true;
      return;
    }
    job.claimed = true;
    return say(
        job,
        Claimed{
            .token = "", .claim = "c", .host = "h", .pid = 1, .pid_start = 1, .job_id = job.id},
        now);
  }
  if (random() % 50 == 0) {
    // Killed without a word; its rank may have written its result.
    if (job.running && random() % 2 == 0) write_result(*job.running);
    job.ended = true;
    return;
  }
  hear(job, random, now);
  work(job, random, now);
}

}  // namespace shardsweep::testing
