// SPDX-License-Identifier: Apache-2.0
// A side run: a layout runs once more, beside the measured runs, for what can be seen of it
// with tools that would falsify a measurement. It is a trial of its own (TrialRow::side), so
// that it waits, starts, fails and is cancelled as all of them. It is never counted and has no
// measurement, so no answer knows of it. What its tool writes is kept with its attempt.
#pragma once

#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

/// Kind of a run beside the measured ones. The database has its word; `none` is the empty one.
enum class SideRun : std::uint8_t {
  none,
  profile,  ///< run of a cell's winner: its first rank runs under a profiler
  memory,   ///< run of a layout that ran out of memory: PyTorch's memory snapshot is written
};
SHARDSWEEP_WORDS(SideRun, "", "profile", "memory");

/// Side runs that a sweep asks for.
struct SideRuns {
  bool profile = false;  ///< `profile: {finalists: nsys}`
  bool memory = false;   ///< `memory_snapshot: true`
  [[nodiscard]] bool any() const { return profile || memory; }
  friend bool operator==(const SideRuns&, const SideRuns&) = default;
};

/// Layouts of a cell that get a memory snapshot, in the order of its trials. Each is a run of the
/// whole layout, and one snapshot explains the memory of similar layouts.
inline constexpr int most_snapshots = 4;

/// Limit in bytes for all files that tools leave in an attempt's folder `kept`: a file beyond it is
/// named and not kept.
inline constexpr std::uint64_t most_kept_bytes = 1ULL << 30U;

}  // namespace shardsweep
