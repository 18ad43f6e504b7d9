// SPDX-License-Identifier: Apache-2.0
// What texts of CUDA, NCCL, PyTorch, trainers and Slurm mean, as a table of rules. Records and
// exit codes have their table in outcome.hpp, the scheduler's states in slurm/words/job.cpp;
// whether an outcome is tried again stands with the outcome.
#pragma once

#include <shardsweep/rule.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardsweep {

/// How much a line says. Of the causes of one log the first in time wins, and no other line
/// against a cause.
enum class Strength : std::uint8_t {
  cause,      ///< names what went wrong
  exception,  ///< may have been caught and gone on from: the last one wins, without a cause
  symptom,    ///< follows from somebody else's failure: the first one, without the others
};

/// Who wrote the line.
enum class LineSource : std::uint8_t { cuda, nccl, torch, trainer, system, slurm };

struct BuiltInRule {
  std::string_view name;
  LineSource source;
  std::string_view pattern;  ///< as in pattern.hpp
  Outcome outcome;
  Strength strength;
};

/// In order: of two rules for one line the first counts.
[[nodiscard]] std::span<const BuiltInRule> built_in_rules();

/// Bytes of a line that a cause quotes.
inline constexpr std::size_t longest_quote = 200;

struct LogFinding {
  std::string rule;
  Outcome outcome = Outcome::crashed;
  Strength strength = Strength::cause;
  std::string line;  ///< shortened
  bool own = false;  ///< by a rule of the user's
  /// Out of memory, with enough of it in pieces: which, as a clause. Empty: it is not.
  std::string fragmentation{};
  friend bool operator==(const LogFinding&, const LogFinding&) = default;
};

/// The first cause that a rank's output tells; none where no rule knows a line of it. Rules of
/// the user's own go first: one of them that fits any line wins over all others.
[[nodiscard]] std::optional<LogFinding> find_cause(
    std::string_view text, std::span<const LogRule> own);

/// The first of the user's own rules that fits one line.
[[nodiscard]] const LogRule* own_rule_for(std::string_view line, std::span<const LogRule> own);

}  // namespace shardsweep
