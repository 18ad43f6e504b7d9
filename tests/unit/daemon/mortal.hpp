// SPDX-License-Identifier: Apache-2.0
// A clock that a test moves, a real store, and a daemon that can die at any call to either.
#pragma once

#include <shardsweep/clock.hpp>
#include <shardsweep/store.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
    ++calls_;
    if (left_ > 0 && --left_ == 0) throw Killed{};
  }
  [[nodiscard]] std::int64_t calls() const { return calls_; }

 private:
  int left_ = 0;
  std::int64_t calls_ = 0;
};

class ManualClock final : public Clock {
 public:
  explicit ManualClock(Fate& fate) : fate_(fate) {}
  /// What a wrong clock says in place of the time; none: it is right.
  std::function<Timestamp(Timestamp)> mistake;

  [[nodiscard]] Timestamp now() const override {
    fate_.call();
    return mistake ? mistake(time()) : time();
  }
  /// Microseconds that pass between two looks at it: what the daemon does takes time.
  Timestamp step = 0;

  [[nodiscard]] std::chrono::steady_clock::time_point steady() const override {
    fate_.call();
    now_ += step;
    return std::chrono::steady_clock::time_point(std::chrono::microseconds(now_));
  }
  void advance(Timestamp by) { now_ += by; }
  /// The wall clock is set: now() jumps, steady() does not.
  void set_wall_ahead(Timestamp by) { wall_ahead_ = by; }
  /// As now(), for the test itself: nobody dies of it.
  [[nodiscard]] Timestamp time() const { return now_ + wall_ahead_; }
  [[nodiscard]] Timestamp true_time() const { return now_; }

 private:
  Fate& fate_;
  Timestamp wall_ahead_ = 0;
  mutable Timestamp now_ = 1'700'000'000'000'000;
};

/// A real store; before and after each call the daemon may die.
class MortalStore final : public Store {
 public:
  MortalStore(std::unique_ptr<Store> store, Fate& fate) : store_(std::move(store)), fate_(fate) {}

  std::optional<Fault> outage;  ///< of commits: what they answer

  /// Deliberate mistakes: what is committed in place of the changes (none: nothing is, and the
  /// daemon does not hear of it), and what work_left() says.
  using Tampered = std::optional<std::vector<Change>>;
  std::function<Tampered(std::span<const Change>)> mistake_in_commit;
  std::function<bool(bool)> mistake_in_work_left;
  /// Told of each transaction that was committed.
  std::function<void(std::span<const Change>)> committed;

  Result<std::optional<LeaseHolder>> lease_holder() override;
  Result<LeaseHolder> take_lease(LeaseHolder claim) override;
  Result<void> renew_lease(Timestamp now) override;
  Result<void> release_lease() override;
  Result<WorldRows> load_world() override;
  Result<void> commit(std::span<const Change> changes) override;
  Result<std::optional<std::string>> answer_to(const std::string& request) override;
  Result<InboxProgress> accept_inbox(
      const std::filesystem::path& file, Timestamp now, std::int64_t rows) override;
  Result<Point> point_of(TrialId trial, const SweepSpec& sweep) override;
  Result<std::vector<SearchRow>> search_rows(SweepId id, const SweepSpec& sweep) override;
  Result<std::vector<CellBest>> best_of_cells(SweepId sweep) override;
  Result<std::vector<std::string>> nodes_of(const std::vector<AllocationId>& allocations) override;
  Result<std::vector<FinalsRow>> finals_rows(SweepId sweep, std::int32_t nodes) override;
  Result<std::set<TrialId>> slower_layouts(SweepId sweep) override;
  Result<std::vector<std::int32_t>> node_counts(SweepId sweep) override;
  Result<std::vector<TrialRow>> add_finals(
      SweepId sweep, const std::vector<NewFinal>& finals) override;
  Result<TrialSelection> select_trials(
      const std::vector<std::string>& names, const std::string& where) override;
  Result<bool> work_left() override;
  Result<SweepContents> contents_of(SweepId sweep) override;
  Result<bool> delete_sweep(SweepId sweep, std::int64_t rows, const ForgetFolder& forget) override;
  Result<std::vector<double>> losses_of_others(TrialId trial, double steps) override;
  Result<RunnerName> runner_of(TrialId trial) override;
  Result<std::optional<OutsideAttempt>> outside_attempt(const std::string& nonce) override;
  Result<std::vector<StopEvent>> stop_events() override;
  Result<double> gpu_seconds(SweepId sweep) override;
  Result<std::vector<KnowledgeText>> knowledge(Timestamp submitted) override;

  /// Transactions that were committed, and the changes in them.
  [[nodiscard]] std::int64_t commits() const { return commits_; }
  [[nodiscard]] std::int64_t changes() const { return changes_; }

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
  std::int64_t commits_ = 0;
  std::int64_t changes_ = 0;
};

}  // namespace shardsweep::testing
