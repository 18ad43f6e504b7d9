// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu_models.hpp"

#include <algorithm>
#include <iterator>

namespace shardsweep::agent {
namespace {

constexpr std::size_t longest_text = 200;  // limit within a channel's line

struct Gpu {
  int index = 0;
  GpuIdentity identity;
};

/// GPUs that this process may use.
std::vector<Gpu> gpus_of_driver(const Nvml& nvml, const Log& log) {
  std::vector<Gpu> gpus;
  const auto count = nvml.count();
  for (int index = 0; count && index < *count; ++index) {
    auto identity = nvml.identity(index);
    if (identity) {
      gpus.push_back({index, std::move(*identity)});
    } else if (identity.error().kind != FaultKind::rejected) {
      log.line(identity.error().what);
    }
  }
  return gpus;
}

bool is_listed(const Gpu& gpu, const std::vector<std::string>& devices) {
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& device) {
    return device == std::to_string(gpu.index) ||
        (device.size() > 4 && gpu.identity.uuid.starts_with(device));
  });
}

std::vector<Gpu> chosen(std::vector<Gpu> gpus, const std::vector<std::string>& devices) {
  std::vector<Gpu> listed;
  std::copy_if(gpus.begin(), gpus.end(), std::back_inserter(listed),
      [&](const Gpu& gpu) { return is_listed(gpu, devices); });
  // Numbers within a control group, and slices of a GPU, are none of the driver's: then all
  // that we may use are meant.
  return listed.size() < std::min(gpus.size(), devices.size()) ? gpus : listed;
}

std::string listed_once(const std::vector<std::string>& models) {
  std::string text;
  std::vector<std::string> seen;
  for (const std::string& model : models) {
    if (std::find(seen.begin(), seen.end(), model) != seen.end()) continue;
    seen.push_back(model);
    text += (text.empty() ? "" : ", ") + model;
  }
  return text.substr(0, longest_text);
}

}  // namespace

std::vector<int> gpus_of_ranks(
    const Nvml& nvml, const std::vector<std::string>& devices, const Log& log) {
  std::vector<int> indices;
  for (const Gpu& gpu : chosen(gpus_of_driver(nvml, log), devices))
    indices.push_back(gpu.index);
  return indices;
}

std::string gpu_models(const std::vector<std::string>& devices, const Log& log) {
  if (devices.empty()) return "";
  std::vector<std::string> models;
  if (const auto nvml = Nvml::load()) {
    for (const Gpu& gpu : chosen(gpus_of_driver(*nvml, log), devices))
      models.push_back(gpu.identity.name);
  }
  return listed_once(models.empty() ? gpu_models_in_proc() : models);
}

}  // namespace shardsweep::agent
