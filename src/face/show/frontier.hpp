// SPDX-License-Identifier: Apache-2.0
// Layouts that no other one beats: whoever is faster needs more memory, or more nodes.
#pragma once

#include <shardsweep/table.hpp>
#include <shardsweep/words.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsweep {

/// Cost that speed is held against.
enum class FrontierCost : std::uint8_t {
  memory,  ///< peak memory of a GPU, within a cell
  nodes,   ///< nodes, or GPUs if worlds are counted by them: the best of each cell
};
SHARDSWEEP_WORDS(FrontierCost, "memory", "nodes");

struct FrontierPoint {
  double cost = 0;
  double speed = 0;  ///< tokens/s/GPU against memory, tokens/s against nodes
  std::string layout;
  bool beaten = false;  ///< another one is as fast for less, or faster for as much
};

/// Layouts that are alternatives.
struct FrontierGroup {
  std::string title;                  ///< "llama-1b, 4 nodes, seq_len 4096"
  std::vector<FrontierPoint> points;  ///< points in the order of their cost
};

struct Frontier {
  FrontierCost by = FrontierCost::memory;
  std::string cost_column;  ///< peak_memory_bytes, nodes or gpus
  std::vector<FrontierGroup> groups;
  Table table;  ///< a row for each point that is not beaten; its note says what is left out
};

/// Frontier of the rows of Reader::layouts(). Each row of its table says how sure it is that the
/// layout is faster than the cheaper one above it.
[[nodiscard]] Frontier frontier(const Table& layouts, FrontierCost by);

}  // namespace shardsweep
