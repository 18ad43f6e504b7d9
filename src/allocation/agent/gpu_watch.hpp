// SPDX-License-Identifier: Apache-2.0
// The GPUs that ranks of this node get, between attempts and when one does not get on. Where
// there is no driver, or only a slice of a GPU is ours, there is nothing to watch. A call that
// the driver does not answer stops the node agent: its silence is the node's failure.
#pragma once

#include "agent/log.hpp"
#include "attempt/gpu_use.hpp"
#include "node/nvml.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardsweep::agent {

// Models of a node's GPUs, by the driver's own names: a sweep for one model must not be measured
// on another.

/// GPUs that ranks get, by the driver's numbers. If `devices` (as in CUDA_VISIBLE_DEVICES) are
/// slices, or numbers within a control group: all GPUs that this process may use.
[[nodiscard]] std::vector<int> gpus_of_ranks(
    const Nvml& nvml, const std::vector<std::string>& devices, const Log& log);

/// The model of the GPUs that ranks get (`devices`, as in CUDA_VISIBLE_DEVICES), with ", "
/// between different ones; empty if there is none or nobody tells.
[[nodiscard]] std::string gpu_models(const std::vector<std::string>& devices, const Log& log);

class GpuWatch {
 public:
  /// `devices`: as in CUDA_VISIBLE_DEVICES. Without any the driver is left alone.
  GpuWatch(const std::vector<std::string>& devices, const Log& log);

  /// Looks for foreign use, while nothing of ours runs there.
  [[nodiscard]] GpuFindings look(std::int64_t slack_bytes);
  /// Memory, processes, errors and clocks of all GPUs, for the evidence.
  [[nodiscard]] std::vector<GpuState> all() const;
  /// Clock and power of each, at this moment.
  void add_paces(PaceOfNode& paces) const;

 private:
  std::optional<Nvml> nvml_;
  std::vector<int> gpus_;  ///< driver's numbers of the GPUs
  GpuBaseline baseline_;
};

}  // namespace shardsweep::agent
