// SPDX-License-Identifier: Apache-2.0
// The layouts that are held against one process: all of them, or a subset that meets every pair
// of values.
#pragma once

#include "parallel/layout.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardbench {

struct EqualityCase {
  ModelShape model;
  Layout layout;
};

std::string describe_case(const EqualityCase& c);

/// Every layout that the rules allow with at most eight ranks, in a fixed order. `width`
/// multiplies the extents of the toy models: of 4 values per head, for 1.
std::vector<EqualityCase> all_cases(i64 width = 1);
/// The case with FP8 products, of sequences as long as these need; nothing if its matrices
/// are too small for them.
std::optional<EqualityCase> in_fp8(EqualityCase c, Scaling scaling);
/// Width per head that FP8 needs.
constexpr i64 fp8_width = 8;
/// A subset of `cases` in which each pair of values of two properties that occurs at all occurs
/// at least once.
std::vector<EqualityCase> covering_subset(const std::vector<EqualityCase>& cases);

}  // namespace shardbench
