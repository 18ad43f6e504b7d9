// SPDX-License-Identifier: Apache-2.0
// A GPU that all ranks share, or an emulated one: equal within what bf16 values allow.
#include "cuda/cuda_platform.hpp"
#include "equality.hpp"

int main(int argc, char** argv) {
  using namespace shardbench;
  // Relative. A weight is rounded once to 8 bits, and its update moves it by a bit at most.
  constexpr Tolerance tolerance{1e-2, 2e-2, 1e-1};
  // Heads of 16 values: what the tensor cores' kernels take.
  constexpr i64 width = 4;
  return run_equality({tolerance, true, width,
                       [](i64 rank) {
                         Options options;
                         options.device = "cuda";
                         options.dtype = Dtype::bf16;
                         options.comm = "staged";
                         options.local_rank = rank;
                         return cuda_platform().open(options);
                       }},
                      argc, argv);
}
