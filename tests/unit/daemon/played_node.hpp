// SPDX-License-Identifier: Apache-2.0
// A node of a played allocation: the production node agent and guard (attempt/node_machine.hpp,
// attempt/guard_machine.hpp) with played processes.
#pragma once

#include "attempt/guard_machine.hpp"
#include "attempt/node_machine.hpp"
#include "unit/daemon/played_ranks.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::testing {

/// What is left of the result that a rank was about to write.
enum class LastWrite : std::uint8_t { none, torn, whole };

class PlayedNode final : private NodeOutside {
 public:
  struct Around {
    PlayedAttempts& attempts;
    std::function<Moment()> now;
    std::function<void(const std::string&)> log;
    std::function<RankFate(AttemptId attempt, int index)> fate_of;
    std::function<bool()> is_late;     ///< what ranks have written, at this look
    std::function<bool()> unreadable;  ///< a file
  };
  PlayedNode(std::string name, std::string token, const AllocationSpec& spec, int index,
      double ready_at_s, Around around);

  void hear(const ToNodeBody& message) { heard_.push_back(message); }
  /// Its lead is gone, or takes nothing more.
  void close() { closed_ = true; }
  /// To the node agent and all of its ranks, as Slurm does it.
  void signal(int number);
  void act();
  [[nodiscard]] std::vector<FromNode> take_said() { return std::exchange(said_, {}); }

  // ---- what goes wrong
  /// As by the loss of its power: nobody says anything.
  void die(LastWrite result);
  /// As by kill -9 of the step: agent, guard and ranks.
  void end();
  void kill_agent();
  void kill_guard() { guard_ended_ = true; }
  void stop(bool stopped) { stopped_ = stopped; }
  void find(EvidenceKind kind) { say(NodeFinding{kind, "played"}); }

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Neither agent nor guard is there: its end of the channel is closed.
  [[nodiscard]] bool is_gone() const { return agent_ended_ && guard_ended_; }
  [[nodiscard]] bool is_dead() const { return dead_; }
  [[nodiscard]] bool is_stopped() const { return stopped_; }
  /// Something of an attempt runs here.
  [[nodiscard]] bool has_processes() const { return !dead_ && processes_.any_lives(); }
  /// Its agent lives, and its guard does not.
  [[nodiscard]] bool lacks_guard() const { return !dead_ && guard_ended_ && !agent_ended_; }

 private:
  void act_as_guard();
  void end_processes();

  [[nodiscard]] Moment now() const override { return around_.now(); }
  void log(const std::string& line) override { around_.log(name_ + ": " + line); }
  void say(FromNodeBody body) override { said_.push_back({name_, std::move(body)}); }
  [[nodiscard]] Result<AttemptSpec> read_spec(const std::string& dir) override;
  [[nodiscard]] NodeCheck clean_up(const std::string&) override { return {}; }
  [[nodiscard]] ContainerState container(const AttemptSpec&, const std::string&) override {
    return ContainerState::ready;
  }
  [[nodiscard]] std::string container_fault() override { return ""; }
  void stop_container() override {}
  [[nodiscard]] GpuFindings look_at_gpus(std::int64_t slack_bytes) override;
  [[nodiscard]] std::unique_ptr<RanksOutside> ranks_of(const NodeIdentity& node,
      const AttemptSpec& spec, const std::string& dir, const std::string& meet) override;
  void remove_segments() override {}
  [[nodiscard]] std::string begin_check(const CheckNode& order) override;

  std::string name_;
  double ready_at_s_;
  Around around_;
  NodeOptions options_;
  std::optional<NodeMachine> machine_;
  GuardMachine guard_;
  PlayedProcesses processes_;
  RankFate fate_;      ///< of the attempt that runs
  std::string dir_;    ///< the same
  std::string nonce_;  ///< the same
  bool agent_ended_ = false;
  bool guard_ended_ = false;
  bool dead_ = false;  ///< the node itself
  bool stopped_ = false;
  bool closed_ = false;
  std::vector<int> signals_;
  std::vector<ToNodeBody> heard_;
  std::vector<FromNode> said_;
};

}  // namespace shardsweep::testing
