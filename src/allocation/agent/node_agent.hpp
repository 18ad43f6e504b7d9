// SPDX-License-Identifier: Apache-2.0
// The node agent: launches attempts on its node, watches them and ends them. It lives as long
// as its guard lives and its lead speaks; without either it ends its ranks and itself.
#pragma once

#include "agent/channel.hpp"
#include "agent/container_maker.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/node_check.hpp"
#include "agent/running_attempt.hpp"
#include "agent/signals.hpp"
#include "agent/spawn.hpp"
#include "attempt/learnt_limits.hpp"

#include <shardsweep/clock.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::agent {

struct NodeOptions {
  NodeIdentity node;
  double lease_s = 15;
  double beat_s = 1;
  double watch_s = 0.2;
};

class NodeAgent {
 public:
  NodeAgent(NodeOptions options, const Clock& clock, pid_t guard);
  /// Until told to quit; the exit code.
  [[nodiscard]] int run();

 private:
  /// An attempt whose node is not ready for it: GPU memory is on its way back.
  struct Waiting {
    AttemptSpec spec;
    AttemptPaths paths;
    std::string meet;  ///< host:port of a trainer's ranks
    double since_s = 0;
  };

  void take_line(const std::string& line);
  // What the lead can say.
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
  [[nodiscard]] ContainerPlace container_place() const;
  void start(Waiting attempt, const std::string& others);
  [[nodiscard]] NodeCheck check() const;
  void note_gpus(NodeEnded& ended);
  void take_signals();
  void keep_time();
  void step_attempt();
  void step_check();
  /// Ends what runs and leaves when nothing is left.
  void leave(Outcome outcome, const std::string& why, int exit_code);
  void wait();
  void say(FromNodeBody body);

  NodeOptions options_;
  const Clock& clock_;
  Log log_;
  pid_t guard_;
  Descriptor guard_handle_;
  Descriptor out_;  ///< the channel, where no rank inherits it
  Channel channel_;
  SignalSource signals_;
  Environment environment_;
  std::vector<std::string> devices_;
  GpuWatch gpus_;
  std::filesystem::path ended_jobs_;
  LearntLimits learnt_;
  ContainerMaker containers_;
  std::optional<Waiting> waiting_;
  std::optional<RunningAttempt> attempt_;
  /// Finds out about this node; the channel is its output.
  struct Checking {
    explicit Checking(PipedChild started)
        : child(std::move(started)), said(child.from.get(), child.to.get()) {}
    PipedChild child;
    Channel said;
  };
  std::optional<Checking> checking_;
  std::string gpus_shared_with_;  ///< when the attempt started; empty: nobody
  std::optional<int> leaving_;
  double now_s_;
  double heard_s_;
  double beat_s_;
};

/// The body of `shardsweep-agent node`: guard and node agent.
int run_node(const NodeOptions& options, const Clock& clock);

}  // namespace shardsweep::agent
