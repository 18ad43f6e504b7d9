// SPDX-License-Identifier: Apache-2.0
// Machines of which nothing is known: their rates are drawn within a factor of four of what the
// predictor assumes, each part by itself. On top comes what no predictor knows: a factor for
// each value of each structural axis, products that are slower in small micro-batches, another
// overlap, noise, and a slow run now and then.
#pragma once

#include "search/cell_search.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsweep::testing {

/// How large a misfit is, in ln(speed).
struct Misfit {
  double rates = 4;        ///< factor either way
  double structure = 0.2;  ///< standard deviation of each value's factor
  double noise = 0.03;
  double slow_runs = 0.05;  ///< share of runs that something else slows down
};

struct SimulatedRun {
  SearchPoint point;
  double speed = 0;     ///< tokens/s per GPU, without noise; 0: it runs out of memory
  double measured = 0;  ///< the same with noise
};

struct SimulatedMachine {
  ClusterSpec cluster;  ///< as its file has it
  const Family* family = nullptr;
  std::vector<SimulatedRun> runs;
};

/// Four slots of a CPU without any rate in its cluster file: `seed` says which machine.
[[nodiscard]] SimulatedMachine simulated_machine(std::uint64_t seed, const Misfit& misfit = {});

struct SearchScore {
  std::size_t points = 0;
  std::size_t launched = 0;
  bool stopped = false;  ///< before its last point
  double regret = 0;     ///< fastest / chosen - 1, both without noise
  double left_over = 0;  ///< fastest untested without noise / best measured - 1
};

/// Searches the machine to the end, one run after the other.
[[nodiscard]] SearchScore search(const SimulatedMachine& machine, const SearchSettings& settings);

}  // namespace shardsweep::testing
