// SPDX-License-Identifier: Apache-2.0
// One node's part of one attempt, from fork to the proof that nothing of it is left.
//
// This class has effects and no opinions: it starts the ranks, looks at what they do and write,
// tells AttemptLife (attempt/life.hpp), and does what that orders. What belongs together is
// kept by those that know it: ranks, records, programs, environment, storage. It never waits:
// the node agent's loop calls step() again and again until over(). Only when waitpid has
// answered ECHILD is it over. If this process dies, its guard ends the ranks and the lead hears
// nothing more.
#pragma once

#include "agent/attempt_here.hpp"
#include "agent/environment_record.hpp"
#include "agent/evidence.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/program_check.hpp"
#include "agent/rank_group.hpp"
#include "agent/rank_logs.hpp"
#include "agent/rank_records.hpp"
#include "agent/slurm_step.hpp"
#include "agent/storage_watch.hpp"
#include "agent/trainer_logs.hpp"
#include "attempt/life.hpp"
#include "attempt/pace.hpp"
#include "node/cpu_use.hpp"
#include "node/recorder_file.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

class RunningAttempt {
 public:
  RunningAttempt(const NodeIdentity& node, const Clock& clock, const Log& log, AttemptSpec spec,
                 AttemptPaths paths);
  RunningAttempt(const RunningAttempt&) = delete;
  RunningAttempt& operator=(const RunningAttempt&) = delete;

  /// Starts the ranks. What can't be started is evidence like any other failure.
  /// `meet`: host:port where a trainer's ranks meet.
  void launch(const Environment& own, const std::vector<std::string>& devices,
              const std::string& meet);
  /// One look at children, records and limits.
  void step();
  /// A hung or slow attempt is looked at before it is ended.
  void end(Outcome outcome, const std::string& why);
  /// While what is seen here stands still for too long. The other nodes have to be asked.
  [[nodiscard]] std::optional<Suspect> suspicion() const {
    std::vector<int> living;
    for (const auto& [rank, pid] : ranks_.living()) {
      if (rank >= 0) living.push_back(rank);
    }
    return life_.suspicion(here_.now_s(), living);
  }
  /// The node of rank 0 has measured it, and ended it as hopeless.
  void set_cut_elsewhere() { life_.set_cut_elsewhere(); }
  /// Seconds without progress; -1 if no rank here keeps a flight recorder.
  [[nodiscard]] double still_s() const;
  void stretch(double gap_s) { life_.stretch(gap_s); }
  /// Of its container, as far as its runtime tells one.
  void set_image_digest(const std::string& digest) { image_digest_ = digest; }
  /// For the evidence.
  void watch_gpus(const GpuWatch& gpus) { gpus_ = &gpus; }
  /// The node agent itself was told to stop: a rank that dies of SIGTERM now does so too.
  void told_to_stop() { life_.findings().told_to_stop(here_.now_s()); }

  [[nodiscard]] bool over() const { return life_.stage() == AttemptLife::Stage::over; }
  /// A process could not be ended: this node is not to be used again.
  [[nodiscard]] bool stuck() const { return beside_.stuck; }
  /// The ranks are gone: what is left ends within milliseconds.
  [[nodiscard]] bool cleaning() const {
    return life_.stage() == AttemptLife::Stage::settling ||
           life_.stage() == AttemptLife::Stage::reaping;
  }
  [[nodiscard]] NodeEnded ended() const;
  [[nodiscard]] const AttemptSpec& spec() const { return here_.spec; }
  [[nodiscard]] const StillTimes& longest_still_s() const {
    return life_.watch().longest_still_s();
  }
  [[nodiscard]] NodeBeat beat() const {
    return {id(), life_.watch().phase(), life_.watch().step(), pace_.timed()};
  }
  /// Rank 0 is on another node, and its train steps are timed from now on.
  void begin_timed() { pace_.begin(); }
  [[nodiscard]] AttemptId id() const { return here_.spec.attempt; }

 private:
  void follow_trainer();
  void launch_ranks(const Environment& own, const std::vector<std::string>& devices,
                    const std::string& meet);
  void launch_step(const Environment& own, const std::string& meet);
  void follow_records(int rank);
  void start_probe(RankProcess like);

  void read_records(bool asked);
  void take_record(int rank, const Record& record);
  void read_recorders();
  void look_at_environment();
  void look_at_programs();
  void look_at_pace();
  void look_at_ranks();
  void look_at_storage();
  void take_exit(const RankExit& exit);
  [[nodiscard]] std::optional<Evidence> failure_of(const RankExit& exit) const;
  void hold_against_it(std::optional<Evidence> evidence);

  void obey(AttemptLife::Order order, const std::string& why = "");
  void step_running();
  void begin_looking(const std::string& why);
  void begin_ending();
  void terminate();
  void settle();
  void reap();

  void finish();
  void name_leftovers();
  void scan_for_marker();
  void look_for_others();
  void finish_trainer();
  void write_cut_result();
  void read_logs();
  void judge_storage();
  [[nodiscard]] bool result_is_due() const;

  AttemptHere here_;
  AttemptLife life_;
  RankGroup ranks_;
  std::optional<SlurmStep> step_;  ///< if its ranks are the tasks of one
  RankRecords records_;
  RecorderFiles recorders_;
  std::optional<TrainerLogs> trainer_;  ///< of a program that writes no records
  TrainerProbe probe_;
  ProgramCheck programs_;
  std::optional<EnvironmentRecord> environment_;  ///< of rank 0, if it is here
  std::string image_digest_ = "unknown";
  StorageWatch storage_;
  PaceLooks pace_;  ///< of the GPUs here, while train steps are timed
  const GpuWatch* gpus_ = nullptr;
  std::optional<std::int64_t> memory_kills_;  ///< before the ranks were started
  std::optional<CpuUse> cpu_before_;          ///< the same; none if nobody wants to know
  std::optional<EvidenceTaking> evidence_taking_;
  bool cut_result_is_ours_ = false;  ///< the result of an attempt that was cut short
  Beside beside_;
};

}  // namespace shardsweep::agent
