// SPDX-License-Identifier: Apache-2.0
#include "cuda/cuda_platform.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "communication/staged_communicator.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/gpu_comm_stream.hpp"
#include "device/nvml.hpp"
#include "model/context_attention.hpp"
#include "nccl/nccl_communicator.hpp"
#include "parallel/rank_context.hpp"

#include <cstdlib>
#include <optional>
#include <utility>

namespace shardbench {
namespace {

class PinnedMemory final : public Allocator {
 public:
  std::byte* allocate(i64 bytes) override { return gpu::allocate_pinned(bytes); }
  void release(std::byte* data, i64) override { gpu::release_pinned(data); }
};

// Pause between two looks while the host waits for the GPU: short beside a train step.
constexpr int look_pause_us = 50;
// Pause while NCCL connects, or takes what it was asked: sockets wake the rank sooner.
constexpr double connect_pause_s = 1e-3;
// Pause between two full questions to the driver.
constexpr double examination_pause_s = 1.0;

constexpr int fp8_capability = 89;

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

// The driver reads it when it opens the GPU: all streams of one priority then share one queue,
// in the order of the host's calls.
constexpr const char* one_queue = "CUDA_DEVICE_MAX_CONNECTIONS";

gpu::Facts opened(const Options& options) {
  if (options.layout.habits.one_queue) (void)::setenv(one_queue, "1", 0);
  if (const auto why = gpu::unavailable())
    fail(ErrorClass::internal, "no GPU can be used: " + *why);
  return gpu::open(options.local_rank);
}

/// "" if it is not set.
std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::string version_text(int cuda_version) {
  return std::to_string(cuda_version / 1000) + "." + std::to_string(cuda_version % 1000 / 10);
}

/// One rank alone can do without NCCL.
NcclLibrary loaded(const std::string& comm, i64 world_size) {
  if (comm != "nccl") return {};
  NcclLibrary library = load_nccl();
  if (!library.refusal.empty() && world_size > 1) fail(ErrorClass::comm_error, library.refusal);
  return library;
}

class CudaPlatform final : public Platform {
 public:
  explicit CudaPlatform(const Options& options)
      : comm_(options.comm.empty() ? "nccl" : options.comm),
        nccl_(loaded(comm_, options.world_size)),
        facts_(opened(options)),
        streams_(device_.stream(), options.layout.habits),
        most_blocks_(nccl_.order == NcclOrder::by_room
                ? blocks_for_room(
                      streams_.used_by(options.layout), static_cast<int>(facts_.multiprocessors))
                : std::nullopt),
        nccl_calls_(options.nccl_blocking ? NcclCalls::blocking : NcclCalls::polled),
        registers_(options.nccl_register) {
    if (options.layout.fp8 != Scaling::none && facts_.compute_capability < fp8_capability)
      fail(ErrorClass::invalid_layout,
          "FP8 needs a GPU of compute capability 8.9 or later; " + facts_.name + " has " +
              capability_text(facts_.compute_capability));
    device_.while_waiting([this] { look(); });
    // A run without a model has nothing to plan for.
    if (options.model.heads > 0) choose_attention(options);
  }

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
        .raw("attention", device_.attention_json())
        .text("cuda_connections", value_of(one_queue))
        .text("comm", comm_);
    if (monitor_) start.raw("gpu_health", health_json(monitor_->health()).str());
    if (nccl_.version == 0) return;
    if (most_blocks_) start.integer("nccl_most_blocks", *most_blocks_);
    JsonObject settings;
    for (const auto& [name, value] : nccl_settings())
      settings.text(name, value);
    start.text("nccl", nccl_version_name(nccl_.version))
        .text("nccl_order", nccl_order_name(nccl_.order))
        .text("nccl_calls", nccl_calls_name(nccl_calls_))
        .raw("nccl_settings", settings.str());
  }

