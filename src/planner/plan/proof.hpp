// SPDX-License-Identifier: Apache-2.0
// `prove: one-gpu`: single ranks of the layouts that are predicted to be fastest, as a sweep of
// their own. Each runs alone in a world that its trainer only pretends, and tells its memory.
#pragma once

#include <shardsweep/plan.hpp>
#include <shardsweep/sweep.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsweep {

/// How many layouts of a cell are proved.
inline constexpr std::size_t proved_layouts = 3;

/// Name of the sweep that runs the ranks.
[[nodiscard]] std::string proof_name(const std::string& sweep);

struct Proof {
  SweepSpec sweep;
  Plan plan;  ///< a trial for each rank: its layout, on one GPU
};
/// Ranks of the first, the middle and the last pipeline stage. `sweep` has a trainer with such
/// a mode.
[[nodiscard]] Proof make_proof(const SweepSpec& sweep, const Plan& plan);

/// A layout and what its ranks have shown together.
struct LayoutProof {
  Point point;  ///< point of the sweep that is proved
  bool fits = true;
  std::int64_t peak_bytes = 0;  ///< the largest of its ranks
  double slowest_step_s = 0;    ///< slowest step of its ranks; 0: none printed it
};
/// A rank that has ended.
struct ProvedRank {
  Point point;  ///< point of the proof's sweep
  bool fits = true;
  std::int64_t peak_bytes = 0;
  double step_s = 0;
};
/// Layouts of which at least one rank says something: that all fit, or that one does not.
[[nodiscard]] std::vector<LayoutProof> proved(
    const SweepSpec& proof, const std::vector<ProvedRank>& ranks);

}  // namespace shardsweep
