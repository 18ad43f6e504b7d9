// SPDX-License-Identifier: Apache-2.0
// The node agent: launches attempts on its node, watches them and ends them. It has effects and
// no opinions: each round it gathers what there is to be seen, gives it to NodeMachine
// (attempt/node_machine.hpp), which decides, and does what that asks for.
#pragma once

#include "agent/channel.hpp"
#include "agent/containers.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/log.hpp"
#include "agent/signals.hpp"
#include "agent/spawn.hpp"
#include "attempt/node_machine.hpp"

#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

// Is this node fit for the next attempt? What earlier ones have left is ended first.

/// Identity of the checked node, and where to find out which Slurm jobs were ours and have ended.
struct CheckedNode {
  std::string token;
  std::string name;
  std::string job;      ///< the Slurm job that it works in; may be empty
  std::string cluster;  ///< SLURM_CLUSTER_NAME, the same
  std::filesystem::path ended_jobs;
};

/// Ends marked processes whose owners are gone, and unmarked ones of our ended jobs, waiting at
/// most 3 s for them, and removes abandoned shared memory.
[[nodiscard]] NodeCheck check_node(const CheckedNode& node, const Log& log);

class NodeAgent final : private NodeOutside {
 public:
  /// `to_guard`: takes the command that removes what is left of containers, for the guard.
  NodeAgent(NodeOptions options, const Clock& clock, pid_t guard, Descriptor to_guard = {});
  /// Runs until told to quit; returns the exit code.
  [[nodiscard]] int run();

 private:
  void say_ready();
  [[nodiscard]] NodeSenses look();
  void step_check();
  void end_check();
  void wait();
  [[nodiscard]] ContainerPlace container_place() const;
  void tell_guard(const std::vector<std::string>& removal);

  [[nodiscard]] Moment now() const override;
  void log(const std::string& line) override { log_.line(line); }
  void say(FromNodeBody body) override;
  [[nodiscard]] Result<AttemptSpec> read_spec(const std::string& dir) override;
  [[nodiscard]] NodeCheck clean_up(const std::string& dir) override;
  [[nodiscard]] ContainerState container(const AttemptSpec& spec, const std::string& dir) override;
  [[nodiscard]] std::string container_fault() override { return containers_.take_fault(); }
  void stop_container() override { containers_.stop(); }
  [[nodiscard]] GpuFindings look_at_gpus(std::int64_t slack_bytes) override {
    return gpus_.look(slack_bytes);
  }
  [[nodiscard]] std::unique_ptr<RanksOutside> ranks_of(const NodeIdentity& node,
      const AttemptSpec& spec, const std::string& dir, const std::string& meet) override;
  void remove_segments() override;
  [[nodiscard]] std::string begin_check(const CheckNode& order) override;

  std::string token_;
  double watch_s_;
  const Clock& clock_;
  Log log_;
  pid_t guard_;
  Descriptor guard_handle_;
  Descriptor to_guard_;  ///< closed once it is told
  std::string container_owner_;
  Descriptor out_;  ///< the channel, if no rank inherits it
  Channel channel_;
  SignalSource signals_;
  Environment environment_;
  std::vector<std::string> devices_;
  GpuWatch gpus_;
  ContainerMaker containers_;
  /// Finds out about this node; the channel is its output.
  struct Checking {
    explicit Checking(PipedChild started)
        : child(std::move(started)), said(child.from.get(), child.to.get()) {}
    PipedChild child;
    Channel said;
  };
  std::optional<Checking> checking_;
  NodeMachine machine_;
};

/// The body of `shardsweep-agent node`: guard and node agent.
int run_node(const NodeOptions& options, const Clock& clock);

}  // namespace shardsweep::agent
