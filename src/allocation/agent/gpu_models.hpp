// SPDX-License-Identifier: Apache-2.0
// Which GPUs a node has, by the driver's own names: a sweep for one model must not be measured
// on another.
#pragma once

#include "agent/log.hpp"
#include "node/nvml.hpp"

#include <string>
#include <vector>

namespace shardsweep::agent {

/// GPUs that ranks get, by the driver's numbers. If `devices` (as in CUDA_VISIBLE_DEVICES) are
/// slices, or numbers within a control group: all GPUs that this process may use.
[[nodiscard]] std::vector<int> gpus_of_ranks(
    const Nvml& nvml, const std::vector<std::string>& devices, const Log& log);

/// The model of the GPUs that ranks get (`devices`, as in CUDA_VISIBLE_DEVICES), with ", "
/// between different ones; empty if there is none or nobody tells.
[[nodiscard]] std::string gpu_models(const std::vector<std::string>& devices, const Log& log);

}  // namespace shardsweep::agent
