// SPDX-License-Identifier: Apache-2.0
// One node's part of one attempt, from fork to the proof that nothing of it is left. Never
// waits: the node agent's loop calls step() again and again until over().
//
//   running ─► looking ─► ending ─► settling ─► reaping ─► over
//              hung:      SIGTERM    ranks are    SIGKILL to
//              evidence   (grace:    gone; who    all, until
//                         SIGKILL)   outlives     ECHILD, then
//                                    them?        marker scan
#pragma once

#include "agent/environment.hpp"
#include "agent/environment_reading.hpp"
#include "agent/evidence.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/log.hpp"
#include "agent/rank_logs.hpp"
#include "agent/trainer_logs.hpp"
#include "agent/trainer_probe.hpp"
#include "attempt/classify.hpp"
#include "attempt/container.hpp"
#include "attempt/cut_short.hpp"
#include "attempt/pace.hpp"
#include "attempt/watch.hpp"
#include "machine/descriptor.hpp"
#include "node/cpu_use.hpp"
#include "node/recorder_file.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/protocol.hpp>
#include <shardsweep/storage.hpp>

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

/// What a node agent is on its node.
struct NodeIdentity {
  std::string name;
  std::string token;
  int index = 0;  ///< among the allocation's nodes: the first rank is index * ranks_per_node
  int slots = 1;
  bool ranks_are_step = false;  ///< an attempt is one srun here, its ranks are on all nodes
  std::vector<std::string> job_nodes{};  ///< these, in their ranks' order; empty: not known
  bool is_reordered = false;             ///< that is not Slurm's order
};

class RunningAttempt {
 public:
  RunningAttempt(const NodeIdentity& node, const Clock& clock, const Log& log, AttemptSpec spec,
                 AttemptPaths paths);

  /// Starts the ranks. What can't be started is evidence like any other failure.
  /// `meet`: host:port where a trainer's ranks meet.
  void launch(const Environment& own, const std::vector<std::string>& devices,
              const std::string& meet);
  /// One look at children, records and limits.
  void step();
  /// A hung or slow attempt is looked at before it is ended.
  void end(Outcome outcome, const std::string& why);
  /// While what is seen here stands still for too long. The other nodes have to be asked.
  [[nodiscard]] std::optional<Suspect> suspicion() const;
  /// The node of rank 0 has measured it, and ended it as hopeless.
  void set_cut_elsewhere() { cut_elsewhere_ = true; }
  /// Seconds without progress; -1 where no rank here keeps a flight recorder.
  [[nodiscard]] double still_s() const;
  void stretch(double gap_s) {
    watch_.stretch(gap_s);
    // Who stood still could not be told.
    if (terminated_at_s_) *terminated_at_s_ += gap_s;
  }
  /// Of its container, as far as its runtime tells one.
  void set_image_digest(const std::string& digest) { image_digest_ = digest; }
  /// For the evidence.
  void watch_gpus(const GpuWatch& gpus) { gpus_ = &gpus; }
  /// The node agent itself was told to stop: a rank that dies of SIGTERM now does so too.
  void told_to_stop();

  [[nodiscard]] bool over() const { return stage_ == Stage::over; }
  /// A process could not be ended: this node is not to be used again.
  [[nodiscard]] bool stuck() const { return stuck_; }
  /// The ranks are gone: what is left ends within milliseconds.
  [[nodiscard]] bool cleaning() const {
    return stage_ == Stage::settling || stage_ == Stage::reaping;
  }
  [[nodiscard]] NodeEnded ended() const;
  [[nodiscard]] const AttemptSpec& spec() const { return spec_; }
  [[nodiscard]] const StillTimes& longest_still_s() const { return watch_.longest_still_s(); }
  [[nodiscard]] NodeBeat beat() const {
    return {spec_.attempt, watch_.phase(), watch_.step(), timed_};
  }
  /// Rank 0 is on another node, and its train steps are timed from now on.
  void begin_timed() { timed_ = true; }
  [[nodiscard]] AttemptId id() const { return spec_.attempt; }

 private:
  enum class Stage : std::uint8_t { running, looking, ending, settling, reaping, over };
  struct Rank {
    int number = 0;  ///< -1: the step of all ranks
    pid_t pid = 0;
    bool gone = false;
    Descriptor report{};  ///< why its program was not started, where it was not
  };

