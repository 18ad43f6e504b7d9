// SPDX-License-Identifier: Apache-2.0
#include "attempt/guard_machine.hpp"

#include "attempt/classify.hpp"

#include <fmt/format.h>

#include <csignal>

namespace shardsweep {

NodeFinding finding_of_killed_agent(const std::string& node, int signal) {
  return {EvidenceKind::killed,
      fmt::format("the node agent of {} was ended by {}", node, signal_name(signal))};
}

void GuardMachine::see_agent_end(int exit_code, int signal) {
  if (order_ != Order::wait) return;
  exit_code_ = exit_code;
  signal_ = signal;
  order_ = signal != 0 ? Order::say_killed : Order::end_children;
}

void GuardMachine::see_nothing_left() {
  if (order_ == Order::wait) order_ = Order::end_children;
}

void GuardMachine::has_ended(bool clean) {
  clean_ = clean;
  order_ = signal_ == SIGKILL ? Order::await_own_kill : Order::leave;
}

int GuardMachine::exit_code() const {
  if (!clean_) return exit_guard_failed;
  return signal_ != 0 ? exit_agent_killed : exit_code_;
}

}  // namespace shardsweep
