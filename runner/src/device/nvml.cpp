// SPDX-License-Identifier: Apache-2.0
// Names, numbers and layouts are those of NVIDIA's NVML API reference (R470 to R580). Which
// functions there are depends on the driver's age, what they answer on the GPU and on rights.
#include "device/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace shardbench {
namespace {

using Handle = void*;
using Status = int;

constexpr Status ok = 0;
constexpr Status insufficient_size = 7;

constexpr int sm_clock = 1;
constexpr int memory_clock = 2;
constexpr int gpu_sensor = 0;
constexpr int uncorrected = 1;
constexpr int since_driver_load = 0;
constexpr unsigned most_processes = 4096;  // limit for one GPU, more than there can be
constexpr unsigned long long not_told = ~0ULL;

/// nvmlProcessInfo_t of the calls …_v2 and …_v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Reason {
  u64 bit;
  std::string_view name;
};
constexpr std::array<Reason, 9> reasons{{{0x1, "gpu_idle"}, {0x2, "applications_clocks_setting"},
    {0x4, "sw_power_cap"}, {0x8, "hw_slowdown"}, {0x10, "sync_boost"},
    {0x20, "sw_thermal_slowdown"}, {0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake_slowdown"},
    {0x100, "display_clock_setting"}}};

}  // namespace

