// SPDX-License-Identifier: Apache-2.0
// Which of several algorithms for one product is the fastest, found while they do its work.
#pragma once

#include <cstddef>
#include <vector>

namespace shardbench {

/// Every candidate does the product a few times within the first train steps, which warm up
/// anyway: no operand is touched that would not have been, and no memory is needed.
class AlgorithmChoice {
 public:
  /// `candidates`: at least 1, in the order in which the library would take them.
  explicit AlgorithmChoice(std::size_t candidates);

  /// The candidate to run now.
  std::size_t next();
  /// A run of it took so long.
  void took(std::size_t candidate, double seconds);
  /// next() has handed out all trials; what it returns from now on is the best as known.
  bool all_tried() const { return given_ >= trials(); }

 private:
  std::size_t trials() const;
  std::size_t best() const;

  std::vector<double> least_s_;  // by candidate; infinite: not known yet
  std::size_t given_ = 0;
};

}  // namespace shardbench
