// SPDX-License-Identifier: Apache-2.0
// What Slurm says of a job, as values: the texts of squeue and sacct, every state word that
// there is, and what each means for an allocation and for what ran in it. Text with separators
// and not JSON: its shape has not changed from 20.x to 25.x, and sacct's JSON of 22.05 and
// 23.02 calls every exit a success.
#pragma once

#include <shardsweep/outcome.hpp>
#include <shardsweep/result.hpp>
#include <shardsweep/scheduler.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep::slurm {

/// ASCII unit separator: no reason or node list holds one, nor any name that we give.
inline constexpr char separator = '\x1f';

enum class Source : std::uint8_t { queue, accounting };

struct Job {
  std::string id;
  std::string name;    ///< name of its allocation
  std::string state;   ///< "RUNNING", "CANCELLED by 1000"
  std::string reason;  ///< "None", "Resources", "launch failed requeued held"
  std::string nodes;   ///< "n[1-4]"; empty or "None assigned" while it waits
  int exit_code = 0;   ///< accounting only
  int signal = 0;      ///< accounting only
  /// If somebody cancelled it, its state says who: sacct does, slurmrestd does not.
  bool names_canceller = false;
  Source source = Source::queue;
};

/// `--format` of squeue and of sacct for which the two parsers are.
[[nodiscard]] std::string queue_format();
[[nodiscard]] std::string accounting_format();

/// All jobs of an output, or a fault if a line of it is no job: then nothing may be
/// concluded from it, least of all that a job is gone.
[[nodiscard]] Result<std::vector<Job>> parse_queue(std::string_view text);
[[nodiscard]] Result<std::vector<Job>> parse_accounting(std::string_view text);

/// Meaning of a Slurm state.
struct JobReading {
  JobState state = JobState::unknown;
  /// Outcome of an attempt that was running when the job ended; empty: no conclusion.
  std::optional<Outcome> outcome;
  /// The job will never start by itself: to be cancelled.
  bool stuck = false;
  /// User who cancelled it; only accounting knows.
  std::optional<std::int64_t> cancelled_by;
  /// Accounting will tell more: who cancelled it, or with which exit code it failed.
  bool unexplained = false;
  Hold hold = Hold::nobody;
};
/// Total: a word that is not known is "unknown, keep watching". `own_uid` tells our own
/// scancel from somebody else's.
[[nodiscard]] JobReading read_state(const Job& job, std::int64_t own_uid);

/// One line for people: "NODE_FAIL (NodeDown)", "FAILED, exit code 0:53: Slurm could not …".
/// "cancelled by you (scancel)" if its state names `own_uid`.
[[nodiscard]] std::string describe(const Job& job, std::int64_t own_uid);
/// Why it waits, in plain words with what to do about it; empty if there is nothing to say.
[[nodiscard]] std::string explain_reason(std::string_view reason);

}  // namespace shardsweep::slurm
