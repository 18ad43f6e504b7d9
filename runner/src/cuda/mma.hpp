// SPDX-License-Identifier: Apache-2.0
// Tensor-core products of bf16 tiles with fp32 sums, and the moves that feed them: what all
// GPUs from compute capability 8.0 have, by PTX instructions (PTX ISA 8.x, sections
// "mma.m16n8k16", "ldmatrix" and "cp.async").
//
// Fragments of a warp, with g = lane / 4 and t = lane % 4; a register holds two values, the
// first in its lower half:
//   A[16, 16]  a0: (g, 2t)  a1: (g + 8, 2t)  a2: (g, 2t + 8)  a3: (g + 8, 2t + 8), and 2t + 1
//   B[16, 8]   b0: (2t, g), (2t + 1, g)      b1: (2t + 8, g), (2t + 9, g)
//   C[16, 8]   c0: (g, 2t)  c1: (g, 2t + 1)  c2: (g + 8, 2t)  c3: (g + 8, 2t + 1)
#pragma once

#include "cuda/kernel_language.hpp"

#if defined(__CUDACC__)

namespace shardbench {

__device__ inline unsigned shared_address(const void* data) {
  return static_cast<unsigned>(__cvta_generic_to_shared(data));
}

/// c += a · b.
__device__ inline void multiply_add(
    float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four 8×8 matrices: lane l gives the address of row l % 8 of matrix l / 8 (16 bytes,
/// aligned to 16). Of each matrix it gets row l / 4, columns 2(l % 4) and the next.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Loads each matrix transposed: its rows 2(l % 4) and the next, column l / 4.
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

/// 16 bytes from global to shared memory, both aligned to 16; zeros if not `valid`, and
/// then `from` is not read. They are there when wait_for_copies() says so, for this thread.
__device__ inline void copy_async(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
}
/// The copies given since the last call are a group.
__device__ inline void end_copy_group() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}
/// Waits until all groups of this thread but the newest `pending` have arrived.
template <int pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

/// Adds four adjacent values, aligned to 16 bytes, each by itself atomically.
__device__ inline void atomic_add_vector(float* sums, const float (&values)[4]) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(
      reinterpret_cast<float4*>(sums), make_float4(values[0], values[1], values[2], values[3]));
#else
  for (int i = 0; i < 4; ++i)
    atomicAdd(sums + i, values[i]);
#endif
}

}  // namespace shardbench

#else
#include "mma_emulator.hpp"
#endif
