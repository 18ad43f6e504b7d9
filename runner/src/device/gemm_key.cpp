// SPDX-License-Identifier: Apache-2.0
#include "device/gemm_key.hpp"

#include <algorithm>
#include <cstdint>

namespace shardbench {
namespace {

i64 alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address == 0 ? most_alignment
                      : std::min(most_alignment, static_cast<i64>(address & (~address + 1)));
}

}  // namespace

GemmKey key_of(const Gemm& g) {
  return {.m = g.m,
      .n = g.n,
      .k = g.k,
      .lda = g.lda,
      .ldb = g.ldb,
      .ldc = g.ldc,
      .transpose_a = g.transpose_a == Transpose::yes,
      .transpose_b = g.transpose_b == Transpose::yes,
      .accumulate = g.accumulate == Accumulate::yes,
      .gradient_output = g.gradient_output,
      .element_a = g.element_a,
      .element_b = g.element_b,
      .batch = g.batch,
      .step_a = g.step_a,
      .step_b = g.step_b,
      .step_c = g.step_c,
      .alignment = std::min({alignment_of(g.a), alignment_of(g.b), alignment_of(g.c)})};
}

}  // namespace shardbench
