// SPDX-License-Identifier: Apache-2.0
// shardbench-cpu: the benchmark without CUDA.
#include "device/cpu_platform.hpp"
#include "program/program.hpp"

int main(int argc, char** argv) {
  return shardbench::run_program(argc, argv, {shardbench::cpu_platform()});
}
