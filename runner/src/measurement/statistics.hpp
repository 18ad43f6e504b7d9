// SPDX-License-Identifier: Apache-2.0
// What is said about a series of train-step times.
#pragma once

#include <cstddef>
#include <vector>

namespace shardbench {

struct StepStatistics {
  double median = 0;
  double min = 0;
  double p95 = 0;     // nearest rank
  double spread = 0;  // (max − min) / median
};

/// Requires at least one value.
StepStatistics describe(std::vector<double> values);

/// Places in `values` of the one or two in the middle, whose mean is the median.
std::vector<std::size_t> median_places(const std::vector<double>& values);

}  // namespace shardbench
