// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's management library says about the GPUs of this node. The library comes with the
// driver and is loaded at run time: a node without it has no GPUs to ask about, and is no error
// of ours. A call goes into the driver, which can take seconds (the first one) or, with a GPU
// that has fallen off its bus, not come back: nothing but silence tells of that.
#pragma once

#include "attempt/gpu_use.hpp"

#include <shardsweep/result.hpp>

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsweep {

struct GpuIdentity {
  std::string name;  ///< the model, as the driver writes it: "NVIDIA H100 80GB HBM3"
  std::string uuid;  ///< "GPU-…": as CUDA_VISIBLE_DEVICES may name it
  friend bool operator==(const GpuIdentity&, const GpuIdentity&) = default;
};

struct GpuMemory {
  std::int64_t used_bytes = 0;  ///< use by processes; older drivers add their own part
  std::int64_t total_bytes = 0;
  friend bool operator==(const GpuMemory&, const GpuMemory&) = default;
};

/// A process with a compute context. The pid is the host's: in another pid namespace it is
/// nobody's, or somebody else's.
struct GpuProcess {
  pid_t pid = 0;
  std::optional<std::int64_t> bytes{};  ///< empty: the driver does not tell
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

/// Fields are empty if this GPU does not tell.
struct GpuHealth {
  /// Uncorrected memory errors since the driver was loaded.
  std::optional<std::int64_t> uncorrected_errors{};
  /// Why its clocks are lower than they could be, at this moment: bits for throttle_words().
  std::optional<std::uint64_t> throttled{};
  friend bool operator==(const GpuHealth&, const GpuHealth&) = default;
};

/// The library's functions, resolved once.
struct NvmlCalls;

class Nvml {
 public:
  /// `library`: another file in tests only. A fault if there is none, or it can't start.
  [[nodiscard]] static Result<Nvml> load(const std::filesystem::path& library = default_library);
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  /// All GPUs of the node, also those that belong to another job. Index 0 … count() - 1 below
  /// is the driver's order (by PCI address), which need not be CUDA's.
  [[nodiscard]] Result<int> count() const;

  // A fault of kind `rejected`: this process has no permission, so the GPU is not the job's.
  [[nodiscard]] Result<GpuIdentity> identity(int index) const;
  [[nodiscard]] Result<GpuMemory> memory(int index) const;
  [[nodiscard]] Result<std::vector<GpuProcess>> compute_processes(int index) const;
  [[nodiscard]] Result<GpuHealth> health(int index) const;
  [[nodiscard]] Result<GpuPace> pace(int index) const;

 private:
  static constexpr const char* default_library = "libnvidia-ml.so.1";
  explicit Nvml(std::unique_ptr<NvmlCalls> calls);

  std::unique_ptr<NvmlCalls> calls_;
};

/// Observations of one GPU.
struct GpuState {
  int index = 0;
  std::optional<GpuIdentity> identity{};
  std::optional<GpuMemory> memory{};
  std::vector<GpuProcess> processes{};
  GpuHealth health{};
  std::string fault{};  ///< the first question that it did not answer; empty: none
};
[[nodiscard]] GpuState look_at(const Nvml& nvml, int index);

/// The models of the GPUs that the driver lists in /proc, in PCI order: for nodes whose image
/// lacks the library. `root`: another folder in tests only.
[[nodiscard]] std::vector<std::string> gpu_models_in_proc(
    const std::filesystem::path& root = "/proc/driver/nvidia/gpus");

}  // namespace shardsweep
