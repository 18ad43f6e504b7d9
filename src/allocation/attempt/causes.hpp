// SPDX-License-Identifier: Apache-2.0
// Meanings of lines of failed runs: sweeps/causes.yaml, which is built in. Its head says what each
// key means. Pure.
#pragma once

#include <shardsweep/outcome.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Places in which the words of a cause count: causes.yaml, `where`.
enum class LinePlace : std::uint8_t { line, exception, error_class, frame, loop, progress };

/// How much a line says against others, the most first.
enum class Strength : std::uint8_t {
  fact,     ///< of hardware, kernel or Slurm: stands above every exception
  cause,    ///< names what went wrong
  end,      ///< how it ended, if nothing else tells why
  late,     ///< may have been survived: the last one counts
  symptom,  ///< follows from another failure
  hint,     ///< tells that something failed, not what
};

/// Conditions besides the words: causes.yaml, `when`.
enum class When : std::uint8_t { always, untrained, set_up, network, other_memory };

struct Cause {
  std::string name, pattern;  ///< the pattern as in pattern.hpp
  LinePlace where = LinePlace::line;
  Strength weight = Strength::cause;
  When when = When::always;
  Outcome outcome = Outcome::crashed;
  std::string whose, remedy, source, since, sample;
};

/// In order: of two causes for one line the first counts.
[[nodiscard]] std::span<const Cause> built_in_causes();

/// Reads entries as causes.yaml has them: `key: value` one a line, in single quotes or plain, and
/// samples of several lines as blocks. Throws std::invalid_argument, which names the line.
[[nodiscard]] std::vector<Cause> read_causes(std::string_view yaml);

/// The first built-in cause for a line that stands there; null: none. An exception is a line
/// as well, and has a class; a line may tell of progress, and a frame that training goes on.
[[nodiscard]] const Cause* cause_for(std::string_view line, LinePlace place);

}  // namespace shardsweep
