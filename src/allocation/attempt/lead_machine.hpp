// SPDX-License-Identifier: Apache-2.0
// What the lead of an allocation decides: what it has seen and the time go in, what is to be
// done comes out, as calls of LeadOutside. agent/lead.cpp does it with processes and files, the
// simulator of tests/unit/daemon with neither.
//
// It holds the lead's state together; decisions of one kind are kept by those that know them:
// Assignments (which attempt is next), NodeRoster (who is there), AttemptOnNodes (the one that
// runs) and StartGate (may another one start). One attempt is on the nodes at a time, and the
// next one waits until the files of the one before are packed. It needs no daemon to go on, and
// never trusts a node that has fallen silent.
//
//   working ─► checking last ─► quitting ─► last words ─► gone
//              the site's        the nodes   what could not
//              `after:`          leave       be written yet
//
// Pure.
#pragma once

#include "attempt/assignments.hpp"
#include "attempt/ended_attempt.hpp"
#include "attempt/findings.hpp"
#include "attempt/network_check.hpp"
#include "attempt/roster.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsweep {

/// Observations since the previous round.
struct LeadSenses {
  std::vector<int> signals{};
  std::vector<FromNode> heard{};  ///< messages of node agents, in order
  /// The one connection to all of them has ended, and all that came by it was heard.
  bool closed = false;
  std::optional<Settlement> settled{};  ///< the answer to settle()
  std::optional<double> left_s{};       ///< time until the scheduler ends the job; empty: not known
  /// An answer about the job's end is due any moment.
  bool end_is_due = false;
  bool all_written = true;  ///< all lines for the daemon are written
};

/// An attempt that is ready to start.
struct ReadyAttempt {
  AttemptSpec spec;
  std::string meet;  ///< host:port of a trainer's ranks; empty: not asked for
};

/// Effects of a lead, and its questions at the moment when it needs the answer.
class LeadOutside {
 public:
  LeadOutside() = default;
  LeadOutside(const LeadOutside&) = delete;
  LeadOutside& operator=(const LeadOutside&) = delete;
  virtual ~LeadOutside() = default;

  [[nodiscard]] virtual Moment now() const = 0;
  virtual void log(const std::string& line) = 0;
  /// A line for the daemon. False if not everything could be written; it is kept.
  virtual bool say(FromLeadBody line, bool durable) = 0;
  /// Sends to all node agents.
  virtual void tell(const ToNodeBody& message) = 0;
  /// Leaves the pairs of a round of the network's check for its nodes. False: it can't.
  [[nodiscard]] virtual bool leave_pairs(int round, const std::vector<NodePair>& pairs) = 0;
  /// New lines in the daemon's file.
  [[nodiscard]] virtual std::vector<ToLead> orders() = 0;
  /// Reads what an attempt needs; a fault if it can't be started.
  [[nodiscard]] virtual Result<ReadyAttempt> prepare(const Assign& assign) = 0;
  /// Packs the files of an attempt that was never started. False if that failed.
  [[nodiscard]] virtual bool pack(const Assign& assign) = 0;
  /// Reads, judges and packs; LeadSenses::settled is the answer.
  virtual void settle(EndedAttempt attempt) = 0;
  /// Slurm is asked about the job while an attempt stands still, for the evidence.
  virtual void ask_about_job(const Assign& assign) = 0;
  virtual void stop_asking() = 0;
  /// Switches by node, for ranks that Slurm starts; the answer, once.
  [[nodiscard]] virtual std::optional<std::map<std::string, std::string>> topology() = 0;
  [[nodiscard]] virtual bool topology_is_due() const = 0;
  /// StorageLook.
  [[nodiscard]] virtual std::string storage_fault(bool doubted) = 0;
  /// The connection has ended: a guard by SIGKILL, as srun says.
  [[nodiscard]] virtual bool agents_were_killed() = 0;
  /// Node on which srun could not launch an agent, in srun's words.
  [[nodiscard]] virtual std::optional<Evidence> lost_by_launcher() = 0;
  /// The one child (guard or srun) and all below it. False: some could not be ended.
  [[nodiscard]] virtual bool end_all() = 0;
};

