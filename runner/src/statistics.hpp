// SPDX-License-Identifier: Apache-2.0
// What is said about a series of train-step times.
#pragma once

#include <vector>

namespace shardbench {

struct StepStatistics {
  double median = 0;
  double min = 0;
  double p95 = 0;     // nearest rank
  double spread = 0;  // (max − min) / median
};

/// Of at least one value.
StepStatistics describe(std::vector<double> values);

}  // namespace shardbench
