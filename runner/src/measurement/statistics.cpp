// SPDX-License-Identifier: Apache-2.0
#include "measurement/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardbench {

StepStatistics describe(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  StepStatistics s;
  s.median = n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
  s.min = values.front();
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(n)));
  s.p95 = values[rank - 1];
  s.spread = s.median > 0 ? (values.back() - values.front()) / s.median : 0;
  return s;
}

std::vector<std::size_t> median_places(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  const std::size_t n = order.size();
  if (n % 2 == 1) return {order[n / 2]};
  return {order[n / 2 - 1], order[n / 2]};
}

}  // namespace shardbench
