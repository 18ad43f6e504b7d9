// SPDX-License-Identifier: Apache-2.0
// A user's rule for what a line of a rank's output means: `classify` in the sweep file.
#pragma once

#include <shardsweep/outcome.hpp>

#include <array>
#include <cstddef>
#include <string>

namespace shardsweep {

struct LogRule {
  std::string name;     ///< shown with the cause
  std::string pattern;  ///< text of the line; `*` stands for any text, also for none
  Outcome outcome = Outcome::crashed;
  friend bool operator==(const LogRule&, const LogRule&) = default;
};

inline constexpr std::size_t most_log_rules = 100;
inline constexpr std::size_t most_pattern_bytes = 200;

/// What a line can mean. Of the others a line can't know: whether there is a result, what the
/// scheduler did and who asked for it.
inline constexpr std::array<Outcome, 7> log_rule_outcomes{Outcome::oom, Outcome::hung,
    Outcome::timeout, Outcome::node_failure, Outcome::comm_error, Outcome::crashed,
    Outcome::rejected};

}  // namespace shardsweep
