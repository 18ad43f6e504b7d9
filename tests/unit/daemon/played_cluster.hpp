// SPDX-License-Identifier: Apache-2.0
// A clock, a scheduler and leads that a test plays, and a store that can die: what a daemon
// works with, without processes and without waiting. The database, the request files and the
// files between daemon and lead are real.
#pragma once

#include "domain/assignments.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/scheduler.hpp>
#include <shardsweep/store.hpp>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// Thrown where a daemon dies, as by kill -9: nothing after it happens.
struct Killed {};

/// Counts the calls of a daemon to what it works with; at the last one it dies.
class Fate {
 public:
  void kill_at(int call) { left_ = call; }
  void live() { left_ = 0; }
  void call() {
    if (left_ > 0 && --left_ == 0) throw Killed{};
  }

 private:
  int left_ = 0;
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(Fate& fate) : fate_(fate) {}
  [[nodiscard]] Timestamp now() const override {
    fate_.call();
    return now_;
  }
  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override {
    fate_.call();
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(now_));
  }
  void advance(Timestamp by) { now_ += by; }
  [[nodiscard]] Timestamp time() const { return now_; }

 private:
  Fate& fate_;
  Timestamp now_ = 1'700'000'000'000'000;
};

/// A real store; before and after each call the daemon may die.
class MortalStore final : public Store {
 public:
  MortalStore(std::unique_ptr<Store> store, Fate& fate)
      : store_(std::move(store)), fate_(fate) {}

  Result<std::optional<LeaseHolder>> lease_holder() override;
  Result<LeaseHolder> take_lease(LeaseHolder claim) override;
  Result<void> renew_lease(Timestamp now) override;
  Result<void> release_lease() override;
  Result<World> load_world() override;
  Result<void> commit(std::span<const Change> changes) override;
  Result<InboxProgress> accept_inbox(const std::filesystem::path& file, Timestamp now,
                                     std::int64_t rows) override;
  Result<Point> point_of(TrialId trial, const SweepSpec& sweep) override;
  Result<std::vector<SearchRow>> search_rows(SweepId id, const SweepSpec& sweep) override;
  Result<Selected> select_trials(const std::vector<std::string>& names,
                                 const std::string& where) override;
  Result<bool> work_left() override;
  Result<SweepContents> contents_of(SweepId sweep) override;
  Result<bool> delete_sweep(SweepId sweep, std::int64_t rows,
                            const ForgetFolder& forget) override;
  Result<std::vector<double>> losses_of_others(TrialId trial, double steps) override;
  Result<RunnerName> runner_of(TrialId trial) override;
  Result<double> gpu_seconds(SweepId sweep) override;

 private:
  template <class Call>
  auto mortal(const Call& call) {
    fate_.call();
    auto result = call();
    fate_.call();
    return result;
  }
  std::unique_ptr<Store> store_;
  Fate& fate_;
};

/// Jobs with their leads. They outlive every daemon.
class PlayedCluster {
 public:
  /// A result that was written, by its attempt's nonce.
  [[nodiscard]] const std::map<std::string, double>& results() const { return results_; }
  /// One lead does one thing, or its job dies.
  void play(std::mt19937_64& random, Timestamp now);
  [[nodiscard]] bool any_live() const;
  [[nodiscard]] std::unique_ptr<Scheduler> scheduler(Fate& fate);

 private:
  friend class PlayedScheduler;
  struct Job {
    std::string id;
    AllocationPaths paths;
    Assignments work;
    std::optional<LineReader> orders;
    std::optional<Assign> running;
    std::int64_t n = 0;
    bool claimed = false;
    bool ended = false;
  };
  void say(Job& job, FromLeadBody body, Timestamp now);
  void hear(Job& job, std::mt19937_64& random, Timestamp now);
  void end(Job& job, Outcome outcome, Timestamp now, const std::string& mark = "");
  void write_result(const Assign& assign);
  void work(Job& job, std::mt19937_64& random, Timestamp now);

  std::map<std::string, Job> jobs_;  ///< by token
  std::map<std::string, double> results_;
  int submitted_ = 0;
};

}  // namespace shardsweep::testing
