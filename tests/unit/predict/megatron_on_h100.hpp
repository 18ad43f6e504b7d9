// SPDX-License-Identifier: Apache-2.0
// What the family of Megatron-LM is predicted to need and take on nodes of eight H100.
#pragma once

#include "predict/family.hpp"
#include "predict/memory.hpp"
#include "predict/time_model.hpp"

#include <cstdint>

namespace shardsweep::testing {

inline constexpr double gib = 1024.0 * 1024 * 1024;

inline ClusterSpec nodes_of_eight() {
  ClusterSpec cluster;
  cluster.name = "h100";
  cluster.gpu = "H100";
  cluster.gpus_per_node = 8;
  cluster.memory_bytes = std::int64_t{80} << 30;
  cluster.peak_flops[0] = 989e12;
  cluster.memory_bandwidth = 3.35e12;
  cluster.intra_node_bandwidth = 450e9;
  cluster.inter_node_bandwidth = 50e9;
  cluster.intra_node_latency_us = 3;
  cluster.inter_node_latency_us = 8;
  return cluster;
}

inline double state_gib(const MemoryEstimate& estimate) {
  std::int64_t bytes = 0;
  for (const auto part : {MemoryClass::weights, MemoryClass::gradients, MemoryClass::optimizer})
    bytes += estimate.bytes[static_cast<std::size_t>(part)];
  return static_cast<double>(bytes) / gib;
}

inline TimeEstimate time_of(const ModelSpec& model, const Point& point, const TimeFamily& family) {
  const auto& memory = (*find_family("megatron"))->memory;
  return estimate_time(model, nodes_of_eight(), point, family, memory);
}

inline TimeEstimate time_of(const ModelSpec& model, const Point& point) {
  return time_of(model, point, (*find_family("megatron"))->time);
}

}  // namespace shardsweep::testing
