// SPDX-License-Identifier: Apache-2.0
// The state of a GPU as NVIDIA's management library tells it: whether a measurement is to be
// trusted. The library comes with the driver and is loaded at run time.
//
// A call goes into the driver: the first one can take seconds.
#pragma once

#include "base/json.hpp"
#include "device/dtype.hpp"
#include "measurement/pace.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// A process with a compute context. The pid is the host's: in another pid namespace it belongs to
/// no process, or to another one.
struct GpuProcess {
  i64 pid = 0;
  std::optional<i64> bytes = {};
};

/// Absent: the driver does not tell.
struct GpuHealth {
  std::optional<i64> sm_clock_mhz = {};
  std::optional<i64> sm_clock_max_mhz = {};
  std::optional<i64> memory_clock_mhz = {};
  std::optional<i64> memory_clock_max_mhz = {};
  std::optional<double> power_w = {};
  std::optional<double> power_limit_w = {};
  std::optional<i64> temperature_c = {};
  /// Why the clocks are not higher, at this moment: "sw_power_cap", …; idle GPUs have a reason,
  /// too. Empty: nothing holds them back.
  std::optional<std::vector<std::string>> clocks_event_reasons = {};
  /// Uncorrected memory errors since the driver was loaded.
  std::optional<i64> uncorrected_ecc_errors = {};
  /// Rows are remapped, or pages retired, when the GPU is reset next.
  std::optional<bool> memory_repair_pending = {};
  std::optional<std::vector<GpuProcess>> processes = {};
};

/// The names above; what is absent is left out.
JsonObject health_json(const GpuHealth& health);

/// The reasons in a mask of nvmlClocksEventReasons; bits that have no name here as "0x…".
std::vector<std::string> clocks_event_names(u64 mask);

class GpuMonitor {
 public:
  struct Library;

  /// The GPU with that UUID ("GPU-…"), else the one at that PCI address ("0000:1b:00.0"). Null
  /// if there is no library, or it does not start, or does not know the GPU. `library`:
  /// empty for what SHARDBENCH_NVML names, else libnvidia-ml.so.1.
  static std::unique_ptr<GpuMonitor> open(
      const std::string& uuid, const std::string& pci_bus_id, const std::string& library = "");
  GpuMonitor(std::unique_ptr<Library> library, void* device);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  GpuHealth health() const;
  /// Figures that may change from one train step to the next.
  PaceLook pace() const;

 private:
  std::unique_ptr<Library> library_;
  void* device_;
};

}  // namespace shardbench
