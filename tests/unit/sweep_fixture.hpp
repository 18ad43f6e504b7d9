// SPDX-License-Identifier: Apache-2.0
// Sweeps in a few words, for the tests of the planner.
#pragma once

#include <shardsweep/capabilities.hpp>
#include <shardsweep/sweep.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace shardsweep::testing {

inline ModelSpec llama3_8b() {
  return {.name = "llama-3-8b",
      .layers = 32,
      .hidden = 4096,
      .ffn = 14336,
      .heads = 32,
      .kv_heads = 8,
      .vocab = 128256};
}

inline ModelSpec small_model() {
  return {.name = "small",
      .layers = 8,
      .hidden = 256,
      .ffn = 768,
      .heads = 8,
      .kv_heads = 4,
      .vocab = 1024};
}

inline ClusterSpec h100() {
  ClusterSpec cluster;
  cluster.name = "h100-8x";
  cluster.gpu = "NVIDIA H100 80GB HBM3";
  cluster.gpus_per_node = 8;
  cluster.memory_bytes = std::int64_t{80} << 30;
  cluster.peak_flops = {989.4e12, std::nullopt, std::nullopt};
  cluster.memory_bandwidth = 3.35e12;
  cluster.intra_node_bandwidth = 450e9;
  cluster.inter_node_bandwidth = 50e9;
  cluster.intra_node_latency_us = 5;
  cluster.inter_node_latency_us = 15;
  return cluster;
}

inline AxisValues values(std::string_view axis, std::initializer_list<std::int64_t> list) {
  return {find_axis(axis), false, list};
}
inline AxisValues automatic(std::string_view axis) {
  return {find_axis(axis), true, {}};
}

/// One model on H100s; axes are up to the test.
inline SweepSpec sweep_of(
    ModelSpec model, std::vector<AxisValues> axes, std::vector<AxisValues> constants = {}) {
  SweepSpec sweep;
  sweep.name = "test";
  sweep.cluster = h100();
  sweep.models = {std::move(model)};
  sweep.axes = std::move(axes);
  sweep.constants = std::move(constants);
  return sweep;
}

inline Capabilities any_runner() {
  Capabilities runner;
  runner.runner = "shardbench-cuda";
  runner.version = "1.0";
  return runner;
}

}  // namespace shardsweep::testing
