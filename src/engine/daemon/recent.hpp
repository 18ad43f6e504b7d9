// SPDX-License-Identifier: Apache-2.0
// What was observed and decided last, for the report of a stop. Kinds, ids and states alone:
// text of programs and of users may hold secrets.
#pragma once

#include <shardsweep/change.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/scheduler.hpp>

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace shardsweep {

class Recent {
 public:
  static constexpr std::size_t most = 100;

  void begin_pass() { ++pass_; }
  void read(const WorldRows& rows);
  void saw(const SchedulerEvent& event);
  void saw(const AllocationRow& allocation, const FromLead& line);
  void asked(std::string_view verb, const std::string& request);
  void committed(std::span<const Change> changes);
  /// Includes changes that are not committed yet.
  [[nodiscard]] std::vector<std::string> all(std::span<const Change> uncommitted) const;

 private:
  void add(std::string text);

  std::deque<std::string> kept_;
  std::int64_t pass_ = 0;
};

}  // namespace shardsweep
