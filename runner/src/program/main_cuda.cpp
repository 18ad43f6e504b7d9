// SPDX-License-Identifier: Apache-2.0
// shardbench-cuda: the benchmark on NVIDIA GPUs.
#include "cuda/cuda_platform.hpp"
#include "program/program.hpp"

int main(int argc, char** argv) {
  return shardbench::run_program(argc, argv, {shardbench::cuda_platform()});
}