struct GpuMonitor::Library {
  explicit Library(void* opened) : handle(opened) {
    resolve(init, "nvmlInit_v2");
    resolve(shutdown, "nvmlShutdown");
    resolve(by_uuid, "nvmlDeviceGetHandleByUUID");
    resolve(by_pci_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
    resolve(clock, "nvmlDeviceGetClockInfo");
    resolve(max_clock, "nvmlDeviceGetMaxClockInfo");
    resolve(power, "nvmlDeviceGetPowerUsage");
    resolve(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    resolve(temperature, "nvmlDeviceGetTemperature");
    // Throttle reasons were renamed by R535.
    resolve(clocks_events, "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons");
    resolve(ecc_errors, "nvmlDeviceGetTotalEccErrors");
    resolve(remapped_rows, "nvmlDeviceGetRemappedRows");
    resolve(retired_pages_pending, "nvmlDeviceGetRetiredPagesPendingStatus");
    resolve(processes, "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (started && shutdown != nullptr) shutdown();
    ::dlclose(handle);
  }

  bool start() {
    started = init != nullptr && init() == ok;
    return started;
  }

  /// Null when there is none such.
  Handle find(const std::string& uuid, const std::string& pci_bus_id) const {
    Handle device = nullptr;
    if (by_uuid != nullptr && by_uuid(uuid.c_str(), &device) == ok) return device;
    if (by_pci_bus_id != nullptr && by_pci_bus_id(pci_bus_id.c_str(), &device) == ok) return device;
    return nullptr;
  }

  void* handle;
  bool started = false;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  Status (*by_uuid)(const char*, Handle*) = nullptr;
  Status (*by_pci_bus_id)(const char*, Handle*) = nullptr;
  Status (*clock)(Handle, int type, unsigned* mhz) = nullptr;
  Status (*max_clock)(Handle, int type, unsigned* mhz) = nullptr;
  Status (*power)(Handle, unsigned* milliwatts) = nullptr;
  Status (*power_limit)(Handle, unsigned* milliwatts) = nullptr;
  Status (*temperature)(Handle, int sensor, unsigned* celsius) = nullptr;
  Status (*clocks_events)(Handle, unsigned long long* mask) = nullptr;
  Status (*ecc_errors)(Handle, int error, int counter, unsigned long long* count) = nullptr;
  Status (*remapped_rows)(Handle, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
      unsigned* failed) = nullptr;
  Status (*retired_pages_pending)(Handle, int* pending) = nullptr;
  Status (*processes)(Handle, unsigned* count, ProcessInfo* infos) = nullptr;

 private:
  template <typename Function>
  void resolve(Function*& function, const char* name, const char* older = nullptr) {
    void* symbol = ::dlsym(handle, name);
    if (symbol == nullptr && older != nullptr) symbol = ::dlsym(handle, older);
    function = reinterpret_cast<Function*>(symbol);
  }
};

namespace {

/// function(arguments…, &value), where it is there and answers.
template <typename Value, typename... Parameters, typename... Arguments>
std::optional<Value> ask(Status (*function)(Parameters...), Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != ok) return std::nullopt;
  return value;
}

std::optional<double> watts(std::optional<unsigned> milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts * 1e-3;
}

std::optional<bool> repair_pending(const GpuMonitor::Library& nvml, Handle device) {
  unsigned corrected = 0;
  unsigned uncorrected_rows = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (nvml.remapped_rows != nullptr &&
      nvml.remapped_rows(device, &corrected, &uncorrected_rows, &pending, &failed) == ok)
    return pending != 0;
  // GPUs before Ampere retire pages instead.
  const auto pages = ask<int>(nvml.retired_pages_pending, device);
  if (!pages) return std::nullopt;
  return *pages != 0;
}

std::optional<std::vector<GpuProcess>> compute_processes(
    const GpuMonitor::Library& nvml, Handle device) {
  if (nvml.processes == nullptr) return std::nullopt;
  std::vector<ProcessInfo> infos(64);
  auto count = static_cast<unsigned>(infos.size());
  Status status = nvml.processes(device, &count, infos.data());
  if (status == insufficient_size) {
    infos.resize(std::min(most_processes, 2 * count + 64));  // new processes may start meanwhile
    count = static_cast<unsigned>(infos.size());
    status = nvml.processes(device, &count, infos.data());
  }
  if (status != ok) return std::nullopt;
  infos.resize(std::min<std::size_t>(count, infos.size()));
  std::vector<GpuProcess> processes;
  for (const ProcessInfo& info : infos) {
    GpuProcess process{.pid = info.pid};
    if (info.bytes != not_told) process.bytes = static_cast<i64>(info.bytes);
    processes.push_back(process);
  }
  return processes;
}

std::string processes_json(const std::vector<GpuProcess>& processes) {
  std::vector<std::string> values;
  for (const GpuProcess& process : processes) {
    JsonObject object;
    object.integer("pid", process.pid);
    if (process.bytes) object.integer("bytes", *process.bytes);
    values.push_back(object.str());
  }
  return json_array(values);
}

std::string names_json(const std::vector<std::string>& names) {
  std::vector<std::string> values;
  values.reserve(names.size());
  for (const std::string& name : names)
    values.push_back(json_quote(name));
  return json_array(values);
}

void put(JsonObject& object, std::string_view key, const std::optional<i64>& value) {
  if (value) object.integer(key, *value);
}
void put(JsonObject& object, std::string_view key, const std::optional<double>& value) {
  if (value) object.number(key, *value);
}

}  // namespace

JsonObject health_json(const GpuHealth& health) {
  JsonObject object;
  put(object, "sm_clock_mhz", health.sm_clock_mhz);
  put(object, "sm_clock_max_mhz", health.sm_clock_max_mhz);
  put(object, "memory_clock_mhz", health.memory_clock_mhz);
  put(object, "memory_clock_max_mhz", health.memory_clock_max_mhz);
  put(object, "power_w", health.power_w);
  put(object, "power_limit_w", health.power_limit_w);
  put(object, "temperature_c", health.temperature_c);
  if (health.clocks_event_reasons)
    object.raw("clocks_event_reasons", names_json(*health.clocks_event_reasons));
  put(object, "uncorrected_ecc_errors", health.uncorrected_ecc_errors);
  if (health.memory_repair_pending)
    object.boolean("memory_repair_pending", *health.memory_repair_pending);
  if (health.processes) object.raw("processes", processes_json(*health.processes));
  return object;
}

std::vector<std::string> clocks_event_names(u64 mask) {
  std::vector<std::string> names;
  for (const Reason& reason : reasons) {
    if ((mask & reason.bit) != 0) names.emplace_back(reason.name);
    mask &= ~reason.bit;
  }
  if (mask != 0) {
    std::array<char, 19> text{};
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(mask));
    names.emplace_back(text.data());
  }
  return names;
}

namespace {

std::string usual_library() {
  const char* asked = std::getenv("SHARDBENCH_NVML");
  return asked != nullptr && *asked != '\0' ? asked : "libnvidia-ml.so.1";
}

}  // namespace

std::unique_ptr<GpuMonitor> GpuMonitor::open(
    const std::string& uuid, const std::string& pci_bus_id, const std::string& library) {
  const std::string path = library.empty() ? usual_library() : library;
  void* opened = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return nullptr;
  auto nvml = std::make_unique<Library>(opened);
  Handle device = nvml->start() ? nvml->find(uuid, pci_bus_id) : nullptr;
  if (device == nullptr) return nullptr;
  return std::make_unique<GpuMonitor>(std::move(nvml), device);
}

GpuMonitor::GpuMonitor(std::unique_ptr<Library> library, void* device)
    : library_(std::move(library)), device_(device) {}

GpuMonitor::~GpuMonitor() = default;

PaceLook GpuMonitor::pace() const {
  const Library& nvml = *library_;
  return {ask<unsigned>(nvml.clock, device_, sm_clock), watts(ask<unsigned>(nvml.power, device_)),
      ask<unsigned long long>(nvml.clocks_events, device_).value_or(0)};
}

GpuHealth GpuMonitor::health() const {
  const Library& nvml = *library_;
  GpuHealth health;
  health.sm_clock_mhz = ask<unsigned>(nvml.clock, device_, sm_clock);
  health.sm_clock_max_mhz = ask<unsigned>(nvml.max_clock, device_, sm_clock);
  health.memory_clock_mhz = ask<unsigned>(nvml.clock, device_, memory_clock);
  health.memory_clock_max_mhz = ask<unsigned>(nvml.max_clock, device_, memory_clock);
  health.power_w = watts(ask<unsigned>(nvml.power, device_));
  health.power_limit_w = watts(ask<unsigned>(nvml.power_limit, device_));
  health.temperature_c = ask<unsigned>(nvml.temperature, device_, gpu_sensor);
  if (const auto mask = ask<unsigned long long>(nvml.clocks_events, device_))
    health.clocks_event_reasons = clocks_event_names(*mask);
  if (const auto errors =
          ask<unsigned long long>(nvml.ecc_errors, device_, uncorrected, since_driver_load))
    health.uncorrected_ecc_errors = static_cast<i64>(*errors);
  health.memory_repair_pending = repair_pending(nvml, device_);
  health.processes = compute_processes(nvml, device_);
  return health;
}

}  // namespace shardbench
