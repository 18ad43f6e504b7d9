// SPDX-License-Identifier: Apache-2.0
// Which rates a cluster file leaves out, and what stands in for them.
#pragma once

#include <shardsweep/model.hpp>
#include <shardsweep/point.hpp>

namespace shardsweep {

/// Rates that a cluster file does not give, by the hardware that they belong to.
struct UnknownRates {
  bool compute = false;  ///< FLOP/s of the dtype
  bool memory = false;   ///< bytes/s of device memory
  bool inside = false;   ///< links inside a node
  bool between = false;  ///< links between nodes

  [[nodiscard]] bool any() const { return compute || memory || inside || between; }
  friend bool operator==(const UnknownRates&, const UnknownRates&) = default;
};

[[nodiscard]] UnknownRates unknown_rates(const ClusterSpec& cluster, Dtype dtype);

/// FLOP/s where the peak is unknown: a plain C++ GEMM on one slow core.
inline constexpr double nominal_flops = 4e9;

/// The cluster with a nominal bandwidth and latency in place of each that is unknown, in
/// proportion to what is known: memory to FLOP/s, links to memory. Right in order, unknown in
/// scale. A part of a step that cost nothing could never be learnt from measurements. Peaks
/// stay unknown.
[[nodiscard]] ClusterSpec with_nominal_rates(ClusterSpec cluster);

}  // namespace shardsweep
