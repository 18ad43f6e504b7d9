// SPDX-License-Identifier: Apache-2.0
// daemon, tick: the daemon in the foreground, as a job of Slurm, or one pass of it.
#include "cli/command.hpp"
#include "cli/daemon_job.hpp"
#include "cli/grammar.hpp"
#include "cli/session.hpp"
#include "daemon/loop.hpp"

#include <shardsweep/load.hpp>
#include <shardsweep/results.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {
namespace {

struct DaemonOptions {
  bool until_idle = false;
  bool take_over = false;
  bool in_slurm = false;
  std::vector<std::string> job_options;  ///< sbatch options of the daemon's job: OPTION=VALUE
  std::int64_t as_job = 0;               ///< number in the chain of jobs; 0: not one of them
};

/// A lease of a node that died has to run out first.
Result<ExitCode> be_daemon_job(const Session& session, int number, const Policy& policy) {
  // The first job was asked for by a user who has a sweep to submit. A later job goes on with work,
  // or ends: jobs shorter than this wait would hand over for ever.
  const double first_work_s = number == 1 ? 600 : 0;
  Successor successor(session, number + 1);
  SHARDSWEEP_ASSIGN(const bool left,
      be_daemon(session,
          {.until_idle = true,
              .first_work_s = first_work_s,
              .patience_s = 2 * policy.lease_ttl_s,
              .beside = [&] { successor.step(); }},
          policy));
  if (left) successor.cancel();
  return ExitCode::done;
}

Result<ExitCode> run_daemon_command(const Session& session) {
  // `kill PID; shardsweep daemon`: the old one may need a moment to end.
  constexpr double end_of_the_last_s = 5;
  const auto& own = session.options.of<DaemonOptions>();
  if (own.in_slurm) return start_daemon_job(session, own.job_options);
  SHARDSWEEP_ASSIGN(const Policy policy, load_policy(session.options.set));
  if (own.as_job > 0) return be_daemon_job(session, static_cast<int>(own.as_job), policy);
  SHARDSWEEP_TRY(be_daemon(session,
      {.until_idle = own.until_idle, .patience_s = end_of_the_last_s, .take_over = own.take_over},
      policy));
  return ExitCode::done;
}

Result<ExitCode> run_tick(const Session& session) {
  SHARDSWEEP_TRY(be_daemon(session, {.once = true}, {}));
  return ExitCode::done;
}

Result<ExitCode> run_forget(const Session& session) {
  SHARDSWEEP_TRY(Reader::open(session.home.database));
  const auto copy = copy_of_another(session);
  if (!copy) {
    say("All jobs of {} are its own: there is nothing to forget.", session.home.database.string());
    return ExitCode::done;
  }
  SHARDSWEEP_TRY(be_daemon(session, {.forget_others = true}, {}));
  say("Forgotten. 'shardsweep resume' goes on with the copy.");
  return ExitCode::done;
}

}  // namespace

extern const Command command_daemon{.name = "daemon",
    .help = "Run the daemon in the foreground.",
    .examples =
        "shardsweep daemon --until-idle\n"
        "shardsweep daemon --in-slurm --job-option time=12:00:00",
    .declare =
        [](Grammar& grammar) {
          auto& own = grammar.own<DaemonOptions>();
          grammar.flag("--until-idle", own.until_idle, "End when nothing is left to do.");
          grammar.flag(
              "--take-over", own.take_over, "Replace a daemon that is stopped or out of reach.");
          grammar.flag("--in-slurm", own.in_slurm,
              "Run the daemon as a job of one core. It submits its successor in time.");
          grammar.site("Site file of that job. Default: ~/.config/shardsweep/site.yaml.");
          grammar.option("--job-option", own.job_options, "OPTION=VALUE",
              "An sbatch option of that job, such as time=12:00:00. Repeatable.");
          grammar.option("--as-job", own.as_job, "N", "").hidden();  // written by that job's script
          grammar.option("--set", grammar.options().set, "KEY=VALUE",
              "An interval of the daemon, such as daemon.tick=2s. Repeatable.");
        },
    .run = run_daemon_command,
    .own_lines = true};

extern const Command command_tick{.name = "tick",
    .help = "Run one pass of the daemon, for cron.",
    .examples = "shardsweep tick",
    .run = run_tick};

extern const Command command_forget{.name = "forget",
    .help = "In a copied database: let go of the original's jobs.",
    .examples = "shardsweep forget --db copy/shardsweep.db",
    .run = run_forget};

}  // namespace shardsweep
