// SPDX-License-Identifier: Apache-2.0
// An allocation of a test's own: its folder, its real lead, and waiting with a deadline for
// what the lead writes. Whatever a test does, no process with its marker outlives it.
#pragma once

#include "unit/node/folder.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::test {

/// True as soon as `done` is, false after `limit_s`.
bool wait_until(const std::function<bool()>& done, double limit_s = 20);

/// SHARDSWEEP_TEST_REPEATS, or `few`.
int repeats(int few);

class Allocation {
 public:
  Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation();

  AllocationSpec spec;                             ///< changed before start()
  AttemptSpec every;                               ///< what each attempt starts from
  std::map<std::string, std::string> environment;  ///< of the lead, besides our own

  void start();
  /// Adds an attempt whose ranks behave as `modes` say (rank.cpp).
  Assign assign(const std::vector<std::string>& modes, int world = 2,
                const std::string& lane = "", int micro_batch = 1, double predicted_s = 0);
  void tell(const ToLeadBody& body, std::int64_t epoch = 1);
  /// A program of that name comes first on the lead's PATH. `script` follows #!/bin/sh.
  void put_on_path(const std::string& name, const std::string& script);

  [[nodiscard]] std::vector<FromLead> lines();
  [[nodiscard]] std::optional<Ended> ended(AttemptId attempt);
  [[nodiscard]] std::vector<AttemptId> revoked();
  [[nodiscard]] std::string bye();
  [[nodiscard]] Ended wait_ended(AttemptId attempt);
  /// Rank processes (not agents) that carry our marker.
  [[nodiscard]] std::vector<pid_t> marked() const;
  /// Until at least `count` ranks run.
  bool wait_marked(std::size_t count);
  /// Until the attempt's ranks have recorded `count` train steps together.
  void wait_steps(const Assign& attempt, int count);
  [[nodiscard]] bool wait_clean(double limit_s = 20) const;
  /// Exit code of the lead, -signal, or none within the limit.
  [[nodiscard]] std::optional<int> wait_exit(double limit_s = 20);

  [[nodiscard]] pid_t lead() const { return lead_; }
  [[nodiscard]] pid_t guard() const;
  [[nodiscard]] pid_t node_agent() const;
  [[nodiscard]] std::string log() const { return folder_.read("allocation/lead.log"); }
  [[nodiscard]] const AllocationPaths& paths() const { return paths_; }

 private:
  Folder folder_;
  AllocationPaths paths_;
  std::optional<LineWriter> to_lead_;
  std::int64_t line_ = 0;
  AttemptId last_ = 0;
  pid_t lead_ = 0;
  std::optional<int> exit_;
};

}  // namespace shardsweep::test
