// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu_watch.hpp"

#include "agent/gpu_models.hpp"
#include "machine/processes.hpp"

#include <algorithm>
#include <utility>

namespace shardsweep::agent {
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
