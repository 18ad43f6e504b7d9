// SPDX-License-Identifier: Apache-2.0
// Classification: from everything that was seen of an attempt to its outcome and first cause.
// The first cause in time wins; what merely follows from another failure never does.
#pragma once

#include "causes/failed_log.hpp"

#include <shardsweep/protocol.hpp>
#include <shardsweep/record.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// One thing seen that can end an attempt.
struct Evidence {
  Timestamp at = 0;
  Ending ending{.outcome = Outcome::crashed};
  int rank = -1;  ///< -1: none
  /// Follows from the failure of somebody else (a lost peer, a broken connection): it loses
  /// against every other failure that is seen around the same time.
  bool secondary = false;
  /// A lost peer by name: no cause by itself, whenever it was seen.
  bool only_a_witness = false;
  /// Says something else than the evidence it stands beside: never the cause, but shown.
  bool aside = false;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// ---- evidence

[[nodiscard]] Evidence evidence_of_error(const Record& record, int rank, Timestamp at);
/// Kinds of exit codes: those of a runner that keeps to the contract, or of any program.
enum class ExitCodes : std::uint8_t { contract, any };
/// A rank of -1 is the Slurm step of all ranks.
/// `last_line`: what the rank printed last, may be empty. Exit code 0 is no evidence.
[[nodiscard]] std::optional<Evidence> evidence_of_exit(int rank, int exit_code, Timestamp at,
    const std::string& last_line, ExitCodes codes = ExitCodes::contract);
/// A rank that exits 0 has done its work, or leaves the others waiting: then its peers' lost
/// connection is no more than a witness, and any other failure comes first.
[[nodiscard]] Evidence evidence_of_early_exit(int rank, Timestamp at);
/// `told`: the allocation was told to stop shortly before, so a SIGTERM was the scheduler's.
[[nodiscard]] Evidence evidence_of_signal(int rank, int signal, Timestamp at, bool told);
/// The kernel killed it because the job's memory was used up.
[[nodiscard]] Evidence evidence_of_memory_kill(int rank, Timestamp at);
/// Evidence of a program that could not be started: nothing ran, and nothing is the trial's fault.
[[nodiscard]] Evidence evidence_of_no_start(
    int rank, int error, const std::string& what, Timestamp at);
/// Evidence of a container's runtime that refused before the rank began: its codes, and its word as
/// the last line. Empty: what is in the container has ended so. `has_begun`: it has, as its records
/// or train steps say.
[[nodiscard]] std::optional<Evidence> evidence_of_no_container(
    int rank, int exit_code, const std::string& last_line, Timestamp at, bool has_begun);
/// Blames storage that could not keep what was written: `why` becomes the cause. What the ranks did
/// afterwards says nothing of the trial. Records, an out-of-memory, a refusal and a requested end
/// stay the cause.
void blame_storage(std::vector<Evidence>& evidence, const std::string& why, Timestamp at);
/// `node`: which of them says it; where it happened on another one, that one is named. What is
/// said of the node beside its first cause (leaked, also, mark) is added up by the lead.
[[nodiscard]] Evidence evidence_of_node(const NodeEnded& ended, const std::string& node = "");

/// Adds what one rank's output tells (-1: the step's). `finding`: none if no rule knows a line of
/// it. An exit code or signal that means nothing by itself gets its meaning from the log. A rank
/// may have been ended for another's failure or by a watch: then a cause in its log is older than
/// that. A cause that contradicts a record stays beside it, but a user's own rule is right against
/// all of them. `alone`: if nothing else says that anything went wrong, a cause in the log does.
void join_log(std::vector<Evidence>& evidence, int rank, const std::optional<LogFinding>& finding,
    Timestamp now, bool alone);
/// The user's own causes, held against what the evidence itself says.
void apply_own_causes(std::vector<Evidence>& evidence, std::span<const Cause> own);

// ---- verdict

/// `measured`: a result record with the attempt's nonce exists. Without it and without evidence all
/// ranks exited 0 and owe a result: `result_due` says whether it would be seen here. Returns the
/// first cause; its ending's `also` is what contradicts it.
[[nodiscard]] Evidence classify(
    const std::vector<Evidence>& evidence, bool measured, bool result_due = true);

/// Adds a clause to a cause or to what is said beside one; "" adds nothing.
void add_clause(std::string& text, const std::string& more);

/// Ranks that ran on for ever after others had left may have had no part in the result beside
/// them. That is no cause then, it contradicts the outcome.
void say_who_ran_on(Ending& ending, const std::vector<Evidence>& all);

/// Joins fields that have Flag::beside: what was seen there, or on another node.
void add_beside(Ending& ending, const Ending& seen);

/// "SIGKILL"; "signal 42" for one without a name.
[[nodiscard]] std::string signal_name(int number);

}  // namespace shardsweep