class LeadMachine {
 public:
  /// `folder`: the allocation's. `job_nodes`: as NodeRoster.
  LeadMachine(std::string folder, AllocationSpec spec, std::vector<std::string> job_nodes,
      LeadOutside& outside);

  /// Runs once for all observations. Call it again soon if something happens, after a beat at the
  /// latest.
  void round(LeadSenses senses);
  [[nodiscard]] bool over() const { return stage_ == Stage::gone; }
  /// Time of the next line to the nodes.
  [[nodiscard]] double next_beat_s() const { return beat_s_ + spec_.limits.beat_s; }

  // Observers and tests read these.
  [[nodiscard]] AttemptId running() const { return running_ ? running_->id() : 0; }
  /// An attempt runs, or its files are being packed.
  [[nodiscard]] bool is_busy() const { return running_ || settling_; }
  [[nodiscard]] bool is_draining() const { return assignments_.draining(); }
  [[nodiscard]] bool has_work() const { return !assignments_.empty(); }
  [[nodiscard]] bool is_leaving() const { return leaving_.has_value(); }

 private:
  enum class Stage : std::uint8_t { working, checking_last, quitting, last_words, gone };

  void work();
  void keep_time();
  void beat();
  void take_signals();
  void read_orders();
  void take(const ToLead& line);
  void read_nodes();
  // Messages of a node; `node`: its name.
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
  [[nodiscard]] bool ask_for_pairs();
  void note_silent();
  [[nodiscard]] double check_limit_s() const;
  [[nodiscard]] std::string judge_check();
  void watch_nodes();
  void keep_wall_time();
  void start_next();
  void start(const Assign& assign);
  void end_running(Outcome outcome, const std::string& why, SaidBy source);
  void finish_if_ended();
  void finish(const AttemptOnNodes& running);
  void take_settled();
  [[nodiscard]] bool time_is_up() const;
  void end_unstarted(
      const Assign& assign, Outcome outcome, const std::string& cause, SaidBy source);
  void write_ended(const Settlement& settled);
  void leave(const std::string& why);
  void lose_nodes(const NodeLoss& loss);
  void depart();
  void go_on_checking(bool told_to_stop);
  void quit();
  void go_on_quitting();
  void go_on_with_last_words(bool all_written, bool told_to_stop);
  void say(FromLeadBody body, bool durable);
  [[nodiscard]] bool may_start();

  std::string folder_;
  AllocationSpec spec_;
  LeadOutside& outside_;
  LeadSenses senses_;  ///< observations of this round
  StartGate gate_;
  Assignments assignments_;
  std::set<AttemptId> started_;  ///< the two prove that each starts and ends once
  std::set<AttemptId> ended_;    ///< includes attempts that were never started
  NodeRoster nodes_;
  std::optional<AttemptOnNodes> running_;
  bool settling_ = false;
  std::optional<std::string> leaving_;  ///< why it leaves, once nothing runs
  /// The check of nodes that goes on.
  struct Checking {
    CheckTime time = CheckTime::before;
    double since_s = 0;
    std::map<std::string, NodeFacts> facts{};
    std::optional<NetworkCheck> network{};  ///< last part of the check, between two nodes each
  };
  std::optional<Checking> checking_;
  bool end_was_seen_ = false;   ///< the end of the job is known
  bool short_of_time_ = false;  ///< some trial was given back for want of time
  bool nodes_lost_ = false;
  Stage stage_ = Stage::working;
  double stage_limit_s_ = 0;  ///< when quitting, or the last words, are given up
  double now_s_;              ///< time of this round
  bool nodes_checked_;        ///< or nobody has asked for it
  double beat_s_;             ///< time of the last beat to the nodes
  double file_beat_s_;        ///< time of the last beat to the daemon
  double orders_read_s_ = 0;
  double busy_s_;  ///< time at which there was last something to do
};

}  // namespace shardsweep
