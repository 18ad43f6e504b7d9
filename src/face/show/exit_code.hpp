// SPDX-License-Identifier: Apache-2.0
// The program's exit codes: the one table, and which of them sweeps deserve.
#pragma once

#include <shardsweep/results.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

enum class ExitCode : std::uint8_t {
  done = 0,
  failed = 1,
  wrong = 2,
  undecided = 3,
  interrupted = 130,
};

struct ExitCodeInfo {
  ExitCode code;
  std::string_view meaning;
};

inline constexpr std::array<ExitCodeInfo, 5> exit_code_table{{
    {ExitCode::done,
        "every trial has a final verdict, and one was measured; running out of memory is a "
        "verdict"},
    {ExitCode::failed, "the command failed, no trial was measured, or no measurement is ranked"},
    {ExitCode::wrong, "wrong usage or input"},
    {ExitCode::undecided, "some trials have not ended, or ended without a final verdict"},
    {ExitCode::interrupted, "interrupted (Ctrl-C)"},
}};

[[nodiscard]] std::int64_t count_of(
    const std::map<std::string, std::int64_t>& counts, std::string_view key);

[[nodiscard]] std::int64_t ended_trials(const SweepStatus& status);

/// Every trial has ended, and no control that may have one measured again is to come.
[[nodiscard]] bool is_over(const SweepStatus& status);

/// Every trial has ended, and none with a measurement.
[[nodiscard]] bool nothing_measured(const SweepStatus& status);

/// "4 crashed. Most often: CAUSE", for a sweep of which nothing was measured.
[[nodiscard]] std::string outcomes_and_cause(const SweepStatus& status);

/// Sweeps that are meant if none is named: those that are not over, and the one submitted last.
/// Sweeps that ended before it are settled, however they ended.
[[nodiscard]] std::vector<SweepStatus> current_of(const std::vector<SweepStatus>& sweeps);

struct SweepVerdict {
  ExitCode code = ExitCode::done;
  std::string sentence;  ///< why it is not 0; empty if it is
};

/// Verdict of several sweeps together: 3 before 1 before 0.
[[nodiscard]] SweepVerdict verdict_of(const std::vector<SweepStatus>& sweeps);

/// "31 completed, 4 oom, 2 skipped": the outcomes that occurred.
[[nodiscard]] std::string outcomes_text(const SweepStatus& status);

}  // namespace shardsweep
