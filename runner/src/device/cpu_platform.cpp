// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_platform.hpp"

#include "device/cpu_device.hpp"

#include <utility>

namespace shardbench {
namespace {

class CpuPlatform final : public Platform {
 public:
  explicit CpuPlatform(const Options& options) : device_(make_cpu_device(options.dtype)) {}

  Device& device() override { return *device_; }
  Allocator& host() override { return *device_; }
  void describe(JsonObject& start) const override { start.text("device_name", cpu_gemm_library()); }
  std::unique_ptr<Communicator> connect(const Connection& c, Group group) override {
    return connect_host(c, std::move(group));
  }
  // Probe for some tens of ms between the ranks of a node.
  i64 probe_bytes() const override { return i64{4} << 20; }

 private:
  PaceLook look_at_pace() override { return {.clock_mhz = cpu_clock_mhz()}; }

  std::unique_ptr<Device> device_;
};

}  // namespace

PlatformKind cpu_platform() {
  return {"cpu", {Dtype::fp32, Dtype::fp64}, {"socket"},
      [](const Options& options) { return std::make_unique<CpuPlatform>(options); }};
}

}  // namespace shardbench
