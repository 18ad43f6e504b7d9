// SPDX-License-Identifier: Apache-2.0
// One node's part of one attempt, from the start of its ranks to the proof that nothing of them
// is left, as decisions: what is seen of the ranks goes in, what is to be done with them comes
// out, as calls of RanksOutside. agent/running_attempt.cpp does it with processes and files.
//
// AttemptLife knows the stages, Findings what was seen, PaceLooks when to look at GPUs; here
// they are asked in order. It never waits: round() is called again and again until over(). Only
// when no child is left it is over. Pure.
#pragma once

#include "attempt/gpu_use.hpp"
#include "attempt/life.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>
#include <shardsweep/result.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep {

/// Why a process never became its program.
struct StartFailure {
  int error = 0;     ///< errno
  std::string what;  ///< "cannot start /x/y: No such file or directory"
};

/// How a rank's process has ended.
struct RankExit {
  int rank = -1;  ///< -1: the step of all ranks
  bool by_signal = false;
  int status = 0;  ///< exit code, or the signal's number
  std::optional<StartFailure> not_started{};
};

/// A rank's number with a record of it.
using RankRecord = std::pair<int, Record>;

/// The ranks of an attempt on this node, and what they write.
class RanksOutside {
 public:
  RanksOutside() = default;
  RanksOutside(const RanksOutside&) = delete;
  RanksOutside& operator=(const RanksOutside&) = delete;
  virtual ~RanksOutside() = default;

  [[nodiscard]] virtual Moment now() const = 0;
  virtual void log(const std::string& line) = 0;

  // ---- the start
  /// Starts them. What speaks against it ends the attempt; `beside` does not.
  [[nodiscard]] virtual std::optional<Evidence> start(std::vector<Evidence>& beside) = 0;

  // ---- looking
  /// New ones. `asked`: all that there are, now.
  [[nodiscard]] virtual std::vector<RankRecord> records(bool asked) = 0;
  [[nodiscard]] virtual std::int64_t garbage() const = 0;  ///< lines that are no records
  /// A flight recorder has, since the last question.
  [[nodiscard]] virtual bool recorders_have_moved() = 0;
  [[nodiscard]] virtual bool all_recorders_are_there() const = 0;
  [[nodiscard]] virtual bool any_recorder_is_there() const = 0;
  /// Evidence from the environment of the first rank. `is_training`: this is the last look.
  [[nodiscard]] virtual std::optional<Evidence> look_at_environment(bool is_training) = 0;
  [[nodiscard]] virtual std::optional<Evidence> look_at_programs(bool were_read) = 0;
  virtual void look_at_pace(PaceOfNode& looks) = 0;
  /// Exits since the last call.
  [[nodiscard]] virtual std::vector<RankExit> exits() = 0;
  /// Evidence of an exit with a code other than 0. `told`: the node agent was told to stop.
  /// `has_trained`: train steps of the attempt have been seen.
  [[nodiscard]] virtual std::optional<Evidence> failure_of(
      const RankExit& exit, bool told, bool has_trained) = 0;
  virtual void rank_is_noted() {}
  virtual void reap_orphans() = 0;
  /// `watched`: a rank that prints without end counts.
  [[nodiscard]] virtual std::optional<Evidence> look_at_storage(bool watched) = 0;
  [[nodiscard]] virtual bool all_gone() const = 0;
  [[nodiscard]] virtual std::vector<int> living() const = 0;
  [[nodiscard]] virtual bool awaits_version() = 0;
  [[nodiscard]] virtual std::string refused_version() const = 0;
  /// The ranks are tasks of a Slurm step, and none has begun.
  [[nodiscard]] virtual bool waits_for_step() const = 0;
  /// Evidence that a task has failed although its Slurm step runs on. `told`: as in failure_of().
  [[nodiscard]] virtual std::optional<Evidence> failure_in_step(bool told) = 0;
  [[nodiscard]] virtual Evidence no_start_evidence(const std::string& why) const = 0;

  // ---- orders
  /// Takes evidence of ranks that stand still: begins, and is through.
  virtual void begin_looking(const std::string& why, double still_s) = 0;
  [[nodiscard]] virtual bool has_looked() = 0;
  virtual void terminate() = 0;
  virtual void kill() = 0;
  /// The ranks are gone: do processes below us live on?
  [[nodiscard]] virtual bool anybody_is_left() = 0;
  /// Command lines of processes that outlived their ranks.
  [[nodiscard]] virtual std::vector<std::string> leftovers() = 0;
  /// One round of SIGKILL and waiting: true when no child is left.
  [[nodiscard]] virtual bool reap_once() = 0;
  virtual void name_stuck() = 0;
  virtual void is_reaped() {}
  /// Ranks of other nodes have printed what belongs to the result.
  [[nodiscard]] virtual bool waits_for_facts() = 0;

