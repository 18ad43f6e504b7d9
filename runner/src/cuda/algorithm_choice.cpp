// SPDX-License-Identifier: Apache-2.0
#include "cuda/algorithm_choice.hpp"

#include <algorithm>
#include <limits>

namespace shardbench {
namespace {

// The first run of an algorithm loads its code; of the others the least counts.
constexpr std::size_t runs_each = 3;

}  // namespace

AlgorithmChoice::AlgorithmChoice(std::size_t candidates)
    : least_s_(candidates, std::numeric_limits<double>::infinity()) {}

std::size_t AlgorithmChoice::trials() const {
  return least_s_.size() == 1 ? 0 : runs_each * least_s_.size();
}

std::size_t AlgorithmChoice::next() {
  if (all_tried()) return best();
  return given_++ % least_s_.size();
}

void AlgorithmChoice::took(std::size_t candidate, double seconds) {
  least_s_[candidate] = std::min(least_s_[candidate], seconds);
}

std::size_t AlgorithmChoice::best() const {
  return static_cast<std::size_t>(std::min_element(least_s_.begin(), least_s_.end()) -
                                  least_s_.begin());
}

}  // namespace shardbench
