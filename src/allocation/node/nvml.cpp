// SPDX-License-Identifier: Apache-2.0
// Declarations as in NVIDIA's NVML API reference (R470 to R570); nothing of its header is
// needed to build.
#include "node/nvml.hpp"

#include "text/pieces.hpp"

#include <shardsweep/allocation_files.hpp>

#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shardsweep {
namespace {

using Device = void*;
using Status = int;

constexpr Status ok = 0;
constexpr Status not_supported = 3;
constexpr Status no_permission = 4;
constexpr Status insufficient_size = 7;

// Bounds on what a library may tell: 16 GPUs and some hundred processes are the most there is.
constexpr int most_devices = 256;
constexpr unsigned most_processes = 4096;
constexpr std::size_t longest_name = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, …UUID_V2…
constexpr std::uint64_t not_available = ~std::uint64_t{0};

struct MemoryV1 {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;  ///< includes the driver's own part
};
struct MemoryV2 {
  unsigned version = static_cast<unsigned>(sizeof(MemoryV2)) | (2U << 24U);
  unsigned long long total = 0;
  unsigned long long reserved = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
/// Layout of the calls …_v2 and …_v3.
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long used = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

template <class Function>
void resolve(void* library, Function*& function, const char* name, const char* older = "") {
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr && *older != '\0') symbol = ::dlsym(library, older);
  function = reinterpret_cast<Function*>(symbol);
}

std::string text_of(const std::array<char, longest_name>& buffer) {
  return {buffer.begin(), std::find(buffer.begin(), buffer.end(), '\0')};
}

/// "Model: \t NVIDIA H100 80GB HBM3", one of the lines.
std::string model_in(std::string_view text) {
  constexpr std::string_view key = "Model:";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(key)) return std::string(trimmed(line.substr(key.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return "";
}

}  // namespace

struct NvmlCalls {
  explicit NvmlCalls(void* opened) : library(opened) {
    resolve(library, init, "nvmlInit_v2");
    resolve(library, shutdown, "nvmlShutdown");
    resolve(library, error_string, "nvmlErrorString");
    resolve(library, count, "nvmlDeviceGetCount_v2");
    resolve(library, device, "nvmlDeviceGetHandleByIndex_v2");
    resolve(library, name, "nvmlDeviceGetName");
    resolve(library, uuid, "nvmlDeviceGetUUID");
    resolve(library, memory_v1, "nvmlDeviceGetMemoryInfo");
    resolve(library, memory_v2, "nvmlDeviceGetMemoryInfo_v2");
    resolve(library, processes, "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2");
    resolve(library, ecc_errors, "nvmlDeviceGetTotalEccErrors");
    resolve(library, clock, "nvmlDeviceGetClockInfo");
    resolve(library, power, "nvmlDeviceGetPowerUsage");
    resolve(library, throttled, "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  NvmlCalls(const NvmlCalls&) = delete;
  NvmlCalls& operator=(const NvmlCalls&) = delete;
  ~NvmlCalls() {
    if (started) (void)shutdown();
    ::dlclose(library);
  }

  [[nodiscard]] bool complete() const {
    return init != nullptr && shutdown != nullptr && count != nullptr && device != nullptr &&
        name != nullptr && uuid != nullptr;
  }

  [[nodiscard]] tl::unexpected<Fault> failed(std::string_view what, Status status) const {
    const char* words = error_string == nullptr ? nullptr : error_string(status);
    const std::string text = words == nullptr ? fmt::format("error {}", status) : words;
    return fault(status == no_permission ? FaultKind::rejected : FaultKind::unavailable,
        fmt::format("{}: {}", what, text));
  }

  [[nodiscard]] Result<Device> at(int index) const {
    Device found = nullptr;
    const Status status = device(static_cast<unsigned>(index), &found);
    if (status != ok) return failed(fmt::format("GPU {}", index), status);
    return found;
  }

  void* library;
  bool started = false;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*count)(unsigned*) = nullptr;
  Status (*device)(unsigned, Device*) = nullptr;
  Status (*name)(Device, char*, unsigned) = nullptr;
  Status (*uuid)(Device, char*, unsigned) = nullptr;
  Status (*memory_v1)(Device, MemoryV1*) = nullptr;
  Status (*memory_v2)(Device, MemoryV2*) = nullptr;
  Status (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  Status (*ecc_errors)(Device, int error_type, int counter_type, unsigned long long*) = nullptr;
  Status (*clock)(Device, int type, unsigned* mhz) = nullptr;
  Status (*power)(Device, unsigned* milliwatts) = nullptr;
  Status (*throttled)(Device, unsigned long long*) = nullptr;
};

Nvml::Nvml(std::unique_ptr<NvmlCalls> calls) : calls_(std::move(calls)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

Result<Nvml> Nvml::load(const std::filesystem::path& library) {
  void* opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* why = ::dlerror();
    return fault(FaultKind::unavailable, why == nullptr ? library.string() : why);
  }
  auto calls = std::make_unique<NvmlCalls>(opened);
  if (!calls->complete()) {
    return fault(
        FaultKind::unavailable, "{} lacks functions that every NVML has", library.string());
  }
  if (const Status status = calls->init(); status != ok)
    return calls->failed(library.string(), status);
  calls->started = true;
  return Nvml(std::move(calls));
}

Result<int> Nvml::count() const {
  unsigned count = 0;
  if (const Status status = calls_->count(&count); status != ok)
    return calls_->failed("number of GPUs", status);
  return static_cast<int>(std::min(count, static_cast<unsigned>(most_devices)));
}

Result<GpuIdentity> Nvml::identity(int index) const {
  SHARDSWEEP_ASSIGN(const Device device, calls_->at(index));
  std::array<char, longest_name> text{};
  GpuIdentity identity;
  Status status = calls_->name(device, text.data(), longest_name);
  if (status != ok) return calls_->failed(fmt::format("name of GPU {}", index), status);
  identity.name = text_of(text);
  status = calls_->uuid(device, text.data(), longest_name);
  if (status != ok) return calls_->failed(fmt::format("UUID of GPU {}", index), status);
  identity.uuid = text_of(text);
  return identity;
}

Result<GpuMemory> Nvml::memory(int index) const {
  SHARDSWEEP_ASSIGN(const Device device, calls_->at(index));
  Status status = not_supported;
  if (calls_->memory_v2 != nullptr) {
    MemoryV2 memory;
    status = calls_->memory_v2(device, &memory);
    if (status == ok)
      return GpuMemory{
          static_cast<std::int64_t>(memory.used), static_cast<std::int64_t>(memory.total)};
  }
  if (calls_->memory_v1 != nullptr) {
    MemoryV1 memory;
    status = calls_->memory_v1(device, &memory);
    if (status == ok)
      return GpuMemory{
          static_cast<std::int64_t>(memory.used), static_cast<std::int64_t>(memory.total)};
  }
  return calls_->failed(fmt::format("memory of GPU {}", index), status);
}

Result<std::vector<GpuProcess>> Nvml::compute_processes(int index) const {
  SHARDSWEEP_ASSIGN(const Device device, calls_->at(index));
  if (calls_->processes == nullptr)
    return calls_->failed(fmt::format("processes of GPU {}", index), not_supported);
  std::vector<ProcessInfo> infos(64);
  auto count = static_cast<unsigned>(infos.size());
  Status status = calls_->processes(device, &count, infos.data());
  if (status == insufficient_size) {
    // New processes may start between two calls.
    infos.resize(std::min(most_processes, 2 * count + 64));
    count = static_cast<unsigned>(infos.size());
    status = calls_->processes(device, &count, infos.data());
  }
  if (status != ok) return calls_->failed(fmt::format("processes of GPU {}", index), status);
  infos.resize(std::min<std::size_t>(count, infos.size()));
  std::vector<GpuProcess> processes;
  for (const ProcessInfo& info : infos) {
    GpuProcess process{static_cast<pid_t>(info.pid)};
    if (info.used != not_available) process.bytes = static_cast<std::int64_t>(info.used);
    processes.push_back(process);
  }
  return processes;
}

Result<GpuHealth> Nvml::health(int index) const {
  constexpr int uncorrected = 1;
  constexpr int since_driver_load = 0;
  SHARDSWEEP_ASSIGN(const Device device, calls_->at(index));
  GpuHealth health;
  unsigned long long value = 0;
  Status status = not_supported;
  if (calls_->ecc_errors != nullptr)
    status = calls_->ecc_errors(device, uncorrected, since_driver_load, &value);
  if (status == ok) health.uncorrected_errors = static_cast<std::int64_t>(value);
  if (status != ok && status != not_supported)
    return calls_->failed(fmt::format("memory errors of GPU {}", index), status);
  status = not_supported;
  if (calls_->throttled != nullptr) status = calls_->throttled(device, &value);
  if (status == ok) health.throttled = value;
  if (status != ok && status != not_supported)
    return calls_->failed(fmt::format("clocks of GPU {}", index), status);
  return health;
}

Result<GpuPace> Nvml::pace(int index) const {
  constexpr int sm_clock = 1;
  constexpr double milli = 1e-3;
  SHARDSWEEP_ASSIGN(const Device device, calls_->at(index));
  GpuPace pace;
  unsigned value = 0;
  if (calls_->clock != nullptr && calls_->clock(device, sm_clock, &value) == ok)
    pace.sm_clock_mhz = value;
  if (calls_->power != nullptr && calls_->power(device, &value) == ok) pace.power_w = milli * value;
  unsigned long long reasons = 0;
  if (calls_->throttled != nullptr && calls_->throttled(device, &reasons) == ok)
    pace.held_back = reasons;
  return pace;
}

GpuState look_at(const Nvml& nvml, int index) {
  GpuState seen;
  seen.index = index;
  const auto keep = [&](auto answer, auto& place) {
    if (answer) {
      place = *std::move(answer);
    } else if (seen.fault.empty()) {
      seen.fault = answer.error().what;
    }
  };
  keep(nvml.identity(index), seen.identity);
  keep(nvml.memory(index), seen.memory);
  keep(nvml.compute_processes(index), seen.processes);
  keep(nvml.health(index), seen.health);
  return seen;
}

std::vector<std::string> gpu_models_in_proc(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    if (folders.size() < static_cast<std::size_t>(most_devices)) folders.push_back(entry->path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<std::string> models;
  for (const auto& folder : folders) {
    const auto text = read_file(folder / "information");
    if (!text) continue;
    if (std::string model = model_in(*text); !model.empty()) models.push_back(std::move(model));
  }
  return models;
}

}  // namespace shardsweep
