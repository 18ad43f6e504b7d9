// SPDX-License-Identifier: Apache-2.0
// What a node agent decides: whether an attempt starts here, what its lead is told, and when
// the agent leaves. What was seen and the time go in, what is to be done comes out, as calls of
// NodeOutside; agent/node_agent.cpp does it. It lives as long as its guard lives and its lead
// speaks; without either it ends its ranks and itself. One attempt runs at a time
// (attempt/attempt_machine.hpp). Pure.
#pragma once

#include "attempt/attempt_machine.hpp"
#include "attempt/gpu_use.hpp"
#include "attempt/watch.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// Place and role of a node agent.
struct NodeIdentity {
  std::string name;
  std::string token;
  int index = 0;  ///< place among the allocation's nodes: the first rank is index * ranks_per_node
  int slots = 1;
  bool ranks_are_step = false;  ///< an attempt is one srun here, its ranks are on all nodes
  /// This environment is a shell's and no job's: ranks get what passed_on() leaves of it.
  bool in_a_shell = false;
  std::vector<std::string> job_nodes{};  ///< the allocation's nodes in their ranks' order; empty:
                                         ///< not known
  bool is_reordered = false;             ///< the order differs from Slurm's
};

struct NodeOptions {
  NodeIdentity node;
  double lease_s = 15;
  double beat_s = 1;
  double watch_s = 0.2;
};

/// Remains of earlier attempts on the node.
struct NodeCheck {
  std::vector<std::string> ended;    ///< command lines of processes that are now ended
  std::vector<std::string> stuck;    ///< processes that can't be ended: the node is not to be used
  std::vector<std::string> removed;  ///< shared memory that was left, with its size
};

/// State of an attempt's container.
enum class ContainerState : std::uint8_t { ready, making, failed };

/// Observations since the previous round.
struct NodeSenses {
  std::vector<int> signals{};
  std::vector<ToNodeBody> heard{};  ///< messages of the lead, in order
  bool guard_is_gone = false;
  bool closed = false;  ///< the lead no longer speaks, or no longer listens
};

class NodeOutside {
 public:
  NodeOutside() = default;
  NodeOutside(const NodeOutside&) = delete;
  NodeOutside& operator=(const NodeOutside&) = delete;
  virtual ~NodeOutside() = default;

  [[nodiscard]] virtual Moment now() const = 0;
  virtual void log(const std::string& line) = 0;
  /// Sends to the lead.
  virtual void say(FromNodeBody body) = 0;
  /// Reads the spec of an attempt, with the values of its secrets.
  [[nodiscard]] virtual Result<AttemptSpec> read_spec(const std::string& dir) = 0;
  /// Ends and removes what earlier attempts have left.
  [[nodiscard]] virtual NodeCheck clean_up(const std::string& dir) = 0;
  /// Starts making an attempt's container, if that has to be, and looks.
  [[nodiscard]] virtual ContainerState container(
      const AttemptSpec& spec, const std::string& dir) = 0;
  /// Explains ContainerState::failed; valid once after it.
  [[nodiscard]] virtual std::string container_fault() = 0;
  /// Stops making a container that is no longer wanted.
  virtual void stop_container() = 0;
  /// Looks for foreign use of the GPUs, while nothing of ours runs there.
  [[nodiscard]] virtual GpuFindings look_at_gpus(std::int64_t slack_bytes) = 0;
  /// Makes the interface to the ranks of an attempt that is about to start.
  [[nodiscard]] virtual std::unique_ptr<RanksOutside> ranks_of(const NodeIdentity& node,
      const AttemptSpec& spec, const std::string& dir, const std::string& meet) = 0;
  /// An attempt is over: what it has left in shared memory.
  virtual void remove_segments() = 0;
  /// Starts finding out about this node; the answer goes to the lead. Why it can't; empty: it
  /// has begun.
  [[nodiscard]] virtual std::string begin_check(const CheckNode& order) = 0;
};

class NodeMachine {
 public:
  NodeMachine(NodeOptions options, NodeOutside& outside);

  /// Runs once for all observations. Call it again soon if something happens, after watch_s at the
  /// latest while it is busy, and after a beat.
  void round(const NodeSenses& senses);
  /// Told to quit, or it can't go on, and no attempt is left.
  [[nodiscard]] bool over() const { return leaving_ && !attempt_; }
  /// `clean`: no child is left.
  [[nodiscard]] int exit_code(bool clean) const;

  [[nodiscard]] const NodeIdentity& node() const { return options_.node; }
  [[nodiscard]] double next_beat_s() const { return beat_s_ + options_.beat_s; }
  [[nodiscard]] bool is_busy() const { return attempt_ || waiting_; }
  [[nodiscard]] bool is_leaving() const { return leaving_.has_value(); }
  /// True while remains of an attempt are ended, which takes milliseconds.
  [[nodiscard]] bool cleaning() const { return attempt_ && attempt_->cleaning(); }
  /// Running attempt; 0: none.
  [[nodiscard]] AttemptId running() const { return attempt_ ? attempt_->id() : 0; }

 private:
  /// An attempt whose node is not ready for it: GPU memory is on its way back.
  struct Waiting {
    AttemptSpec spec;
    std::string dir;
    std::string meet;  ///< host:port of a trainer's ranks
    double since_s = 0;
  };

  void keep_time();
  void take_signals(const std::vector<int>& signals);
  // Messages of the lead.
  void take(const Launch& launch);
  void take(const EndAttempt& end);
  void take(const AskProgress& question);
  void take(const Place& place);
  void take(const TimedSteps& news);
  void take(const CheckNode& order);
  void take(const LeadBeat& beat);
  void take(const Quit& quit);
  void refuse(AttemptId attempt, Outcome outcome, const std::string& why, int start_error = 0);
  [[nodiscard]] bool clean(const NodeCheck& check, AttemptId attempt);
  void step_waiting();
  [[nodiscard]] bool container_is_ready();
  void start(Waiting waiting, const std::string& others);
  void note_gpus(NodeEnded& ended);
  void step_attempt();
  /// Ends what runs and leaves when nothing is left.
  void leave(Outcome outcome, const std::string& why, int exit_code);

  NodeOptions options_;
  NodeOutside& outside_;
  LearntLimits learnt_;
  std::optional<Waiting> waiting_;
  std::optional<AttemptMachine> attempt_;
  std::string gpus_shared_with_;  ///< users of the GPUs when the attempt started; empty: nobody
  std::optional<int> leaving_;
  double now_s_;
  double heard_s_;
  double beat_s_;
};

}  // namespace shardsweep
