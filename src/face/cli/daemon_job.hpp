// SPDX-License-Identifier: Apache-2.0
// A daemon that is a job: one core on a node, for sites whose login nodes end what stays. Each
// of a chain of jobs asks for its successor as soon as it has the database, to start when it
// has ended, however that came; the last one, which has nothing left to do, takes it back. A
// job is known by its name (chain and number), as allocations are: it is looked for before it
// is submitted, and an answer that was lost is no reason to submit it again.
#pragma once

#include "cli/session.hpp"

#include <shardsweep/command.hpp>

#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

/// `daemon --in-slurm`: the first job of a chain, waited for until its daemon answers. `own`:
/// sbatch options as OPTION=VALUE, over those of the site.
[[nodiscard]] Result<ExitCode> start_daemon_job(
    const Session& session, const std::vector<std::string>& own);

/// The chain's job that waits or runs, if this database has a chain: its id.
[[nodiscard]] std::optional<std::string> daemon_job(const Session& session);

/// Asks for the next job of the chain, and asks again until it is there. Nothing in it waits.
class Successor {
 public:
  Successor(const Session& session, int number);
  /// Goes on as far as it can without waiting; called with every tick.
  void step();
  /// Cancels the next job, as nothing is left to do.
  void cancel();

 private:
  enum class Stage : std::uint8_t { look, submit, there };
  void start(const std::vector<std::string>& argv, double limit_s);
  void take_look(const Result<CommandOutput>& output);
  void take_submission(const Result<CommandOutput>& output);
  [[nodiscard]] double now_s() const;

  const Session& session_;
  std::string name_;
  int number_;
  Stage stage_ = Stage::look;
  int clean_looks_ = 0;
  int needed_looks_ = 1;
  double not_before_s_ = 0;
  std::optional<RunningCommand> command_;
};

}  // namespace shardsweep
