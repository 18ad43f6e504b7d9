// SPDX-License-Identifier: Apache-2.0
// A test in the daemon's place: an allocation's folder, what is assigned to its lead and what
// the lead answers. Whatever a test does, no process with its marker outlives it.
#pragma once

#include "tools/lib/wait_until.hpp"
#include "unit/folder.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace shardsweep::test {

/// SHARDSWEEP_TEST_REPEATS, or `few`.
int repeats(int few);

class DaemonSide {
 public:
  /// The programs that an allocation runs lie in `programs`.
  explicit DaemonSide(std::filesystem::path programs);
  DaemonSide(const DaemonSide&) = delete;
  DaemonSide& operator=(const DaemonSide&) = delete;
  virtual ~DaemonSide();

  AllocationSpec spec;  ///< changed before the lead starts
  AttemptSpec every;    ///< what each attempt starts from

  /// Adds an attempt whose ranks behave as `modes` say (rank.cpp).
  Assign assign(const std::vector<std::string>& modes, int world = 2, const std::string& lane = "",
      int micro_batch = 1, double predicted_s = 0);
  /// Adds an attempt that trains: `flags` for shardbench.
  Assign assign_training(const std::vector<std::string>& flags, int world);
  void tell(const ToLeadBody& body, std::int64_t epoch = 1);
  void write_ended_jobs(const std::string& list) const { folder_.write("ended_jobs", list); }

  [[nodiscard]] std::vector<FromLead> lines();
  [[nodiscard]] std::optional<Ended> ended(AttemptId attempt);
  [[nodiscard]] std::vector<AttemptId> revoked();
  [[nodiscard]] std::vector<FoundOnNode> findings();
  [[nodiscard]] std::string bye();
  [[nodiscard]] Ended wait_ended(AttemptId attempt);
  /// Rank processes (not agents) that carry our marker.
  [[nodiscard]] std::vector<pid_t> marked() const;
  /// Guard and node agent, as long as they live.
  [[nodiscard]] std::vector<pid_t> agents() const;
  /// Until at least `count` ranks run.
  bool wait_marked(std::size_t count);
  /// Until the attempt's ranks have recorded `count` train steps together.
  void wait_steps(const Assign& attempt, int count);
  [[nodiscard]] bool wait_clean() const;
  /// Whether the lead has said a line of that kind.
  template <class Body>
  [[nodiscard]] bool said() {
    for (const FromLead& line : lines()) {
      if (std::holds_alternative<Body>(line.body)) return true;
    }
    return false;
  }

  [[nodiscard]] AttemptId assigned() const { return last_; }
  [[nodiscard]] std::string log() const { return folder_.read("allocation/lead.log"); }
  [[nodiscard]] const AllocationPaths& paths() const { return paths_; }

 protected:
  /// For those who run the lead as another user.
  virtual void hand_over(const std::filesystem::path& path) const { (void)path; }
  [[nodiscard]] const std::filesystem::path& programs() const { return programs_; }
  [[nodiscard]] const Folder& folder() const { return folder_; }

 private:
  Assign assign_spec(AttemptSpec attempt, Assign line);

  std::filesystem::path programs_;
  Folder folder_;
  AllocationPaths paths_;
  std::optional<LineWriter> to_lead_;
  std::int64_t line_ = 0;
  AttemptId last_ = 0;
};

}  // namespace shardsweep::test
