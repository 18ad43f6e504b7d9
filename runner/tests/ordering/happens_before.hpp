// SPDX-License-Identifier: Apache-2.0
// Does one access to memory come before another, whatever the timing: by vector clocks. Agents
// are the host and the streams of its GPU; each does its own work in order, and edges between
// them order the rest.
#pragma once

#include "device/dtype.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace shardbench {

class HappensBefore {
 public:
  using Agent = std::size_t;
  using Clock = std::vector<u64>;  // ended work of each agent
  enum class Access { read, write };

  Agent add_agent(std::string name);
  /// The agent does something new, named `what`, after all that it did before.
  void work(Agent agent, const std::string& what);
  /// Part of the agent's last work. Accesses of two agents of which one writes are a race
  /// unless one comes before the other.
  void access(Agent agent, Access kind, const void* data, i64 bytes);
  /// Clock of the agent's present moment.
  const Clock& clock(Agent agent) const { return clocks_[agent]; }
  /// Orders later work of `agent` after all of `clock`. False if it was so already.
  bool come_after(Agent agent, const Clock& clock);
  /// Forgets accesses: the next owner of that memory shares nothing with earlier ones.
  void forget(const void* data, i64 bytes);

  const std::string& name(Agent agent) const { return names_[agent]; }
  const std::string& last_work(Agent agent) const { return *last_[agent]; }
  /// Sentences on the first hundred races.
  const std::vector<std::string>& races() const { return races_; }

 private:
  /// One access that nothing has come after yet.
  struct PastAccess {
    Agent agent;
    u64 time;
    const std::string* what;  // element of `works_`
  };
  struct Piece {
    std::uintptr_t end = 0;
    std::vector<PastAccess> writes;  // writes: at most one
    std::vector<PastAccess> reads;   // reads: one of an agent
  };
  using Pieces = std::map<std::uintptr_t, Piece>;

  void cut(std::uintptr_t at);
  void compare(Agent agent, Access kind, const PastAccess& seen, const char* did);
  void touch(Agent agent, Access kind, Piece& piece);

  std::set<std::string> works_;  // each name of a work once: accesses are many
  std::vector<std::string> names_;
  std::vector<const std::string*> last_;  // elements of `works_`
  std::vector<Clock> clocks_;
  Pieces pieces_;  // pieces by their beginning; they do not overlap
  std::vector<std::string> races_;
};

}  // namespace shardbench
