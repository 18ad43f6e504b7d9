// SPDX-License-Identifier: Apache-2.0
// Eight processes joined by socket pairs, as the ranks of many small runs after each other.
#pragma once

#include "communication/mesh.hpp"

#include <cstddef>
#include <functional>

namespace shardbench {

constexpr i64 pool_ranks = 8;

/// Runs `serve` once in each process, with its mesh; false when a process failed.
bool run_in_pool(const std::function<void(Mesh&)>& serve);

/// Zeroed memory that the processes of a pool share with their parent, for the program's life.
void* shared_memory(std::size_t bytes);

}  // namespace shardbench
