// SPDX-License-Identifier: Apache-2.0
// Every measured quantity: its one name and unit, the same in records, database, CSV and help.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardsweep {

enum class MetricKind : std::uint8_t { integer, real };

struct MetricInfo {
  std::string_view name;  ///< key of the `result` record and column of `measurements`
  std::string_view unit;
  MetricKind kind;
  bool higher_is_better;
  std::string_view meaning;
};

inline constexpr std::array<MetricInfo, 19> metric_table{{
    {"tokens_per_s_per_gpu", "tokens/s/GPU", MetricKind::real, true,
        "tokens per second over the world, divided by its GPUs; what layouts are ranked by"},
    {"tokens_per_s", "tokens/s", MetricKind::real, true,
        "tokens of the global batch / median train-step time"},
    {"train_step_ms", "ms", MetricKind::real, false,
        "median over the timed train steps of the slowest rank's time"},
    {"train_step_ms_min", "ms", MetricKind::real, false, "fastest timed train step"},
    {"train_step_ms_p95", "ms", MetricKind::real, false,
        "95th percentile of the timed train steps"},
    {"train_step_ms_spread", "1", MetricKind::real, false,
        "(p95 - min) / median of the timed train steps"},
    {"mfu", "1", MetricKind::real, true,
        "tokens/s x FLOPs per token / (GPUs x dense peak); empty where the peak is unknown"},
    {"tflops_per_gpu", "TFLOP/s", MetricKind::real, true, "model FLOPs per second and GPU"},
    {"peak_memory_bytes", "B", MetricKind::integer, false, "peak memory, maximum over all ranks"},
    {"peak_allocated_bytes", "B", MetricKind::integer, false,
        "peak of what tensors had, maximum over all ranks; empty where it is not told"},
    {"peak_reserved_bytes", "B", MetricKind::integer, false,
        "peak of what the allocator held from the device; empty where it is not told"},
    {"loss", "nat", MetricKind::real, false,
        "mean over the global batch's tokens at the last train step"},
    {"tokens_per_step", "tokens", MetricKind::integer, true, "tokens of the global batch"},
    {"n_params", "1", MetricKind::integer, true,
        "parameters of the model, the same in every layout"},
    {"steps", "1", MetricKind::integer, true, "timed train steps"},
    {"warmup", "1", MetricKind::integer, true, "train steps before the timed ones"},
    {"resolution", "1", MetricKind::real, false,
        "share of the speed that a trainer's log rounds away; empty where nothing is rounded"},
    {"sm_clock_mhz", "MHz", MetricKind::real, true,
        "clock of the slowest rank's processor over the timed train steps (a GPU's "
        "multiprocessors, a CPU's core); empty where it is not told"},
    {"power_w", "W", MetricKind::real, false,
        "power of a GPU over the timed train steps, mean over the ranks; empty where it is not "
        "told"},
}};

[[nodiscard]] constexpr const MetricInfo* find_metric(std::string_view name) {
  for (const auto& row : metric_table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace shardsweep
