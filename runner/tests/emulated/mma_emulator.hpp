// SPDX-License-Identifier: Apache-2.0
// Tensor-core words on the host: cuda/mma.hpp includes it where there is no nvcc.
//
// An asynchronous copy is done as late as the hardware may do it, when it is waited for; until
// then its target is NaN.
#pragma once

#include "cuda/kernel_language.hpp"

#include <array>

namespace shardbench {
namespace emulator {

struct MultiplyAdd {
  float* c;
  const std::uint32_t* a;
  std::array<std::uint32_t, 2> b;

  static void perform(void* const* operands);
};

struct LoadMatrices {
  std::uint32_t* to;
  const Bf16* row;
  bool transposed;

  static void perform(void* const* operands);
};

void copy_later(void* to, const void* from, bool valid);
void end_copy_group();
void wait_for_copies(int pending);
/// How many times a matrix was loaded whose rows do not lie in different banks of shared
/// memory, since the last call.
i64 take_bank_conflicts();

}  // namespace emulator

inline void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
    std::uint32_t b1, const emulator::Place& place = emulator::Place::current()) {
  emulator::MultiplyAdd operand{c, a, {b0, b1}};
  emulator::wait_for_warp(emulator::MultiplyAdd::perform, &operand, place);
}

inline void load_matrices(std::uint32_t (&to)[4], const Bf16* row,
    const emulator::Place& place = emulator::Place::current()) {
  emulator::LoadMatrices operand{to, row, false};
  emulator::wait_for_warp(emulator::LoadMatrices::perform, &operand, place);
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const Bf16* row,
    const emulator::Place& place = emulator::Place::current()) {
  emulator::LoadMatrices operand{to, row, true};
  emulator::wait_for_warp(emulator::LoadMatrices::perform, &operand, place);
}

inline void copy_async(void* to, const void* from, bool valid) {
  emulator::copy_later(to, from, valid);
}
inline void end_copy_group() {
  emulator::end_copy_group();
}
template <int pending>
void wait_for_copies() {
  emulator::wait_for_copies(pending);
}

inline void atomic_add_vector(float* sums, const float (&values)[4]) {
  emulator::check_aligned(sums, 16);
  for (int i = 0; i < 4; ++i)
    sums[i] += values[i];
}

}  // namespace shardbench