  [[nodiscard]] bool has_its_programs();
  void look_at_programs();
  void announce_programs();
  void note_programs(const std::string& type);
  void launch_ranks(const Environment& own, const std::vector<std::string>& devices,
                    const std::string& meet);
  void launch_step(const Environment& own, const std::string& meet);
  [[nodiscard]] std::filesystem::path hostfile() const;
  [[nodiscard]] bool write_hostfile() const;
  void follow_environment(pid_t pid, RankStart inside);
  [[nodiscard]] RankStart first_of_step(const Environment& own, const std::string& meet) const;
  void read_environment();
  [[nodiscard]] bool judge_environment();
  void write_environment();
  void write_record(const WrittenRecord& record);
  void follow_trainer();
  void finish_trainer();
  void start_probe(RankProcess like);
  [[nodiscard]] bool probe_is_due();
  void refuse_version();
  /// A result is due from this node.
  [[nodiscard]] bool result_is_due() const;
  void follow_records(int rank);
  [[nodiscard]] bool step_has_started() const;
  [[nodiscard]] Evidence step_exit(int status, bool told) const;
  [[nodiscard]] Evidence no_step(const std::string& why) const;
  [[nodiscard]] std::string node_of(const Evidence& first) const;
  void name_node(NodeEnded& ended, const Evidence& first) const;
  [[nodiscard]] std::filesystem::path log_of(int rank) const;
  void read_records(bool all);
  void read_recorders();
  void take_record(int rank, const Record& record);
  void note_timed(const Record& record);
  void look_at_pace();
  void tell_pace(NodeEnded& ended) const;
  void look_at_ranks();
  void reap_orphans();
  void note_exit(const Rank& rank, int code, int status);
  [[nodiscard]] Evidence death(const Rank& rank, int signal, bool told) const;
  void step_running();
  void begin_looking(const std::string& why);
  void begin_ending();
  void write_cut_result();
  void step_ending();
  void step_settling();
  void step_reaping();
  void name_leftovers();
  void scan_for_marker();
  void look_for_others();
  void read_logs();
  void watch_storage();
  void watch_logs();
  void judge_storage();
  void add_nccl_logs(std::vector<RankLog>& logs);
  void signal_all(int signal) const;
  [[nodiscard]] bool all_gone() const;
  [[nodiscard]] bool has_recorders() const;
  [[nodiscard]] bool has_rank_zero() const { return node_.index == 0; }

  NodeIdentity node_;
  const Clock& clock_;
  const Log& log_;
  AttemptSpec spec_;
  AttemptPaths paths_;
  AttemptWatch watch_;
  const GpuWatch* gpus_ = nullptr;
  Stage stage_ = Stage::running;
  std::vector<Rank> ranks_;
  double others_read_at_s_ = 0;
  std::map<int, LineReader> records_;   ///< by rank
  std::optional<TrainerLogs> trainer_;  ///< of a program that writes no records
  TrainerProbe probe_;
  std::optional<double> probe_awaited_s_;
  /// What the flight recorders of the ranks here looked like; none: not there yet.
  std::map<int, RecorderFile> recorders_;
  std::optional<EnvironmentReading> environment_;  ///< of rank 0, where it is here
  Timestamp environment_since_ = 0;                ///< when it was started
  bool is_overridden_ = false;                     ///< its container has changed what counts
  std::string image_digest_ = "unknown";
  std::optional<EvidenceTaking> evidence_taking_;
  std::vector<Evidence> evidence_;
  bool measured_ = false;
  bool knows_programs_ = false;  ///< they are as they have to be, and have been read
  std::string found_code_{};     ///< hash of its programs, where they have changed
  std::string code_records_{};   ///< what was written of them
  bool timed_ = false;           ///< its train steps are timed now
  std::int64_t steps_ended_ = 0;
  PaceOfNode pace_;  ///< of the GPUs here, while they are
  std::optional<double> pace_looked_at_s_;
  CutShort cut_;
  bool hopeless_ = false;   ///< by its train steps
  bool cutting_ = false;    ///< ended for that
  bool cut_short_ = false;  ///< and its result is ours
  bool cut_elsewhere_ = false;
  bool stuck_ = false;
  std::int64_t garbage_ = 0;
  std::int32_t leaked_ = 0;
  std::string leftovers_;
  std::optional<double> failed_at_s_;
  std::optional<double> told_at_s_;
  std::optional<double> terminated_at_s_;      ///< a rank died of a SIGTERM that was not ours
  std::optional<std::int64_t> memory_kills_;   ///< before the ranks were started
  std::optional<CpuUse> cpu_before_;           ///< the same; none where nobody wants to know
  std::optional<Evidence> left_early_;         ///< exited 0: a fault if there is no result
  std::optional<StorageFault> storage_fault_;  ///< seen while it ran
  double storage_looked_at_s_ = 0;
  std::string nccl_;       ///< what it complained of first; may be empty
  std::string disturbed_;  ///< by whom a measurement was; empty: by nobody
  double stage_since_s_ = 0;
};

}  // namespace shardsweep::agent
