// SPDX-License-Identifier: Apache-2.0
// What srun prints about a Slurm step that failed (`launch: srun`). Its exit code is the
// highest of its tasks', which hides an 11 behind the 143 of those that it ended because of it.
// Its first message names the task and the node that failed first.
#pragma once

#include "attempt/classify.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Evidence of the task or node that failed first; empty: srun names neither. The evidence names a
/// node where srun names one and no more.
[[nodiscard]] std::optional<Evidence> first_failure_in(
    std::string_view output, Timestamp at, bool told);

/// The node that srun says it could not launch on, or has lost; none: it names no node.
[[nodiscard]] std::optional<Evidence> lost_node_in(std::string_view output, Timestamp at);

/// A step whose ranks had begun, and which has ended.
[[nodiscard]] Evidence evidence_of_step(
    std::string_view output, int exit_code, Timestamp at, bool told);

/// A step of which no rank has begun. Where srun names a node, that node has failed. Otherwise
/// nothing was asked of the layout or of a node, and the attempt is not charged. `why`: used
/// where srun printed nothing.
[[nodiscard]] Evidence evidence_of_no_step(
    std::string_view output, const std::string& why, Timestamp at);

// Complaints of NCCL in the log that it is asked for when a comm_error is tried again.
// Pure.

/// First `most` lines of a rank's NCCL log (NCCL_DEBUG=INFO) that warn or tell of an error. Each
/// loses host, process, thread and device in front, and has at most 300 bytes. A line that repeats
/// another is left out.
[[nodiscard]] std::vector<std::string> nccl_complaints(std::string_view log, std::size_t most);

}  // namespace shardsweep
