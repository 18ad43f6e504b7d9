// SPDX-License-Identifier: Apache-2.0
// An attempt's life on one node, as decisions: what was seen and the time go in, what is to be
// done with the ranks comes out. The node agent (agent/running_attempt.cpp) does it.
//
//   running ─► looking ─► ending ─► settling ─► reaping ─► over
//              hung:      SIGTERM    ranks are    SIGKILL to
//              evidence   (grace:    gone; who    all, until
//                         SIGKILL)   outlives     ECHILD, then
//                                    them?        marker scan
//
// A stage is never entered twice, and none is left out between `ending` and `over`: whatever
// ends an attempt, its processes are waited for before it counts as over. If the node agent
// dies, this is lost with it; the guard then ends the processes, and the lead learns by
// silence. Pure.
#pragma once

#include "attempt/cut_short.hpp"
#include "attempt/findings.hpp"
#include "attempt/watch.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

class AttemptLife {
 public:
  enum class Stage : std::uint8_t { running, looking, ending, settling, reaping, over };
  /// Action on the ranks that is due now.
  enum class Order : std::uint8_t {
    wait,
    judge,      ///< only its limits can end it: ask overdue()
    look,       ///< take evidence of ranks that stand still
    terminate,  ///< SIGTERM
    kill,       ///< SIGKILL: their grace is over
    settle,     ///< ranks are gone: look for processes that outlive them
    reap,       ///< SIGKILL to all that is left
  };

  /// `has_rank_zero`: its records are read on this node.
  AttemptLife(const AttemptSpec& spec, bool has_rank_zero, double now_s);

  void see(int rank, const Record& record, Moment now);
  /// A rank here has exited: 0, or as `failure` says.
  void see_exit(int rank, const std::optional<Evidence>& failure, Moment now);
  /// A task of the Slurm step has failed, as `failure` says: all others are ended by Slurm. If
  /// they are not (the order to a node was lost), the step is told to end, and has failed so.
  void see_failing(Evidence failure, double now_s);
  [[nodiscard]] bool is_failing() const { return failing_.has_value(); }
  /// An operation of a rank here was seen to begin or end (AttemptWatch::see_movement).
  void see_movement(bool all, double now_s) { watch_.see_movement(all, now_s); }
  void stretch(double gap_s);

  /// Circumstances that a running attempt depends on, beside its observations.
  struct Around {
    bool ranks_gone = false;
    bool awaits_version = false;    ///< the program that tells the trainer's has not ended
    std::string refused_version{};  ///< why the trainer's is not read; empty: it is
  };
  [[nodiscard]] Order next_of_running(const Around& around, Moment now);
  /// Order for the stage `ending`.
  [[nodiscard]] Order next_of_ending(bool ranks_gone, double now_s);
  /// Order for the stage `settling`. `left`: children of ranks live on.
  [[nodiscard]] Order next_of_settling(bool left, double now_s);
  /// Called in the stage `reaping`: returns true when nothing more can be done. `clean`: no child
  /// is left.
  [[nodiscard]] bool has_reaped(bool clean, double now_s) const;
  /// Asked of it: by the lead, or by a limit.
  [[nodiscard]] Order end(Outcome outcome, const std::string& why, Moment now);
  /// `why`: empty if its trainer's version is one that is read.
  void refuse_version(const std::string& why, Timestamp at);
  void begin_ending(double now_s) { enter(Stage::ending, now_s); }
  void finish(double now_s) { enter(Stage::over, now_s); }

  /// The limit that it has reached.
  [[nodiscard]] std::optional<WatchVerdict> overdue(double now_s) const {
    return watch_.judge(now_s);
  }
  /// Set while ranks here stand still for too long. The other nodes have to be
  /// asked. `living`: ranks here that run on.
  [[nodiscard]] std::optional<Suspect> suspicion(
      double now_s, const std::vector<int>& living) const;

  /// The node of rank 0 has measured it, and ended it as hopeless.
  void set_cut_elsewhere();
  /// The node that found the attempt hopeless; empty: nobody.
  [[nodiscard]] std::optional<CutBy> cut_by() const { return cut_by_; }
  [[nodiscard]] bool is_cut_here() const { return cut_by_ == CutBy::this_node; }
  [[nodiscard]] std::string cut_result_line() const { return cut_.result_line(); }

  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool runs() const { return stage_ == Stage::running; }
  [[nodiscard]] Findings& findings() { return findings_; }
  [[nodiscard]] const Findings& findings() const { return findings_; }
  [[nodiscard]] const AttemptWatch& watch() const { return watch_; }

 private:
  void enter(Stage stage, double now_s);

  AttemptId attempt_;
  std::string nonce_;
  double grace_s_;
  bool has_rank_zero_;
  AttemptWatch watch_;
  CutShort cut_;
  std::optional<Evidence> failing_;
  double failing_since_s_ = 0;
  bool hopeless_ = false;  ///< train steps are too slow
  std::optional<CutBy> cut_by_;
  Findings findings_;
  Stage stage_ = Stage::running;
  double since_s_;  ///< begin of this stage
};

}  // namespace shardsweep
