// SPDX-License-Identifier: Apache-2.0
// What bench_planner replays: a table that tells the truth, and what a planner is told of the
// machine that it was measured on. Tables are read from a folder, or made: measured by machines
// drawn at random, which no one can tune a planner to.
#pragma once

#include "predict/family.hpp"
#include "tools/lab/replay.hpp"

#include <shardsweep/model.hpp>
#include <shardsweep/recorded.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsweep::bench {

/// The same numbers from the same seed with every library.
class Random {
 public:
  /// Neighbouring seeds have nothing in common.
  explicit Random(std::uint64_t seed) : state_(seed) { state_ = next(); }
  /// In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  bool one_in(double share) { return uniform() < share; }
  /// Below `count`, which is not 0.
  std::size_t index(std::size_t count) {
    return static_cast<std::size_t>(uniform() * static_cast<double>(count));
  }
  /// Standard deviation 1; a sum of twelve (Irwin-Hall).
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += uniform();
    return sum;
  }
  /// Within `most` times either way.
  double factor(double most) { return std::exp(std::log(most) * between(-1, 1)); }

 private:
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  std::uint64_t state_;
};

struct Case {
  std::string name;  ///< of the table
  RecordedSweep sweep;
  ClusterSpec cluster;
  Family family;
  ReplayFit fit = ReplayFit::none;
  std::int32_t first = 0;  ///< as measure.first
};

template <typename Value>
void shuffle(std::vector<Value>& values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random.index(i)]);
}

/// One piece of a planner's knowledge, taken away or made wrong.
struct Ignorance {
  const char* name;
  void (*apply)(Case&, Random&, std::uint64_t seed);
  /// Whose completed rows the planner has seen before: none, those of other models, those of
  /// other cells.
  ReplayFit fit = ReplayFit::none;
  bool of_kernels = false;  ///< nothing to take away from a table that names none
};
[[nodiscard]] std::span<const Ignorance> ignorances();

/// Where cluster presets lie, and what a table of unknown origin is taken for.
struct TableOptions {
  std::filesystem::path presets;
  std::string cluster = "h100-8x";
  std::string family = "nanotron";
};
/// Every .csv of a folder that is a table of runs: of nanotron's log columns, or of ours. Names
/// of others go to standard error.
[[nodiscard]] std::vector<Case> tables_of(
    const std::filesystem::path& folder, const TableOptions& options);

/// Two models on three numbers of nodes, measured by a machine and a trainer that differ from
/// cluster file and family: in rates, in bytes, in what no model of a step has.
[[nodiscard]] Case made_table(std::uint64_t seed, const std::filesystem::path& presets);

}  // namespace shardsweep::bench
