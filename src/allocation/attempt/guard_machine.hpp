// SPDX-License-Identifier: Apache-2.0
// What the guard of a node agent decides. While the agent lives it waits. When the agent is
// gone, it says so if a signal has ended it, ends whatever the agent watched, and only then
// leaves: the end of its channel tells the lead that this node is clean. After a SIGKILL it
// stays a while: whoever kills a whole step kills its processes one by one. Pure.
#pragma once

#include <shardsweep/protocol.hpp>

#include <cstdint>
#include <string>

namespace shardsweep {

/// Exit code of a guard whose node agent was ended by a signal. Not 128 + signal: srun says 137
/// only if the guard was killed too, as `scancel` does it to the whole step.
inline constexpr int exit_agent_killed = 72;
/// Exit code of a guard that could not end everything, or could not start its node agent.
inline constexpr int exit_guard_failed = 1;

/// The guard's own word: an agent that is killed names no cause, and its node would be one of
/// several that have ended. Said before the guard leaves, while the channel is open.
[[nodiscard]] NodeFinding finding_of_killed_agent(const std::string& node, int signal);

class GuardMachine {
 public:
  enum class Order : std::uint8_t { wait, say_killed, end_children, await_own_kill, leave };
  [[nodiscard]] Order next() const { return order_; }

  /// A child was waited for: its agent, by an exit code or a signal (else 0).
  void see_agent_end(int exit_code, int signal);
  /// Notes that no child is left to wait for, and that the agent's end was not seen.
  void see_nothing_left();
  /// say_killed was done.
  void has_said() { order_ = Order::end_children; }
  /// end_children was done; `clean`: no child is left.
  void has_ended(bool clean);
  /// await_own_kill was done, and this guard lives.
  void has_outlived_its_agent() { order_ = Order::leave; }

  /// Signal that ended the agent; 0: none.
  [[nodiscard]] int signal() const { return signal_; }
  [[nodiscard]] int exit_code() const;

 private:
  Order order_ = Order::wait;
  int exit_code_ = 0;
  int signal_ = 0;
  bool clean_ = false;
};

}  // namespace shardsweep
