// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu_watch.hpp"

#include "machine/processes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

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

namespace {

/// A MIG slice: NVML's memory and process lists are those of the whole GPU.
bool is_slice(const std::string& device) {
  return device.starts_with("MIG");
}

std::string cmdline_of(pid_t pid) {
  const auto stat = process_stat(pid);
  const bool alive = stat && stat->state != 'Z' && stat->state != 'X';
  return alive ? process_cmdline(pid) : "";
}

}  // namespace

GpuWatch::GpuWatch(const std::vector<std::string>& devices, const Log& log) {
  if (devices.empty() || std::any_of(devices.begin(), devices.end(), is_slice)) return;
  auto nvml = Nvml::load();
  if (!nvml) return;
  gpus_ = gpus_of_ranks(*nvml, devices, log);
  nvml_.emplace(*std::move(nvml));
}

GpuFindings GpuWatch::look(std::int64_t slack_bytes) {
  std::vector<GpuUse> seen;
  for (const int gpu : gpus_) {
    const auto memory = nvml_->memory(gpu);
    if (!memory) continue;  // a GPU that tells nothing has no fault
    GpuUse use{gpu, memory->used_bytes, {}};
    const auto processes = nvml_->compute_processes(gpu);
    for (const GpuProcess& process : processes.value_or(std::vector<GpuProcess>{}))
      use.holders.push_back({process.pid, process.bytes, cmdline_of(process.pid)});
    seen.push_back(std::move(use));
  }
  return baseline_.judge(seen, slack_bytes);
}

void GpuWatch::add_paces(PaceOfNode& paces) const {
  for (const int gpu : gpus_) {
    if (const auto pace = nvml_->pace(gpu)) paces.add(gpu, *pace);
  }
}

std::vector<GpuState> GpuWatch::all() const {
  std::vector<GpuState> seen;
  for (const int gpu : gpus_)
    seen.push_back(look_at(*nvml_, gpu));
  return seen;
}

}  // namespace shardsweep::agent
