// SPDX-License-Identifier: Apache-2.0
// Cause of a failed run by its output, read as events (allocation/agent/README.md, "Causes").
// Records and exit codes have their table in outcome.hpp, the scheduler's states in
// slurm/words/job.cpp; whether an outcome is tried again stands with the outcome.
#pragma once

#include "causes/causes.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardsweep {

/// Bytes of a line that a cause quotes.
inline constexpr std::size_t longest_quote = 200;

struct LogFinding {
  std::string rule;  ///< name of the cause; empty: an error that no cause is known for
  Outcome outcome = Outcome::crashed;
  Strength strength = Strength::cause;
  std::string line;  ///< shortened
  bool own = false;  ///< found by a cause of the user's own
  /// Out of memory, with enough of it in pieces: which, as a clause. Empty: it is not.
  std::string fragmentation{};
  Whose whose = Whose::nobody;  ///< an unknown error is held against the program
  std::string remedy{};
  std::string_view unknown{};  ///< description of an error without a cause, and when it was raised
  friend bool operator==(const LogFinding&, const LogFinding&) = default;
};

/// The cause that an output tells; none where no line of it is an error or known. Causes of the
/// user's own go before the built-in ones: one that fits any line, and is neither an end nor a
/// symptom, wins over all of them.
[[nodiscard]] std::optional<LogFinding> find_cause(
    std::string_view text, std::span<const Cause> own);

/// The only node that a line of srun names as failed; empty: none, or several.
[[nodiscard]] std::string node_accused_in(std::string_view line);

/// True if the cause is found in its own sample, or has none. A cause that tells of no failure must
/// find none in its sample.
[[nodiscard]] bool judges_its_sample(const Cause& cause);

}  // namespace shardsweep
