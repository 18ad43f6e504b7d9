// SPDX-License-Identifier: Apache-2.0
// What the choice of an algorithm for a matrix product depends on: its shape, without its
// operands' places.
#pragma once

#include "device/device.hpp"

#include <compare>

namespace shardbench {

struct GemmKey {
  i64 m = 0;
  i64 n = 0;
  i64 k = 0;
  i64 lda = 0;
  i64 ldb = 0;
  i64 ldc = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool gradient_output = false;
  Element element_a = Element::value;
  Element element_b = Element::value;
  i64 batch = 1;
  i64 step_a = 0;
  i64 step_b = 0;
  i64 step_c = 0;
  /// The largest power of two, up to most_alignment, that divides all three addresses.
  i64 alignment = 0;
  auto operator<=>(const GemmKey&) const = default;  // NOLINT(modernize-use-nullptr)

  /// Rows that the operands have in memory.
  i64 rows_a() const { return transpose_a ? k : m; }
  i64 rows_b() const { return transpose_b ? n : k; }
};

/// The widest access of a GPU, in bytes: more alignment changes nothing.
constexpr i64 most_alignment = 16;
GemmKey key_of(const Gemm& gemm);

}  // namespace shardbench
