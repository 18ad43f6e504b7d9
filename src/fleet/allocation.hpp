// SPDX-License-Identifier: Apache-2.0
// What the row of an allocation says about its life: whether its lead is alive, what the end of
// its job means, whether its job was ever there.
#pragma once

#include <shardsweep/rows.hpp>

#include <optional>

namespace shardsweep {

/// Seconds since the lead's last line was read. Only a process that has read none takes the
/// lead's own time, because the clocks of login node and batch host differ.
[[nodiscard]] double silence_s(const AllocationRow& row, Timestamp now);

/// Its lead spoke within the last minute: a file system may show a line that late.
[[nodiscard]] bool is_heard(const AllocationRow& row, Timestamp now);

/// When an attempt ended whose lead did not say so: with the lead's last sign of life, by the
/// lead's own clock. A daemon may read of it hours later.
[[nodiscard]] Timestamp last_sign(const AllocationRow& row, Timestamp now);

/// What the end of its job means for an attempt that was running in it. Slurm's word is not
/// enough twice: shardsweep itself cancels a job that Slurm has put back into the queue, and an
/// administrator may have lowered the time limit.
[[nodiscard]] std::optional<Outcome> meaning_of_end(const AllocationRow& row);

/// Clean looks have found no job for an allocation that was, or may have been, submitted, and
/// no lead has claimed it.
[[nodiscard]] bool never_seen(const AllocationRow& row);

}  // namespace shardsweep
