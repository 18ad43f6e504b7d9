// SPDX-License-Identifier: Apache-2.0
// An attempt whose ranks are the tasks of one Slurm step (`launch: srun`). One srun stands in
// the ranks' place; its tasks become them (run_step_rank). They are slurmstepd's children
// on all nodes, and this node agent is the only one: what it knows of them is what srun and
// they have printed. A step without a single rank has asked nothing of the layout.
#pragma once

#include "agent/attempt_here.hpp"
#include "agent/environment.hpp"
#include "agent/log.hpp"
#include "agent/spawn.hpp"
#include "attempt/container.hpp"

#include <shardsweep/allocation_files.hpp>
#include <shardsweep/clock.hpp>
#include <shardsweep/result.hpp>

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

namespace shardsweep::agent {

class SlurmStep {
 public:
  explicit SlurmStep(const AttemptHere& here) : here_(here) {}

  /// The pid of srun. `meet`: host:port where a trainer's ranks meet.
  [[nodiscard]] Result<pid_t> launch(const Environment& own, const std::string& meet) const;
  /// The first rank, as its task starts it.
  [[nodiscard]] RankStart first_rank(const Environment& own, const std::string& meet) const;
  [[nodiscard]] bool has_started() const;
  /// Failure of a task or node as srun reports it. Callers ask often; this looks once a second.
  [[nodiscard]] std::optional<Evidence> failure_said(bool told);
  /// srun has ended with `status`. `told`: we were told to stop.
  [[nodiscard]] Evidence exit_evidence(int status, bool told) const;
  /// No rank has begun.
  [[nodiscard]] Evidence no_start_evidence(const std::string& why) const;
  /// Names the node to which the failure `first` belongs, or notes that it is not known.
  void name_node(Ending& ending, const Evidence& first) const;

 private:
  [[nodiscard]] std::filesystem::path hostfile() const { return here_.paths.dir / "hosts"; }
  [[nodiscard]] bool write_hostfile() const;
  [[nodiscard]] std::optional<Evidence> start_failure() const;
  [[nodiscard]] std::string node_of(const Evidence& first) const;

  const AttemptHere& here_;
  double looked_at_s_ = 0;
};

// `shardsweep-agent rank`: a task of a Slurm step turns into a rank, if an attempt is one
// srun and there are no node agents to start it.

/// Returns only if the rank can't be started, with an exit code.
[[nodiscard]] int run_step_rank(const std::string& dir, const Environment& own);

// Questions of a lead to Slurm while it goes on: when its job ends, where its nodes are in the
// network, and what is known of the job while an attempt stands still. Each question is a
// command of Slurm that is started, looked at and given up; nothing here waits. Without an
// answer the lead does without: no end of its job, Slurm's order of nodes, no line of evidence.

/// Time at which the scheduler ends the job of a lead: from its environment, or from squeue, which
/// is asked until it answers once.
class JobEnd {
 public:
  /// Outside a job (no SLURM_JOB_ID in `own`) there is no end to learn.
  explicit JobEnd(const Environment& own);

  /// One look: starts squeue, takes what it has said, or gives it up.
  void step(const Clock& clock, const Log& log);
  /// Empty: no end, or not known.
  [[nodiscard]] std::optional<double> left_s(const Clock& clock) const;
  /// An answer is due any moment: the first attempt may wait for it, but not for long.
  [[nodiscard]] bool first_answer_due(const Clock& clock) const;

 private:
  void ask(double now_s, const Log& log);
  void listen(double now_s, const Log& log);
  void conclude(bool succeeded, double now_s, const Log& log);

  std::string job_;  ///< empty: nothing (more) to ask
  Environment environment_;
  std::optional<Timestamp> end_;
  std::optional<PipedChild> squeue_;
  std::string said_;
  double asked_s_ = 0;
  bool answered_ = false;  ///< or failed to
  double ask_again_s_ = 0;
};

/// Places of a job's nodes in the network, as scontrol tells them once: for ranks that Slurm itself
/// starts, on nodes without an agent of ours.
class TopologyReport {
 public:
  /// `wanted`: else it is not asked.
  TopologyReport(Environment own, bool wanted);

  /// One look: starts scontrol, takes what it has said, or gives it up. The answer, once.
  [[nodiscard]] std::optional<std::map<std::string, std::string>> step(
      const Clock& clock, const Log& log);
  /// The first attempt waits for it, but not for long.
  [[nodiscard]] bool is_due() const { return wanted_; }

 private:
  void ask(double now_s, const Log& log);

  Environment environment_;
  bool wanted_;
  std::optional<PipedChild> scontrol_;
  std::string said_;
  double asked_s_ = 0;
};

/// Slurm's report on the job while an attempt stands still: `scontrol show job`, for the evidence.
class JobReport {
 public:
  /// Outside a job (no SLURM_JOB_ID in `own`) nobody is asked.
  explicit JobReport(Environment own);
  JobReport(const JobReport&) = delete;
  JobReport& operator=(const JobReport&) = delete;
  JobReport(JobReport&&) = default;

  /// Starts asking; the answer goes to evidence/job.txt.
  void ask(const AttemptPaths& attempt, const Log& log);
  /// Ends the question without its answer: the attempt's files are packed next.
  void end();

 private:
  Environment environment_;
  std::string job_;
  pid_t scontrol_ = 0;  ///< a child that has not been waited for; 0: none
};

}  // namespace shardsweep::agent
