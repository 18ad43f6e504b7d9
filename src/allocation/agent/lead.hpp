// SPDX-License-Identifier: Apache-2.0
// The lead: claims its allocation, takes assignments from the daemon's file, has the node
// agents run them one after the other, and writes down how each ended. It needs no daemon to go
// on, and never trusts a node that has fallen silent.
#pragma once

#include "agent/channel.hpp"
#include "agent/environment.hpp"
#include "agent/job_end.hpp"
#include "agent/job_report.hpp"
#include "agent/log.hpp"
#include "agent/said_lines.hpp"
#include "agent/settling.hpp"
#include "agent/signals.hpp"
#include "agent/spawn.hpp"
#include "agent/start_gate.hpp"
#include "agent/topology_report.hpp"
#include "attempt/assignments.hpp"
#include "attempt/classify.hpp"
#include "attempt/hang.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsweep::agent {

class Lead {
 public:
  /// `nodes`: the one child, a guard or srun, with its pipes. After block_signals().
  Lead(AllocationPaths paths, AllocationSpec spec, LineWriter from_lead, const Clock& clock,
       PipedChild nodes, JobEnd job_end);
  void say_claimed(Claimed claimed) { say(std::move(claimed), true); }
  /// Until there is nothing more to do; the exit code.
  [[nodiscard]] int run();

 private:
  struct Node {
    double heard_s = 0;
    std::int32_t index = -1;
    std::string switches;            ///< above it; empty: not known
    std::optional<NodeEnded> ended;  ///< its part of the running attempt
    std::string phase;
    std::int64_t step = 0;
    std::string leaving;  ///< why, where it has said so
  };
  struct Running {
    Assign assign;
    AttemptSpec spec;
    std::optional<double> end_others_at_s;
    std::optional<Evidence> own;  ///< what the lead itself holds against it
    HangQuestion hang;
    bool timed = false;  ///< its train steps are timed, and the nodes know it
  };

  void keep_time();
  void beat();
  void take_signals();
  void read_assignments();
  void take(const ToLead& line);
  void read_nodes();
  void take(const FromNode& message);
  void judge_hang();
  void check_gpu(const NodeReady& ready);
  void place_nodes();
  void place_job_nodes();
  void watch_nodes();
  void keep_wall_time();
  void start_next();
  [[nodiscard]] Result<AttemptSpec> read_spec(const Assign& assign) const;
  void end_running(Outcome outcome, const std::string& why, SaidBy source);
  void finish_if_ended();
  void finish(Running running);
  void take_settled();
  [[nodiscard]] bool is_busy() const { return running_ || settling_; }
  void say_job_nodes(const std::string& known);
  [[nodiscard]] std::map<std::int32_t, std::string> names_by_index() const;
  [[nodiscard]] std::vector<std::string> nodes_in_order() const;
  [[nodiscard]] bool time_is_up() const;
  void end_unstarted(const Assign& assign, Outcome outcome, const std::string& cause,
                     SaidBy source);
  void write_ended(const Settled& settled);
  void leave(const std::string& why);
  void lose_all_nodes();
  void lose_absent_nodes();
  [[nodiscard]] bool is_step_launch() const { return spec_.launch == LaunchMode::srun; }
  void lose_nodes(const std::string& why, const std::string& node = "", double silent_s = 0);
  [[nodiscard]] int depart();
  void wait();
  void say(FromLeadBody body, bool durable);
  [[nodiscard]] bool may_start();
  void tell(const ToNodeBody& message);
  [[nodiscard]] bool nodes_ready() const;

  AllocationPaths paths_;
  AllocationSpec spec_;
  int agents_;                          ///< node agents that have to be there
  std::vector<std::string> job_nodes_;  ///< Slurm's names, in its order; empty: not known
  SaidLines from_lead_;
  StartGate gate_;
  LineReader to_lead_;
  const Clock& clock_;
  Log log_;
  PipedChild child_;
  Channel channel_;
  SignalSource signals_;
  Assignments assignments_;
  std::set<AttemptId> started_;
  std::set<AttemptId> ended_;  ///< those too that were never started
  std::map<std::string, Node> nodes_;
  std::optional<Running> running_;
  std::optional<Settling> settling_;
  std::optional<std::string> leaving_;
  JobEnd job_end_;
  JobReport job_report_;
  TopologyReport topology_;
  bool short_of_time_ = false;  ///< something was given back for want of it
  bool nodes_lost_ = false;
  bool placed_ = false;  ///< nodes have their places in the network's order
  std::int64_t line_ = 0;
  double now_s_;
  double started_s_;
  double beat_s_;
  double file_beat_s_;
  double assignments_read_s_ = 0;
  double busy_s_;  ///< when there was last something to do
};

}  // namespace shardsweep::agent
