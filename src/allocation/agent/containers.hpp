// SPDX-License-Identifier: Apache-2.0
// Containers that must be made on a node before ranks can enter them: each image once in an
// allocation. Never waits: the node agent's loop calls step() until it is ready.
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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsweep::agent {

class ContainerMaker {
 public:
  using State = ContainerState;

  /// Starts making the attempt's container where it has not been made; `now_s` counts against
  /// its limit.
  [[nodiscard]] State step(const AttemptSpec& spec, const AttemptPaths& paths,
      const Environment& own, const ContainerPlace& place, double now_s);
  /// After `failed`, a clause.
  [[nodiscard]] const std::string& why() const { return why_; }
  /// The same; the next attempt tries it again.
  [[nodiscard]] std::string take_fault() { return std::exchange(why_, {}); }
  /// Of an image that is ready, as far as its runtime tells.
  [[nodiscard]] std::string digest_of(const ContainerSpec& container) const;
  /// Nobody wants it any more.
  void stop();
  /// What was made is removed, as far as that ends in time.
  void remove_all(const Environment& own, const ContainerPlace& place, const Clock& clock);

 private:
  enum class Task : std::uint8_t { make, ask };
  [[nodiscard]] State begin(Task task, const AttemptSpec& spec,
      const std::vector<std::string>& command, const std::filesystem::path& output,
      const Environment& own, double now_s);
  [[nodiscard]] State look(const AttemptSpec& spec, double now_s);
  void learn_digest(const std::string& image, const std::string& digest);
  [[nodiscard]] State fail(const std::string& what);

  std::map<std::string, ContainerSpec> made_;   ///< by image: those that are there
  std::map<std::string, std::string> digests_;  ///< by image
  std::string making_;                          ///< image
  Task task_ = Task::make;
  pid_t child_ = 0;
  std::filesystem::path output_;
  double since_s_ = 0;
  std::string why_;
};

// How the process of a rank differs where it runs in a container. Pure.

/// `own`: the agent's environment, which names job and node.
[[nodiscard]] ContainerPlace place_of_container(
    const Environment& own, const std::string& token, bool has_gpus);

/// The number of a rank, in its container.
inline constexpr std::string_view rank_variable = "SHARDSWEEP_RANK";

/// Where the ranks meet, and which one this is.
struct RankMeeting {
  int rank = 0;
  std::string meet;  ///< host:port of rank 0
};

/// What was to run on the host is to run inside; nothing is changed without a container. The
/// runtime itself starts in `attempt_dir`, where the first rank's environment is written as it
/// is inside. Returns the rank as it runs inside.
RankStart enter_container(RankProcess& process, const AttemptSpec& spec, const RankMeeting& meeting,
    const ContainerPlace& place, const std::string& attempt_dir);

}  // namespace shardsweep::agent
