// SPDX-License-Identifier: Apache-2.0
// Containers that must be made on a node before ranks can enter them, each image once in an
// allocation; and what a runtime still records of containers whose processes were killed, which
// is removed before the next attempt and at the end. Never waits: the node agent's loop calls
// step() until it is ready.
#pragma once

#include "agent/environment.hpp"
#include "agent/spawn.hpp"
#include "attempt/container.hpp"
#include "attempt/node_machine.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::agent {

class ContainerMaker {
 public:
  using State = ContainerState;

  /// Starts making the attempt's container if it has not been made; `now_s` counts against
  /// its limit.
  [[nodiscard]] State step(const AttemptSpec& spec, const AttemptPaths& paths,
      const Environment& own, const ContainerPlace& place, double now_s);
  /// After `failed`, a clause.
  [[nodiscard]] const std::string& why() const { return why_; }
  /// Returns and clears the reason; the next attempt tries it again.
  [[nodiscard]] std::string take_fault() { return std::exchange(why_, {}); }
  /// Digest of an image that is ready, as far as its runtime tells.
  [[nodiscard]] std::string digest_of(const ContainerSpec& container) const;
  /// Stops a container that is no longer wanted.
  void stop();
  /// Removes containers that were made, and those left by ranks, as far as that ends in time.
  void remove_all(const Environment& own, const ContainerPlace& place, const Clock& clock);

 private:
  enum class Task : std::uint8_t { list, remove, make, ask };
  [[nodiscard]] State begin(Task task, const AttemptSpec& spec,
      const std::vector<std::string>& command, const std::filesystem::path& output,
      const Environment& own, double now_s);
  [[nodiscard]] State look(const AttemptSpec& spec, double now_s);
  /// Command to run before this attempt, so that no container of an earlier one is left.
  [[nodiscard]] std::optional<std::pair<Task, std::vector<std::string>>> clearing(
      const AttemptSpec& spec, const ContainerPlace& place);
  void learn_digest(const std::string& image, const std::string& digest);
  [[nodiscard]] State fail(const std::string& what);

  std::map<std::string, ContainerSpec> made_;   ///< containers that are there, by image
  std::map<std::string, std::string> digests_;  ///< digests by image
  std::string making_;                          ///< image
  bool listed_ = false;
  AttemptId cleared_for_ = 0;
  std::vector<std::string> gone_;  ///< owners, whose containers are to be removed
  bool removes_own_ = false;       ///< the task that runs removes those of this node agent
  Task task_ = Task::make;
  pid_t child_ = 0;
  std::filesystem::path output_;
  double since_s_ = 0;
  std::string why_;
};

// How the process of a rank differs where it runs in a container. Pure.

/// `own`: the agent's environment, which names job and node. `owner`: as label, empty for none.
[[nodiscard]] ContainerPlace place_of_container(
    const Environment& own, const std::string& token, bool has_gpus, std::string owner = "");

/// A process of this host, in the namespace of this one.
[[nodiscard]] ContainerOwner container_owner(pid_t pid);

/// Runs a command that removes containers, for at most `limit_s`. False: it did not end with 0.
bool run_removal(const std::vector<std::string>& command, const Environment& environment,
    const Clock& clock, double limit_s);

/// The number of a rank, in its container.
inline constexpr std::string_view rank_variable = "SHARDSWEEP_RANK";

/// Meeting place of the ranks, and this rank's number.
struct RankMeeting {
  int rank = 0;
  std::string meet;  ///< host:port of rank 0
};

/// Changes a command for the host into one for the inside of the container; without a container
/// nothing changes. The runtime itself starts in `attempt_dir`, where the first rank's environment
/// is written as it is inside. Returns the rank as it runs inside.
RankStart enter_container(RankProcess& process, const AttemptSpec& spec, const RankMeeting& meeting,
    const ContainerPlace& place, const std::string& attempt_dir);

}  // namespace shardsweep::agent
