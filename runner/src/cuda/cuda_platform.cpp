// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_platform.hpp"

#include "cuda/cuda_device.hpp"
#include "error.hpp"
#include "staged_communicator.hpp"

#include <optional>
#include <utility>

namespace shardbench {
namespace {

class PinnedMemory final : public Allocator {
 public:
  std::byte* allocate(i64 bytes) override { return gpu::allocate_pinned(bytes); }
  void release(std::byte* data, i64) override { gpu::release_pinned(data); }
};

gpu::Facts opened(const Options& options) {
  if (const auto why = gpu::unavailable())
    fail(ErrorClass::internal, "no GPU can be used: " + *why);
  return gpu::open(options.local_rank);
}

std::string version_text(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

class CudaPlatform final : public Platform {
 public:
  explicit CudaPlatform(const Options& options)
      : comm_(options.comm.empty() ? "staged" : options.comm), facts_(opened(options)) {}

  Device& device() override { return device_; }
  Allocator& host() override { return host_; }
  i64 probe_bytes() const override { return i64{256} << 20; }

  void describe(JsonObject& start) const override {
    start.text("device_name", facts_.name)
        .text("gpu_uuid", facts_.uuid)
        .text("gpu_pci_bus_id", facts_.pci_bus_id)
        .number("compute_capability", facts_.compute_capability / 10.0)
        .integer("multiprocessors", facts_.multiprocessors)
        .text("cuda_driver", version_text(facts_.driver_version))
        .text("cuda_runtime", version_text(facts_.runtime_version))
        .text("matrix_products", device_.products().library())
        .text("comm", comm_);
  }

  std::unique_ptr<Communicator> connect(const Connection& c, Group group) override {
    return std::make_unique<StagedCommunicator>(connect_host(c, std::move(group)), device_,
                                                c.host_memory);
  }

  /// Of the whole GPU: of all ranks, where several share it.
  void add_result(JsonObject& result, const Memory& memory) override {
    const gpu::MemoryState now = gpu::memory_state();
    const i64 own = at_start_.free_bytes - now.free_bytes;
    result.raw("gpu_memory", JsonObject{}
                                 .integer("total_bytes", now.total_bytes)
                                 .integer("free_at_start_bytes", at_start_.free_bytes)
                                 .integer("own_bytes", own)
                                 .integer("arena_bytes", memory.reserved_bytes())
                                 .integer("outside_arenas_bytes", own - memory.reserved_bytes())
                                 .integer("allocations", memory.source_allocations())
                                 .str());
  }

 private:
  std::string comm_;
  gpu::Facts facts_;
  gpu::MemoryState at_start_ =
      gpu::memory_state();  // with the context, without anything of ours
  CudaDevice device_;
  PinnedMemory host_;
};

}  // namespace

PlatformKind cuda_platform() {
  return {"cuda", {Dtype::bf16}, {"nccl", "staged"}, [](const Options& options) {
            return std::make_unique<CudaPlatform>(options);
          }};
}

}  // namespace shardbench
