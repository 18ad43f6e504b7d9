// SPDX-License-Identifier: Apache-2.0
// The CPU in fp64: equal to the last digits.
#include "equality.hpp"

int main(int argc, char** argv) {
  using namespace shardbench;
  return run_equality({always(fp64_tolerance), 1, [](i64) { return fp64_platform(); }}, argc, argv);
}
