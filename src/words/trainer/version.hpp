// SPDX-License-Identifier: Apache-2.0
// Which version of a trainer runs, and whether its log is known: a probe prints it before the
// first train step, or the log itself says it. Older versions than known are refused; newer
// ones are read with a note.
#pragma once

#include "trainer/trainers.hpp"

#include <shardsweep/result.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Beginning of a probe's line.
inline constexpr std::string_view probe_mark = "shardsweep-probe: ";

/// A program that prints the version of a trainer in one line; empty: it has none to print.
/// `python`: the interpreter of the trainer. The trainer itself is not imported.
[[nodiscard]] std::vector<std::string> probe_command(
    const Trainer& trainer, const std::string& python);

/// The version that a line of a probe or of the trainer's log says.
[[nodiscard]] std::optional<std::string> version_in(const Trainer& trainer, std::string_view line);

/// A fault if it is older than all that this reader knows: it says both.
[[nodiscard]] Result<void> check_version(const Trainer& trainer, std::string_view found);

/// Newer than all that this reader was tested with: trainers rarely change what they print, so
/// such a log is read, and refused if any check of it fails.
[[nodiscard]] bool is_newer_than_tested(const Trainer& trainer, std::string_view found);

/// -1, 0 or 1 by the numbers in front of each point; as many are compared as `bound` has.
/// "0.18.2rc1" against "0.18": 0.
[[nodiscard]] int compare_version(std::string_view version, std::string_view bound);

}  // namespace shardsweep
