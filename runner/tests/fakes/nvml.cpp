// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml.so.1 for machines without a GPU. It knows five:
//   GPU-well      at 0000:1b:00.0, answers everything
//   GPU-mute      at 0000:1c:00.0, supports no question
//   GPU-crowded   at 0000:1d:00.0, has 100 processes
//   GPU-aged      at 0000:1e:00.0, retires pages instead of remapping rows
//   GPU-emulated  at 0000:00:00.0, answers everything, too
// FAKE_NVML_SM_CLOCKS: "1755,1700" is what it says of the SM clock, one after the other, then
// the last one; FAKE_NVML_SM_CLOCKS_R the same for the process whose RANK is R.
// FAKE_NVML_REASONS, FAKE_NVML_REASONS_R: why clocks are not higher, in place of 0x1044.
// FAKE_NVML_INIT: what nvmlInit answers. FAKE_NVML_OLD, of the build, leaves out what older
// drivers lack; FAKE_NVML_BARE all that is not needed to find a GPU.
#include <array>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace {

using Device = const char* const*;

[[maybe_unused]] constexpr int invalid_argument = 2;
[[maybe_unused]] constexpr int not_supported = 3;
constexpr int not_found = 6;

constexpr std::array<const char*, 5> uuids{
    "GPU-well", "GPU-mute", "GPU-crowded", "GPU-aged", "GPU-emulated"};
constexpr std::array<const char*, 5> pci_bus_ids{
    "0000:1b:00.0", "0000:1c:00.0", "0000:1d:00.0", "0000:1e:00.0", "0000:00:00.0"};

/// Setting of this rank, else of all.
[[maybe_unused]] const char* told_by(const std::string& name) {
  const char* rank = std::getenv("RANK");
  const char* own = rank == nullptr ? nullptr : std::getenv((name + "_" + rank).c_str());
  return own != nullptr ? own : std::getenv(name.c_str());
}

[[maybe_unused]] unsigned next_sm_clock() {
  static int asked = 0;
  const char* told = told_by("FAKE_NVML_SM_CLOCKS");
  std::istringstream all(told == nullptr ? "1755" : told);
  unsigned clock = 0;
  std::string text;
  for (int i = 0; i <= asked && std::getline(all, text, ','); ++i)
    clock = static_cast<unsigned>(std::stoul(text));
  ++asked;
  return clock;
}

[[maybe_unused]] unsigned long long reasons() {
  const char* told = told_by("FAKE_NVML_REASONS");
  return told == nullptr ? 0x1044ULL : std::stoull(told, nullptr, 0);
}

int started = 0;
int questions = 0;

int find(const std::array<const char*, 5>& names, const char* name, Device* device) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::strcmp(names[i], name) != 0) continue;
    *device = &uuids[i];
    return 0;
  }
  return not_found;
}

[[maybe_unused]] bool is(Device device, const char* uuid) {
  return std::strcmp(*device, uuid) == 0;
}

template <typename T>
[[maybe_unused]] int answer(Device device, T* place, T value) {
  ++questions;
  if (is(device, "GPU-mute")) return not_supported;
  *place = value;
  return 0;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the library's names.
extern "C" {

/// Calls of nvmlInit less those of nvmlShutdown.
int fake_nvml_started() {
  return started;
}

/// Number of questions that were answered or refused.
int fake_nvml_questions() {
  return questions;
}

int nvmlInit_v2() {
  const char* status = std::getenv("FAKE_NVML_INIT");
  if (status != nullptr) return std::atoi(status);
  ++started;
  return 0;
}
int nvmlShutdown() {
  --started;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  return find(uuids, uuid, device);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci_bus_id, Device* device) {
  return find(pci_bus_ids, pci_bus_id, device);
}

#ifndef FAKE_NVML_BARE
int nvmlDeviceGetClockInfo(Device device, int type, unsigned* mhz) {
  if (type != 1 && type != 2) return invalid_argument;
  return answer(device, mhz, type == 1 ? next_sm_clock() : 2619U);
}
int nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned* mhz) {
  if (type != 1 && type != 2) return invalid_argument;
  return answer(device, mhz, type == 1 ? 1980U : 3201U);
}
int nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  return answer(device, milliwatts, 612345U);
}
int nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned* milliwatts) {
  return answer(device, milliwatts, 700000U);
}
int nvmlDeviceGetTemperature(Device device, int sensor, unsigned* celsius) {
  if (sensor != 0) return invalid_argument;
  return answer(device, celsius, 61U);
}
int nvmlDeviceGetTotalEccErrors(Device device, int error, int counter, unsigned long long* count) {
  if (error != 1 || counter != 0) return invalid_argument;
  return answer(device, count, 2ULL);
}
int nvmlDeviceGetRetiredPagesPendingStatus(Device device, int* pending) {
  if (!is(device, "GPU-aged")) return not_supported;
  *pending = 1;
  return 0;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

int fill_processes(Device device, unsigned* count, ProcessInfo* infos) {
  if (is(device, "GPU-mute")) return not_supported;
  const unsigned there = is(device, "GPU-crowded") ? 100 : 2;
  const unsigned room = *count;
  *count = there;
  if (there > room) return 7;
  for (unsigned i = 0; i < there; ++i)
    infos[i] = {4000 + i, i == 1 ? ~0ULL : (i + 1) * 1024ULL, ~0U, ~0U};
  return 0;
}

#ifdef FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* mask) {
  return answer(device, mask, 0x8ULL);
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, ProcessInfo* infos) {
  return fill_processes(device, count, infos);
}
#else
int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* mask) {
  return answer(device, mask, reasons());
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos) {
  return fill_processes(device, count, infos);
}
int nvmlDeviceGetRemappedRows(Device device, unsigned* corrected, unsigned* uncorrected,
    unsigned* pending, unsigned* failed) {
  if (is(device, "GPU-aged")) return not_supported;
  *corrected = *uncorrected = *failed = 7;
  return answer(device, pending, 0U);
}
#endif
#endif

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
