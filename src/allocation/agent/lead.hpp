// SPDX-License-Identifier: Apache-2.0
// The lead: claims its allocation, takes assignments from the daemon's file, has the node
// agents run them one after the other, and writes down how each ended.
//
// It sequences effects; what is to be done is decided by Assignments (which attempt is next),
// NodeRoster (who is there), AttemptOnNodes (the one that runs) and StartGate (may another one
// start). One attempt is on the nodes at a time, and the next one waits until the files of the
// one before are packed. It needs no daemon to go on, and never trusts a node that has fallen
// silent. If it dies, its node agents hear nothing more and end what they run; nobody takes its
// place, and the daemon gives its allocation up.
#pragma once

#include "agent/channel.hpp"
#include "agent/environment.hpp"
#include "agent/log.hpp"
#include "agent/said_lines.hpp"
#include "agent/settling.hpp"
#include "agent/signals.hpp"
#include "agent/slurm_questions.hpp"
#include "agent/spawn.hpp"
#include "agent/start_gate.hpp"
#include "attempt/assignments.hpp"
#include "attempt/network_check.hpp"
#include "attempt/on_nodes.hpp"
#include "attempt/roster.hpp"

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
  void keep_time();
  void beat();
  void take_signals();
  void read_assignments();
  void take(const ToLead& line);
  void read_nodes();
  // What a node can say; `node`: who says it.
  void take(const std::string& node, const NodeReady& ready);
  void take(const std::string& node, const NodeBeat& beat);
  void take(const std::string& node, const NodeLaunched& launched);
  void take(const std::string& node, const Suspect& suspicion);
  void take(const std::string& node, const NoProgress& still);
  void take(const std::string& node, const NodeEnded& ended);
  void take(const std::string& node, const NodeFinding& found);
  void take(const std::string& node, const NodeChecked& checked);
  void check_gpu(const NodeReady& ready);
  void place_job_nodes();
  void check_nodes();
  void ask_for_check(CheckTime time);
  [[nodiscard]] bool ask_for_pairs(double limit_s);
  void note_silent(double limit_s);
  [[nodiscard]] std::string judge_check(double limit_s);
  void check_last();
  void watch_nodes();
  [[nodiscard]] bool agents_were_killed() const;
  void keep_wall_time();
  void start_next();
  [[nodiscard]] Result<AttemptSpec> read_spec(const Assign& assign) const;
  void end_running(Outcome outcome, const std::string& why, SaidBy source);
  void finish_if_ended();
  void finish(const AttemptOnNodes& running);
  void take_settled();
  [[nodiscard]] bool is_busy() const { return running_ || settling_; }
  [[nodiscard]] bool time_is_up() const;
  void end_unstarted(const Assign& assign, Outcome outcome, const std::string& cause,
                     SaidBy source);
  void write_ended(const Settled& settled);
  void leave(const std::string& why);
  void lose_nodes(const NodeLoss& loss);
  [[nodiscard]] int depart();
  void wait();
  void say(FromLeadBody body, bool durable);
  [[nodiscard]] bool may_start();
  void tell(const ToNodeBody& message);

  AllocationPaths paths_;
  AllocationSpec spec_;
  SaidLines from_lead_;
  StartGate gate_;
  LineReader to_lead_;
  const Clock& clock_;
  Log log_;
  PipedChild child_;
  Channel channel_;
  SignalSource signals_;
  Assignments assignments_;
  std::set<AttemptId> started_;  ///< the two prove that each starts and ends once
  std::set<AttemptId> ended_;    ///< those too that were never started
  NodeRoster nodes_;
  std::optional<AttemptOnNodes> running_;
  std::optional<Settling> settling_;
  std::optional<std::string> leaving_;  ///< why it leaves, once nothing runs
  JobEnd job_end_;
  JobReport job_report_;
  TopologyReport topology_;
  /// The check of nodes that goes on.
  struct Checking {
    CheckTime time = CheckTime::before;
    double since_s = 0;
    std::map<std::string, NodeFacts> facts{};
    std::optional<NetworkCheck> network{};  ///< its last part, between two nodes each
  };
  std::optional<Checking> checking_;
  bool short_of_time_ = false;  ///< something was given back for want of it
  bool nodes_lost_ = false;
  std::int64_t line_ = 0;  ///< number of the last line for the daemon
  double now_s_;           ///< of this round of the loop
  bool nodes_checked_;     ///< or nobody has asked for it
  double beat_s_;          ///< when the nodes were last told that we live
  double file_beat_s_;     ///< the same of the daemon
  double assignments_read_s_ = 0;
  double busy_s_;  ///< when there was last something to do
};

}  // namespace shardsweep::agent
