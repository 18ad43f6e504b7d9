// SPDX-License-Identifier: Apache-2.0
// An attempt whose ranks are the tasks of one Slurm step (`launch: srun`). One srun stands in
// the ranks' place; its tasks become them (run_step_rank). They are slurmstepd's children
// on all nodes, and this node agent is the only one: what it knows of them is what srun and
// they have printed. A step without a single rank has asked nothing of the layout.
#pragma once

#include "agent/attempt_here.hpp"
#include "agent/environment.hpp"
#include "attempt/container.hpp"

#include <shardsweep/result.hpp>

#include <sys/types.h>

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

}  // namespace shardsweep::agent
