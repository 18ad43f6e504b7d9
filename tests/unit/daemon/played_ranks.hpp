// SPDX-License-Identifier: Apache-2.0
// Processes of a played node, as values: they run, finish with a record, crash, hang, ignore
// SIGTERM, leave a child that outlives them. What is done with them is the production node
// agent's (attempt/attempt_machine.hpp).
#pragma once

#include "attempt/attempt_machine.hpp"
#include "unit/daemon/played_attempts.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep::testing {

/// What becomes of an attempt's ranks.
struct RankFate {
  double seconds = 10;                   ///< that they run
  Outcome outcome = Outcome::completed;  ///< as it has to be found out
  double speed = 0;                      ///< of its result; 0: any
  bool contaminated = false;             ///< somebody else uses the GPU
  bool fragmented = false;               ///< memory was there in pieces
  bool not_started = false;              ///< the program is not there
  bool other_programs = false;           ///< than those that were submitted
  bool leaks = false;                    ///< a child outlives rank 0
  bool ignores_term = false;
  bool exits_early = false;  ///< with 0, without a result
  bool waits = false;        ///< for a peer that has failed: for ever
};

struct PlayedProcess {
  int rank = -1;  ///< -1: a child of a rank
  double ends_at_s = 0;
  RankExit end{};
  bool ignores_term = false;
  int lives = 1;  ///< it forks itself anew so often as it is killed
  bool gone = false;
  bool noted = false;  ///< its end was seen
};

/// All that runs on one node.
class PlayedProcesses {
 public:
  std::vector<PlayedProcess> all;
  void pass(double now_s);
  void signal(int number);
  void kill();
  [[nodiscard]] bool any_lives() const;
};

class PlayedRanks final : public RanksOutside {
 public:
  struct Around {
    PlayedAttempts& attempts;
    PlayedProcesses& processes;
    std::function<Moment()> now;
    std::function<void(const std::string&)> log;
    /// At this look what ranks have written is not seen yet.
    std::function<bool()> is_late;
  };
  PlayedRanks(
      AttemptSpec spec, std::string dir, std::string node, int index, RankFate fate, Around around);

  [[nodiscard]] Moment now() const override { return around_.now(); }
  void log(const std::string& line) override { around_.log(line); }
  [[nodiscard]] std::optional<Evidence> start(std::vector<Evidence>& beside) override;
  [[nodiscard]] std::vector<RankRecord> records(bool asked) override;
  [[nodiscard]] std::int64_t garbage() const override { return 0; }
  [[nodiscard]] bool recorders_have_moved() override;
  [[nodiscard]] bool all_recorders_are_there() const override { return started_; }
  [[nodiscard]] bool any_recorder_is_there() const override { return started_; }
  [[nodiscard]] std::optional<Evidence> look_at_environment(bool) override { return std::nullopt; }
  [[nodiscard]] std::optional<Evidence> look_at_programs(bool) override { return std::nullopt; }
  void look_at_pace(PaceOfNode&) override {}
  [[nodiscard]] std::vector<RankExit> exits() override;
  [[nodiscard]] std::optional<Evidence> failure_of(
      const RankExit& exit, bool told, bool has_trained) override;
  void reap_orphans() override {}
  [[nodiscard]] std::optional<Evidence> look_at_storage(bool) override { return std::nullopt; }
  [[nodiscard]] bool all_gone() const override;
  [[nodiscard]] std::vector<int> living() const override;
  [[nodiscard]] bool awaits_version() override { return false; }
  [[nodiscard]] std::string refused_version() const override { return ""; }
  [[nodiscard]] bool waits_for_step() const override { return false; }
  [[nodiscard]] std::optional<Evidence> failure_in_step(bool) override { return std::nullopt; }
  [[nodiscard]] Evidence no_start_evidence(const std::string&) const override { return {}; }
  void begin_looking(const std::string&, double) override { looking_since_s_ = now().s; }
  [[nodiscard]] bool has_looked() override { return now().s - looking_since_s_ > 1; }
  void terminate() override;
  void kill() override;
  [[nodiscard]] bool anybody_is_left() override { return around_.processes.any_lives(); }
  [[nodiscard]] std::vector<std::string> leftovers() override;
  [[nodiscard]] bool reap_once() override;
  void name_stuck() override {}
  [[nodiscard]] bool waits_for_facts() override { return false; }
  void end_marked(Beside&) override {}
  void look_for_others(Beside& beside) override { beside.facts.others_cpu = 0.01; }
  [[nodiscard]] std::optional<Evidence> finish_environment() override { return std::nullopt; }
  [[nodiscard]] TrainerEnd finish_trainer(std::optional<CutBy>, bool) override { return {}; }
  [[nodiscard]] Result<void> write_result(const std::string& line) override;
  void read_logs(std::vector<Evidence>& evidence, Beside& beside, bool alone) override;
  [[nodiscard]] std::string storage_fault() override { return ""; }
  void collect_snapshots() override {}
  [[nodiscard]] bool result_is_due() const override { return index_ == 0; }
  void name_node(Ending&, const Evidence&) const override {}

 private:
  [[nodiscard]] RankExit end_of_ranks() const;
  /// Records that rank 0 has written by now.
  void write_until(double now_s);
  void write(Record record);

  AttemptSpec spec_;
  std::string dir_;
  std::string node_;
  int index_;
  RankFate fate_;
  Around around_;
  bool started_ = false;
  double started_s_ = 0;
  double looking_since_s_ = 0;
  int written_ = 0;  ///< how far it has come in its own course
  std::vector<Record> unread_;
};

}  // namespace shardsweep::testing
