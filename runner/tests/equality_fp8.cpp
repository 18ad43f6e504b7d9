// SPDX-License-Identifier: Apache-2.0
// FP8 products on the CPU, whose other arithmetic is fp64: where no tp cuts a tensor, all ranks
// scale as one process does, and the layouts are equal to the last digits; all of them are
// equal to fp64 within what numbers of 8 bits allow.
#include "equality.hpp"

namespace {

using namespace shardbench;

/// Current and delayed scaling in turns.
std::optional<EqualityCase> in_turns(EqualityCase c) {
  static int turn = 0;
  return in_fp8(std::move(c), ++turn % 2 == 0 ? Scaling::current : Scaling::delayed);
}

std::optional<EqualityCase> with_whole_tensors(EqualityCase c) {
  const bool whole = c.layout.tp == 1 && c.layout.cp == 1;
  return whole ? in_turns(std::move(c)) : std::nullopt;
}

EqualityCase in_fp64(EqualityCase c) {
  c.layout.fp8 = Scaling::none;
  return single_of(c);
}

}  // namespace

int main(int argc, char** argv) {
  const auto open = [](i64) { return fp64_platform(); };
  const int exact =
      run_equality({always(fp64_tolerance), fp8_width, open, with_whole_tensors}, argc, argv);
  // Relative: 3 bits of significand forward, 2 backward. The gradients of q and k are
  // differences of what was rounded. Another library's order of sums rounds other values.
  constexpr Tolerance of_fp8{5e-2, 2.5e-1, 1e-1};
  return exact +
         run_equality({[&](const EqualityCase& c) { return rounded_in_layers(of_fp8, c); },
                       fp8_width, open, in_turns, in_fp64},
                      argc, argv);
}
