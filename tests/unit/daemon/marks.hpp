// SPDX-License-Identifier: Apache-2.0
// Which kinds of decisions and of events have come up in random runs, and how often. A kind
// that never does is not tested there, however many steps are taken.
#pragma once

#include <shardsweep/change.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/scheduler.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::testing {

class Marks {
 public:
  void add(std::string_view group, std::string_view word) { ++counts_[{group, word}]; }
  void add(const Marks& other);

  struct Kind {
    std::string_view group;
    std::string_view word;
  };
  /// All that there are, from the product's own tables.
  [[nodiscard]] static std::vector<Kind> kinds();
  [[nodiscard]] std::int64_t count(const Kind& kind) const;
  /// "event: claimed 812, started 2031, …", a line for each group.
  [[nodiscard]] std::string text() const;

 private:
  std::map<std::pair<std::string_view, std::string_view>, std::int64_t> counts_;
};

/// Looks at what one database's daemon commits, hears and says.
class MarkWatch {
 public:
  explicit MarkWatch(Marks& marks) : marks_(marks) {}
  void committed(std::span<const Change> changes);
  void answered(const SchedulerEvent& event);
  void heard(const ToLead& line);
  void said(const FromLeadBody& line);

 private:
  void see(const SetSweep& change);
  void see(const SetTrial& change);
  void see(const PutAttempt& change);
  void see(const PutAllocation& change);
  void see(const AddEvent& change);
  void see(const SetNode& change);
  void see(const PutControl& change);
  template <class Other>
  void see(const Other&) {}
  void decided(std::string_view what) { marks_.add("decision", what); }
  void decided_over(const AllocationRow& row, const AllocationRow* before);

  Marks& marks_;
  std::map<TrialId, TrialRow> trials_;
  std::map<AttemptId, AttemptRow> attempts_;
  std::map<AllocationId, AllocationRow> allocations_;
};

}  // namespace shardsweep::testing
