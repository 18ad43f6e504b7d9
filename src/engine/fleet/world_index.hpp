// SPDX-License-Identifier: Apache-2.0
// Answers to what each pass asks of all trials and attempts, kept up to date row by row: with
// 10^5 trials a scan for each question takes longer than a pass may.
#pragma once

#include <shardsweep/change.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardsweep {

/// Nodes that a trial needs. A world smaller than a node needs one.
[[nodiscard]] std::int32_t node_count(const TrialRow& trial);

/// How long some attempts take by prediction: whole microseconds, so that a sum that is taken
/// back is exact.
class PredictedTimes {
 public:
  void add(const TrialRow& trial);
  void remove(const TrialRow& trial);
  [[nodiscard]] double sum_s() const { return static_cast<double>(sum_us_) * 1e-6; }
  [[nodiscard]] double longest_s() const;
  friend bool operator==(const PredictedTimes&, const PredictedTimes&) = default;

 private:
  std::multiset<std::int64_t> each_us_;
  std::int64_t sum_us_ = 0;
};

/// Trials that wait for the same number of nodes, in the order in which they run.
class TrialQueue {
 public:
  [[nodiscard]] bool empty() const { return order_.empty(); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(order_.size()); }
  [[nodiscard]] TrialId first() const { return order_.begin()->second; }
  /// Position and id of each.
  [[nodiscard]] const std::set<std::pair<std::int64_t, TrialId>>& order() const { return order_; }
  [[nodiscard]] const PredictedTimes& predicted() const { return predicted_; }

  void add(const TrialRow& trial);
  void remove(const TrialRow& trial);
  friend bool operator==(const TrialQueue&, const TrialQueue&) = default;

 private:
  std::set<std::pair<std::int64_t, TrialId>> order_;
  PredictedTimes predicted_;
};

/// Attempts of an allocation.
struct AllocationAttempts {
  std::vector<AttemptId> all;  ///< ended ones too, the oldest first
  std::set<AttemptId> open;
  PredictedTimes ahead;  ///< predicted times of the open ones
  friend bool operator==(const AllocationAttempts&, const AllocationAttempts&) = default;
};

/// Queues by node count.
using TrialQueues = std::map<std::int32_t, TrialQueue>;

class WorldIndex {
 public:
  WorldIndex() = default;
  explicit WorldIndex(const WorldRows& rows);

  /// Takes a row that is new or has changed.
  void put(const TrialRow& trial);
  /// `trial`: of the attempt; null: the world has it no more.
  void put(const AttemptRow& attempt, const TrialRow* trial);
  void put(const AllocationRow& allocation);
  /// Forgets an ended attempt.
  void forget(const AttemptRow& attempt);
  void forget(const AllocationRow& allocation);

  [[nodiscard]] const TrialQueues& waiting(SweepId sweep) const;
  /// Trials queued or running, those too that the edited file no longer has.
  [[nodiscard]] std::int64_t begun(SweepId sweep) const;
  /// A trial that the sweep's file has has not ended.
  [[nodiscard]] bool is_open(SweepId sweep) const;
  /// A trial of any sweep is queued or running.
  [[nodiscard]] bool any_begun() const { return begun_ > 0; }
  [[nodiscard]] const AllocationAttempts& assigned_to(AllocationId id) const;
  [[nodiscard]] const std::vector<AttemptId>& attempts_at(TrialId id) const;
  /// 0: no allocation has the token.
  [[nodiscard]] AllocationId allocation_of(const std::string& token) const;
  /// Planned trials whose lane ran out of memory with a smaller micro-batch: the trial, and the
  /// smallest of those that ran out.
  [[nodiscard]] std::vector<std::pair<TrialId, TrialId>> beyond_memory() const;
  /// Trials that were refused, of each sweep that has some.
  [[nodiscard]] const std::map<SweepId, std::set<TrialId>>& refused() const { return refused_; }

  // Check that the index agrees with a scan of one row.
  [[nodiscard]] bool agrees(const TrialRow& trial) const;
  [[nodiscard]] bool agrees(const AttemptRow& attempt) const;
  [[nodiscard]] bool agrees(const AllocationRow& allocation) const;
  [[nodiscard]] std::size_t known_trials() const { return known_.size(); }

  friend bool operator==(const WorldIndex&, const WorldIndex&) = default;

 private:
  /// Changing facts about a trial.
  struct Facts {
    bool waits = false;    ///< planned and in the file
    bool planned = false;  ///< planned, in the file or not
    bool begun = false;
    bool in_file = false;
    bool out_of_memory = false;
    bool refused = false;
    friend bool operator==(const Facts&, const Facts&) = default;
  };
  struct OfSweep {
    TrialQueues waiting;
    std::int64_t begun = 0;
    std::int64_t begun_in_file = 0;
    friend bool operator==(const OfSweep&, const OfSweep&) = default;
  };
  using LaneKey = std::pair<SweepId, std::string>;
  struct LaneHash {
    std::size_t operator()(const LaneKey& key) const;
  };
  struct Lane {
    std::set<std::pair<std::int32_t, TrialId>> planned;  ///< planned trials by micro-batch
    std::set<std::pair<std::int32_t, TrialId>> out_of_memory;
    friend bool operator==(const Lane&, const Lane&) = default;
  };

  static Facts facts_of(const TrialRow& trial);
  void put_in_queue(const TrialRow& trial, const Facts& before, const Facts& after);
  void put_in_lane(const TrialRow& trial, const Facts& before, const Facts& after);

  std::unordered_map<TrialId, Facts> known_;
  std::map<SweepId, OfSweep> sweeps_;
  std::int64_t begun_ = 0;
  std::unordered_map<LaneKey, Lane, LaneHash> lanes_;
  std::set<LaneKey> beyond_memory_;
  std::map<SweepId, std::set<TrialId>> refused_;
  std::unordered_map<AllocationId, AllocationAttempts> assigned_;
  std::unordered_map<TrialId, std::vector<AttemptId>> attempts_at_;
  std::unordered_map<std::string, AllocationId> tokens_;
};

}  // namespace shardsweep
