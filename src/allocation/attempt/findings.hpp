// SPDX-License-Identifier: Apache-2.0
// What one node has seen of an attempt, and what that amounts to when nothing of it is left.
//
// Evidence is added as it is seen, and judged once, at the end (attempt/classify.hpp): a log
// that is read last may still name what came first. A rank that exits 0 is a failure only if no
// result is found, so it is kept apart until then. A SIGTERM that was not ours may be the
// scheduler's, which tells the node agent a moment after the ranks: until then it is not known
// whose fault the death of a rank is. Pure.
#pragma once

#include "attempt/classify.hpp"

#include <shardsweep/clock.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// One reading of both clocks.
struct Moment {
  double s = 0;      ///< monotonic clock, for limits
  Timestamp at = 0;  ///< wall clock, for what is stored
};

class Findings {
 public:
  void add(Evidence evidence) { evidence_.push_back(std::move(evidence)); }
  /// Adds evidence of a rank that has failed or is about to.
  void add_failure(Evidence evidence, double now_s);
  /// A rank has exited 0: the first one is remembered.
  void see_early_exit(int rank, Timestamp at);
  /// A rank has died of a SIGTERM that was not ours.
  void see_termination(double now_s);
  /// The node agent has got a SIGTERM itself: whoever died of one shortly before was told too.
  void told_to_stop(double now_s);
  /// Our own loop stood still: whether we were told in that time could not be seen.
  void stretch(double gap_s);
  /// The result record was written.
  void see_result() { measured_ = true; }
  /// A container has changed what counts: what was measured is of another layout.
  void refuse(Evidence evidence);

  /// Evidence that is completed from logs and from what is known of the storage.
  [[nodiscard]] std::vector<Evidence>& evidence() { return evidence_; }
  [[nodiscard]] bool empty() const { return evidence_.empty(); }
  [[nodiscard]] bool measured() const { return measured_; }
  [[nodiscard]] bool refused() const { return refused_; }
  [[nodiscard]] bool has_early_exit() const { return early_exit_.has_value(); }
  /// Why those that still run (`living`, ranks) were given up: "rank 0 exited 0 without a
  /// result, rank 1 ran on: " before it, if one has left early; with a result, "rank 0 exited 0,".
  [[nodiscard]] std::string with_early_exit(
      const std::string& why, const std::vector<int>& living) const;
  [[nodiscard]] bool was_told() const { return told_at_s_.has_value(); }
  /// We were told to stop so shortly ago that a SIGTERM of a rank came from the same sender.
  [[nodiscard]] bool was_told_just_now(double now_s) const;
  /// A rank has died of a SIGTERM, and it is not known yet whether we get one too.
  [[nodiscard]] bool may_be_told_next(double now_s) const;
  /// Empty while no rank has failed.
  [[nodiscard]] std::optional<double> failed_at_s() const { return failed_at_s_; }

  /// The first cause. `result_due`: this node is where the result is written.
  [[nodiscard]] Evidence verdict(bool result_due) const;

 private:
  std::vector<Evidence> evidence_;
  std::optional<Evidence> early_exit_;
  bool measured_ = false;
  bool refused_ = false;
  std::optional<double> failed_at_s_;
  std::optional<double> told_at_s_;
  std::optional<double> terminated_at_s_;
};

/// Facts about an attempt's end beside its first cause.
struct Beside {
  Ending facts{};              ///< fields with Flag::beside
  std::string leftovers{};     ///< the first command lines of what outlived its ranks
  std::int64_t garbage = 0;    ///< lines of the records that are none
  bool one_host_only = false;  ///< the ranks were on several, and leaks were looked for on one
  std::string nccl{};          ///< first complaint of NCCL
  bool stuck = false;          ///< a process could not be ended: the node is out

  void add_leftover(const std::string& cmdline);
  /// Adds it to what the first cause says.
  void tell(Ending& ending) const;
};

}  // namespace shardsweep
