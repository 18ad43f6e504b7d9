// SPDX-License-Identifier: Apache-2.0
// The layouts that are held against one process: all of them, or a subset that meets every pair
// of values.
#pragma once

#include "layout.hpp"

#include <string>
#include <vector>

namespace shardbench {

struct EqualityCase {
  ModelShape model;
  Layout layout;
};

std::string describe_case(const EqualityCase& c);

/// Every layout that the rules allow with at most eight ranks, in a fixed order.
std::vector<EqualityCase> all_cases();
/// A subset of `cases` in which each pair of values of two properties that occurs at all occurs
/// at least once.
std::vector<EqualityCase> covering_subset(const std::vector<EqualityCase>& cases);

}  // namespace shardbench