  std::unique_ptr<Communicator> connect(const Connection& c, Group group) override {
    mesh_ = &c.mesh;
    if (comm_ == "staged")
      return std::make_unique<StagedCommunicator>(
          connect_host(c, std::move(group)), device_, c.host_memory);
    if (!world_) open_world(c);
    CommStream& stream = streams_.of(group.name);
    return std::make_unique<NcclCommunicator>(
        *world_, std::move(group), c.mesh.rank(), stream, device_, c.recorder);
  }

  void reserved(const Memory& memory) override {
    if (!world_ || !registers_) return;
    for (const Memory::Extent& arena : memory.reserved_extents())
      world_->register_memory(arena.base, arena.bytes);
  }

  /// Examines the GPU at work: it has hardly rested.
  void between_steps() override {
    Platform::between_steps();
    if (!monitor_ || seconds_since(examined_) <= examination_pause_s) return;
    at_work_ = monitor_->health();
    examined_ = now();
  }

  void disconnect() override {
    device_.synchronize();
    if (world_) world_->finalize();
  }

  void abort() override {
    if (world_) world_->abort_all();
  }

  /// Adds figures of the whole GPU: of all ranks, if several share it.
  void add_result(JsonObject& result, const Memory& memory) override {
    const gpu::MemoryState now = gpu::memory_state();
    const i64 own = at_start_.free_bytes - now.free_bytes;
    result.raw("gpu_memory",
        JsonObject{}
            .integer("total_bytes", now.total_bytes)
            .integer("free_at_start_bytes", at_start_.free_bytes)
            .integer("own_bytes", own)
            .integer("arena_bytes", memory.reserved_bytes())
            .integer("outside_arenas_bytes", own - memory.reserved_bytes())
            .integer("allocations", memory.source_allocations())
            .str());
    if (world_) result.integer("nccl_registered_bytes", world_->registered_bytes());
    result.raw("products", device_.products().choices_json());
    if (at_work_) result.raw("gpu_health", health_json(*at_work_).str());
  }

 private:
  PaceLook look_at_pace() override { return monitor_ ? monitor_->pace() : PaceLook{}; }

  void open_world(const Connection& c) {
    world_.emplace(nccl_.table,
        NcclHost{[c](const Group& group, const NcclUniqueId& own) {
                   return share_id(*connect_host(c, group), own);
                 },
            [&mesh = c.mesh] { mesh.wait_event(Deadline::in(connect_pause_s)); }, c.limit_s,
            nccl_.order, most_blocks_, nccl_calls_});
  }

  void choose_attention(const Options& options) {
    const i64 rank = options.rank % options.layout.world();
    const Coordinates at = coordinates_of(options.layout, rank);
    const Extents extents = extents_of(options.model, options.layout, at, Dtype::bf16);
    device_.choose_attention(attended_shape(extents.attention, options.layout));
  }

  /// The host waits for the GPU: time to hear of peers and of NCCL. The driver is not asked for
  /// more, since a train step may be being timed.
  void look() {
    if (mesh_ != nullptr) mesh_->progress();
    if (world_) world_->check();
    sleep_us(look_pause_us);
  }

  std::string comm_;
  NcclLibrary nccl_;
  gpu::Facts facts_;
  gpu::MemoryState at_start_ = gpu::memory_state();  // with the context, without anything of ours
  CudaDevice device_{facts_};
  PinnedMemory host_;
  std::unique_ptr<GpuMonitor> monitor_ = GpuMonitor::open(facts_.uuid, facts_.pci_bus_id);
  std::optional<GpuHealth> at_work_;  // the last time that it was looked at while it worked
  TimePoint examined_{};
  Mesh* mesh_ = nullptr;
  CommStreams streams_;
  std::optional<int> most_blocks_;  // limit of blocks in a kernel of NCCL
  NcclCalls nccl_calls_;
  bool registers_;
  std::optional<NcclWorld> world_;
};

}  // namespace

PlatformKind cuda_platform() {
  return {"cuda", {Dtype::bf16}, {"nccl", "staged"},
      [](const Options& options) { return std::make_unique<CudaPlatform>(options); },
      {"cudnn", "mma", "plain"}};
}

}  // namespace shardbench