  // ---- the end
  /// Ends what has left the tree by another way than a parent's death.
  virtual void end_marked(Beside& beside) = 0;
  virtual void look_for_others(Beside& beside) = 0;
  [[nodiscard]] virtual std::optional<Evidence> finish_environment() = 0;
  struct TrainerEnd {
    bool has_result = false;
    std::optional<RankRecord> error{};  ///< error record that no other node reads
    bool refuses = false;               ///< the log is no measurement
  };
  /// `failed`: without train steps there is nothing to say.
  [[nodiscard]] virtual TrainerEnd finish_trainer(std::optional<CutBy> cut, bool failed) = 0;
  /// The result of an attempt that was cut short here.
  [[nodiscard]] virtual Result<void> write_result(const std::string& line) = 0;
  /// Adds what logs say; `alone`: nothing else says that anything went wrong.
  virtual void read_logs(std::vector<Evidence>& evidence, Beside& beside, bool alone) = 0;
  /// Why no file could be written; empty: one could.
  [[nodiscard]] virtual std::string storage_fault() = 0;
  virtual void collect_snapshots() = 0;
  /// The result would be seen on this node.
  [[nodiscard]] virtual bool result_is_due() const = 0;
  /// Names the node to which the failure `first` belongs, if it belongs to one.
  virtual void name_node(Ending& ending, const Evidence& first) const = 0;
};

class AttemptMachine {
 public:
  /// `is_step`: its ranks are tasks of a Slurm step, on all nodes.
  AttemptMachine(
      AttemptSpec spec, bool has_rank_zero, bool is_step, std::unique_ptr<RanksOutside> ranks);

  /// Starts the ranks. A failed start is evidence like any other failure.
  void launch();
  /// One look at children, records and limits.
  void round();
  /// A hung or slow attempt is looked at before it is ended.
  void end(Outcome outcome, const std::string& why);
  /// Set while ranks here stand still for too long. The other nodes have to be asked.
  [[nodiscard]] std::optional<Suspect> suspicion() const;
  /// The node of rank 0 has measured it, and ended it as hopeless.
  void set_cut_elsewhere() { life_.set_cut_elsewhere(); }
  /// Seconds without progress; -1 if no rank here keeps a flight recorder.
  [[nodiscard]] double still_s() const;
  void stretch(double gap_s) { life_.stretch(gap_s); }
  /// The node agent itself was told to stop: a rank that dies of SIGTERM now does so too.
  void told_to_stop() { life_.findings().told_to_stop(ranks_->now().s); }
  /// Rank 0 is on another node, and its train steps are timed from now on.
  void begin_timed() { pace_.begin(); }

  [[nodiscard]] bool over() const { return life_.stage() == AttemptLife::Stage::over; }
  /// A process could not be ended: this node is not to be used again.
  [[nodiscard]] bool stuck() const { return beside_.stuck; }
  /// The ranks are gone: what is left ends within milliseconds.
  [[nodiscard]] bool cleaning() const {
    return life_.stage() == AttemptLife::Stage::settling ||
        life_.stage() == AttemptLife::Stage::reaping;
  }
  [[nodiscard]] NodeEnded ended() const;
  [[nodiscard]] const AttemptSpec& spec() const { return spec_; }
  [[nodiscard]] AttemptId id() const { return spec_.attempt; }
  [[nodiscard]] const StillTimes& longest_still_s() const {
    return life_.watch().longest_still_s();
  }
  [[nodiscard]] NodeBeat beat() const {
    return {id(), life_.watch().phase(), life_.watch().step(), pace_.timed()};
  }

 private:
  void read_records(bool asked);
  void take_record(int rank, const Record& record);
  void look_at_environment();
  void look_at_programs();
  void look_at_pace();
  void look_at_ranks();
  void look_at_step();
  void take_exit(const RankExit& exit);
  void hold_against_it(std::optional<Evidence> evidence);
  void obey(AttemptLife::Order order, const std::string& why = "");
  void step_running();
  void begin_ending();
  void settle();
  void reap();
  void finish();
  void write_cut_result();
  void judge_storage();

  AttemptSpec spec_;
  bool is_step_;
  std::unique_ptr<RanksOutside> ranks_;
  AttemptLife life_;
  PaceLooks pace_;  ///< looks at the GPUs here while train steps are timed
  bool launched_ = false;
  bool cut_result_is_ours_ = false;  ///< the result of an attempt that was cut short
  Beside beside_;
};

}  // namespace shardsweep
