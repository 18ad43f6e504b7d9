// SPDX-License-Identifier: Apache-2.0
#include "unit/daemon/played_node.hpp"

#include <shardsweep/allocation_files.hpp>

#include <csignal>

namespace shardsweep::testing {

PlayedNode::PlayedNode(std::string name, std::string token, const AllocationSpec& spec, int index,
    double ready_at_s, Around around)
    : name_(std::move(name)), ready_at_s_(ready_at_s), around_(std::move(around)) {
  options_.node.name = name_;
  options_.node.token = std::move(token);
  options_.node.index = index;
  options_.node.slots = spec.slots_per_node;
  options_.lease_s = spec.limits.agent_lease_s;
  options_.beat_s = spec.limits.beat_s;
  options_.watch_s = spec.limits.watch_interval_s;
}

void PlayedNode::act() {
  if (dead_ || stopped_ || now().s < ready_at_s_) return;
  processes_.pass(now().s);
  if (!agent_ended_) {
    if (!machine_) {
      NodeOutside& outside = *this;
      machine_.emplace(options_, outside);
      say(NodeReady{.node = name_, .host = name_, .pid = 1, .index = options_.node.index});
    }
    machine_->round({.signals = std::exchange(signals_, {}),
        .heard = std::exchange(heard_, {}),
        .guard_is_gone = guard_ended_,
        .closed = closed_});
    if (machine_->over()) {
      end_processes();
      agent_ended_ = true;
      guard_.see_agent_end(machine_->exit_code(true), 0);
    }
  }
  if (!guard_ended_) act_as_guard();
}

void PlayedNode::act_as_guard() {
  while (true) {
    switch (guard_.next()) {
      case GuardMachine::Order::wait:
        return;
      case GuardMachine::Order::say_killed:
        say(finding_of_killed_agent(name_, guard_.signal()));
        guard_.has_said();
        break;
      case GuardMachine::Order::end_children:
        end_processes();
        guard_.has_ended(true);
        break;
      case GuardMachine::Order::await_own_kill:
        guard_.has_outlived_its_agent();
        break;
      case GuardMachine::Order::leave:
        guard_ended_ = true;
        return;
    }
  }
}

void PlayedNode::end_processes() {
  while (processes_.any_lives())
    processes_.kill();
}

/// Ranks first.
void PlayedNode::signal(int number) {
  if (dead_ || agent_ended_) return;
  processes_.signal(number);
  signals_.push_back(number);
}

Result<AttemptSpec> PlayedNode::read_spec(const std::string& dir) {
  if (around_.unreadable()) return fault(FaultKind::unavailable, "spec.json: Stale file handle");
  SHARDSWEEP_ASSIGN(const std::string text, read_own_file(AttemptPaths{dir}.spec()));
  return decode_attempt_spec(text);
}

GpuFindings PlayedNode::look_at_gpus(std::int64_t) {
  // At the start nobody is there, at the end another has been.
  return {.held = "", .others = machine_->running() != 0 && fate_.contaminated ? "pid 7" : ""};
}

std::unique_ptr<RanksOutside> PlayedNode::ranks_of(
    const NodeIdentity& node, const AttemptSpec& spec, const std::string& dir, const std::string&) {
  fate_ = around_.fate_of(spec.attempt, node.index);
  dir_ = dir;
  nonce_ = spec.nonce;
  processes_.all.clear();
  return std::make_unique<PlayedRanks>(spec, dir, name_, node.index, fate_,
      PlayedRanks::Around{around_.attempts, processes_, around_.now, around_.log, around_.is_late});
}

std::string PlayedNode::begin_check(const CheckNode& order) {
  say(NodeChecked{order.time, order.round, {.device = "played", .seconds = 1}});
  return "";
}

void PlayedNode::die(LastWrite result) {
  const bool measures = has_processes() && options_.node.index == 0 &&
      fate_.outcome == Outcome::completed && !fate_.exits_early;
  if (measures && result == LastWrite::whole)
    around_.attempts.write_result(nonce_, dir_, fate_.speed);
  if (measures && result == LastWrite::torn) around_.attempts.tear_result(nonce_, dir_);
  dead_ = true;
}

void PlayedNode::end() {
  end_processes();
  agent_ended_ = guard_ended_ = true;
}

/// Its ranks are tied to it, what they have started is not.
void PlayedNode::kill_agent() {
  if (dead_ || agent_ended_) return;
  agent_ended_ = true;
  for (PlayedProcess& process : processes_.all)
    process.gone = process.gone || process.rank >= 0;
  guard_.see_agent_end(0, SIGKILL);
}

}  // namespace shardsweep::testing
