// SPDX-License-Identifier: Apache-2.0
// The ranks of one attempt on this node, from fork to the proof that nothing of them is left.
//
// This class has effects and no opinions: it starts the ranks, looks at what they do and write,
// and does what AttemptMachine (attempt/attempt_machine.hpp) orders. What belongs together is
// kept by those that know it: ranks, records, programs, environment, storage. It never waits.
// If this process dies, its guard ends the ranks and the lead hears nothing more.
#pragma once

#include "agent/attempt_here.hpp"
#include "agent/environment.hpp"
#include "agent/evidence.hpp"
#include "agent/gpu_watch.hpp"
#include "agent/program_check.hpp"
#include "agent/rank_group.hpp"
#include "agent/rank_records.hpp"
#include "agent/slurm_step.hpp"
#include "agent/storage_watch.hpp"
#include "agent/trainer_logs.hpp"
#include "attempt/attempt_machine.hpp"
#include "node/cpu_use.hpp"
#include "node/recorder_file.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

/// Things that an attempt gets from its node.
struct OfNode {
  Environment environment;  ///< environment that ranks inherit
  const std::vector<std::string>& devices;
  const GpuWatch& gpus;
  std::string meet;                      ///< host:port where a trainer's ranks meet
  std::string image_digest = "unknown";  ///< digest of the container's image, as far as its runtime
                                         ///< tells one
  std::string container_owner{};         ///< label of the ranks' containers
};

class RunningAttempt final : public RanksOutside {
 public:
  RunningAttempt(const NodeIdentity& node, const Clock& clock, const Log& log, AttemptSpec spec,
      AttemptPaths paths, OfNode given);

  [[nodiscard]] Moment now() const override { return here_.now(); }
  void log(const std::string& line) override { here_.log.line(line); }

  [[nodiscard]] std::optional<Evidence> start(std::vector<Evidence>& beside) override;

  [[nodiscard]] std::vector<RankRecord> records(bool asked) override;
  [[nodiscard]] std::int64_t garbage() const override { return records_.garbage(); }
  [[nodiscard]] bool recorders_have_moved() override { return recorders_.have_moved(); }
  [[nodiscard]] bool all_recorders_are_there() const override { return recorders_.all_are_there(); }
  [[nodiscard]] bool any_recorder_is_there() const override { return recorders_.any_is_there(); }
  [[nodiscard]] std::optional<Evidence> look_at_environment(bool is_training) override;
  [[nodiscard]] std::optional<Evidence> look_at_programs(bool were_read) override {
    return programs_.look(were_read);
  }
  void look_at_pace(PaceOfNode& looks) override { given_.gpus.add_paces(looks); }
  [[nodiscard]] std::vector<RankExit> exits() override {
    return ranks_.take_exits(spec().container.has_value());
  }
  [[nodiscard]] std::optional<Evidence> failure_of(
      const RankExit& exit, bool told, bool has_trained) override;
  void rank_is_noted() override;
  void reap_orphans() override { ranks_.reap_orphans(); }
  [[nodiscard]] std::optional<Evidence> look_at_storage(bool watched) override;
  [[nodiscard]] bool all_gone() const override { return ranks_.all_gone(); }
  [[nodiscard]] std::vector<int> living() const override;
  [[nodiscard]] bool awaits_version() override { return probe_.is_awaited(here_.now_s()); }
  [[nodiscard]] std::string refused_version() const override {
    return trainer_ ? trainer_->refused() : "";
  }
  [[nodiscard]] bool waits_for_step() const override { return step_ && !step_->has_started(); }
  [[nodiscard]] std::optional<Evidence> failure_in_step(bool told) override {
    return step_ ? step_->failure_said(told) : std::nullopt;
  }
  [[nodiscard]] Evidence no_start_evidence(const std::string& why) const override {
    return step_->no_start_evidence(why);
  }

  void begin_looking(const std::string& why, double still_s) override;
  [[nodiscard]] bool has_looked() override { return evidence_taking_->step(here_.now_s()); }
  void terminate() override;
  void kill() override { ranks_.kill(); }
  [[nodiscard]] bool anybody_is_left() override;
  [[nodiscard]] std::vector<std::string> leftovers() override;
  [[nodiscard]] bool reap_once() override;
  void name_stuck() override;
  void is_reaped() override;
  [[nodiscard]] bool waits_for_facts() override {
    return trainer_ && trainer_->waits_for_facts(here_.clock);
  }

  void end_marked(Beside& beside) override;
  void look_for_others(Beside& beside) override;
  [[nodiscard]] std::optional<Evidence> finish_environment() override;
  [[nodiscard]] TrainerEnd finish_trainer(std::optional<CutBy> cut, bool failed) override;
  [[nodiscard]] Result<void> write_result(const std::string& line) override;
  void read_logs(std::vector<Evidence>& evidence, Beside& beside, bool alone) override;
  [[nodiscard]] std::string storage_fault() override { return storage_.judge(); }
  void collect_snapshots() override;
  [[nodiscard]] bool result_is_due() const override;
  void name_node(Ending& ending, const Evidence& first) const override {
    if (step_) step_->name_node(ending, first);
  }

 private:
  [[nodiscard]] const AttemptSpec& spec() const { return here_.spec; }
  void follow_trainer(std::vector<Evidence>& beside);
  [[nodiscard]] std::optional<Evidence> launch_ranks();
  [[nodiscard]] std::optional<Evidence> launch_step();
  void follow_records(int rank);
  void start_probe(RankProcess like);

  AttemptHere here_;
  OfNode given_;
  RankGroup ranks_;
  std::optional<SlurmStep> step_;  ///< set if the ranks are the tasks of a step
  RankRecords records_;
  RecorderFiles recorders_;
  std::optional<TrainerLogs> trainer_;  ///< set for a program that writes no records
  TrainerProbe probe_;
  ProgramCheck programs_;
  std::optional<EnvironmentRecord> environment_;  ///< environment of rank 0, if it is here
  StorageWatch storage_;
  std::optional<std::int64_t> memory_kills_;  ///< count before the ranks were started
  std::optional<CpuUse> cpu_before_;          ///< CPU use before the ranks were started; none: not
                                              ///< wanted
  std::optional<EvidenceTaking> evidence_taking_;
};

}  // namespace shardsweep::agent
