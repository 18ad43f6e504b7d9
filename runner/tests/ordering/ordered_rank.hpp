// SPDX-License-Identifier: Apache-2.0
// A rank that trains on the ordered GPU, with the streams and communicators that the platform
// of NVIDIA GPUs gives it.
#pragma once

#include "equality_cases.hpp"
#include "nccl/nccl_table.hpp"

#include <vector>

namespace shardbench::ordered {

/// How many works() there were as each train step began, and in the end.
std::vector<std::size_t> train(const EqualityCase& c, i64 rank, NcclOrder order, i64 steps);

}  // namespace shardbench::ordered
