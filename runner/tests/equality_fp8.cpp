// SPDX-License-Identifier: Apache-2.0
// FP8 products on the CPU, whose other arithmetic is fp64: where no tp cuts a tensor, all ranks
// scale as one process does, and the layouts are equal to the last digits; all of them are
// equal to fp64 within what numbers of 8 bits allow.
#include "equality.hpp"
#include "rank_pool.hpp"

#include <cstdio>
#include <vector>

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

/// Checks rows that sequence parallelism gathers in 8 bits: layouts with it and without it agree to
/// the last digits.
int check_gathered() {
  constexpr std::size_t most = 12;
  std::vector<EqualityCase> cases;
  for (const EqualityCase& c : covering_subset(all_cases(fp8_width))) {
    if (c.layout.tp == 1 || !c.layout.sequence_parallel || cases.size() == most) continue;
    if (auto adapted = in_turns(c)) cases.push_back(*adapted);
  }
  auto* distances = static_cast<double*>(shared_memory(most * pool_ranks * sizeof(double)));
  const bool lived = run_in_pool([&](Mesh& mesh) {
    const std::unique_ptr<Platform> platform = fp64_platform();
    u64 next_id = 1;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      EqualityCase whole = cases[i];
      whole.layout.sequence_parallel = false;
      if (mesh.rank() < whole.layout.world())
        distances[i * pool_ranks + static_cast<std::size_t>(mesh.rank())] =
            distance_of(*platform, mesh, cases[i], whole, next_id);
      next_id += 2 * ids_used(whole);
    }
  });
  int failed = 0;
  double worst = 0;
  for (std::size_t i = 0; i < most * pool_ranks; ++i) {
    if (!(distances[i] <= worst)) worst = distances[i];
    if (!(distances[i] <= fp64_tolerance.gradient)) ++failed;
  }
  std::printf(
      "%zu layouts with gathered rows, %d failed; worst: %.1e\n", cases.size(), failed, worst);
  std::fflush(stdout);
  return lived && failed == 0 && cases.size() == most ? 0 : 1;
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
  return exact + check_gathered() +
      run_equality({[&](const EqualityCase& c) { return rounded_in_layers(of_fp8, c); }, fp8_width,
                       open, in_turns, in_fp64},
          argc, argv);
}
