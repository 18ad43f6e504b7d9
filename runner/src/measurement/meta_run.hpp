// SPDX-License-Identifier: Apache-2.0
// A train step that is counted and not computed: peak memory and bytes sent of any layout at
// full size, on any machine.
#pragma once

#include "communication/communicator.hpp"
#include "device/device.hpp"
#include "device/gemm_key.hpp"
#include "device/memory.hpp"
#include "parallel/groups.hpp"
#include "program/options.hpp"

#include <array>
#include <string>
#include <vector>

namespace shardbench {

/// Bytes sent so far, by group.
std::array<i64, group_kind_count> sent_by_group(const Groups& groups);

struct RankCost {
  i64 peak_bytes = 0;
  BytesByClass peak_by_class{};
  BytesByClass arenas{};  // size of each class as one piece, gaps between blocks included
  std::array<i64, group_kind_count> sent_bytes{};  // bytes sent by one train step
};

/// One train step of one rank, from allocation to update; of later ones the same. Of bf16 as
/// GPUs have it, of the other formats as the CPU. Of attention's workspace `device` knows what
/// its library asks for; without one it is what is planned for.
RankCost cost_of_rank(const Options& options, i64 rank, const Device* device = nullptr);

/// The matrix products of a train step of one rank, each once.
std::vector<GemmKey> products_of_rank(const Options& options, i64 rank);

/// One JSON object: for every stage the largest costs of its ranks, with the rank whose peak is
/// highest, and the maximum over the stages. Ends the process with class oom when a memory
/// limit is given and does not suffice.
std::string meta_json(const Options& options);

}  // namespace shardbench
