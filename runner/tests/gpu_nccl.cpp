// SPDX-License-Identifier: Apache-2.0
// NCCL on one GPU: one rank is all that it takes there. Its operations, given by the table that
// shardbench uses, leave what they should in the GPU's memory.
#include "base/clock.hpp"
#include "base/error.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/gpu.hpp"
#include "cuda/gpu_comm_stream.hpp"
#include "nccl/nccl_world.hpp"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace shardbench;

constexpr i64 count = 1 << 20;
constexpr double limit_s = 30.0;

class Check {
 public:
  Check() : library_(load_nccl()) {
    if (!library_.refusal.empty()) fail(ErrorClass::comm_error, library_.refusal);
    if (const auto why = gpu::unavailable()) fail(ErrorClass::internal, *why);
    facts_ = gpu::open(0);
  }

  int run() {
    CudaDevice device(facts_);
    GpuCommStream stream(device.stream(), GpuCommStream::Kind::own);
    NcclWorld world(library_.table,
        {[](const Group&, const NcclUniqueId& own) { return own; }, [] { sleep_ms(1); }, limit_s});
    const Group alone{"alone", 1, {0}};
    NcclComm* comm = world.communicator(alone, 0, stream);
    const NcclTable& nccl = library_.table;
    void* s = stream.native();
    const auto n = static_cast<std::size_t>(count);
    const auto check = [&](const char* what, const auto& call) {
      check_operation(device, stream, what, [&](float* in, float* out) {
        world.run(comm, alone, what, [&] { return call(in, out); });
      });
    };
    check("all_reduce", [&](float* in, float* out) {
      return nccl.all_reduce(in, out, n, NcclDtype::fp32, NcclReduction::sum, comm, s);
    });
    check("reduce_scatter", [&](float* in, float* out) {
      return nccl.reduce_scatter(in, out, n, NcclDtype::fp32, NcclReduction::sum, comm, s);
    });
    check("all_gather", [&](float* in, float* out) {
      return nccl.all_gather(in, out, n, NcclDtype::fp32, comm, s);
    });
    check("broadcast", [&](float* in, float* out) {
      return nccl.broadcast(in, out, n, NcclDtype::fp32, 0, comm, s);
    });
    check("send and receive", [&](float* in, float* out) {
      (void)nccl.group_start();
      (void)nccl.send(in, n, NcclDtype::fp32, 0, comm, s);
      (void)nccl.receive(out, n, NcclDtype::fp32, 0, comm, s);
      return nccl.group_end();
    });
    world.check();
    world.finalize();
    std::printf("NCCL %s: %d operations, %d wrong\n", nccl_version_name(library_.version).c_str(),
        done_, wrong_);
    for (const NcclCalls calls : {NcclCalls::blocking, NcclCalls::polled})
      time_calls(device, calls);
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  /// Times the host's cost of a message to itself, as a pipeline or a ring sends them.
  void time_calls(CudaDevice& device, NcclCalls calls) {
    constexpr int repeats = 2000;
    constexpr std::size_t values = 1024;
    GpuCommStream stream(device.stream(), GpuCommStream::Kind::own);
    NcclWorld world(library_.table,
        {[](const Group&, const NcclUniqueId& own) { return own; }, [] { sleep_ms(1); }, limit_s,
            NcclOrder::by_nccl, std::nullopt, calls});
    const Group alone{"alone", 1, {0}};
    NcclComm* comm = world.communicator(alone, 0, stream);
    constexpr i64 bytes = 2 * static_cast<i64>(values * sizeof(float));
    std::byte* data = device.allocate(bytes);
    const NcclTable& nccl = library_.table;
    const auto message = [&] {
      world.run(comm, alone, "send and receive", [&] {
        (void)nccl.group_start();
        (void)nccl.send(data, values, NcclDtype::fp32, 0, comm, stream.native());
        (void)nccl.receive(data + bytes / 2, values, NcclDtype::fp32, 0, comm, stream.native());
        return nccl.group_end();
      });
    };
    for (int i = 0; i < repeats / 10; ++i)
      message();
    stream.hold_compute(stream.mark());
    device.synchronize();
    const TimePoint start = now();
    for (int i = 0; i < repeats; ++i)
      message();
    const double host_s = seconds_since(start);
    stream.hold_compute(stream.mark());
    device.synchronize();
    std::printf("%s calls: %.1f us of the host for each, %.0f calls/s; %.1f us with the GPU\n",
        std::string(nccl_calls_name(calls)).c_str(), host_s / repeats * 1e6, repeats / host_s,
        seconds_since(start) / repeats * 1e6);
    device.release(data, bytes);
    world.finalize();
  }

  void check_operation(CudaDevice& device, GpuCommStream& stream, const char* what,
      const std::function<void(float*, float*)>& give) {
    std::vector<float> expected(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = static_cast<float>((i * 2654435761U + static_cast<unsigned>(done_)) % 4096);
    const i64 bytes = count * i64{sizeof(float)};
    std::byte* in = device.allocate(bytes);
    std::byte* out = device.allocate(bytes);
    device.upload(in, expected.data(), bytes);
    device.zero(out, bytes);
    stream.follow_compute();
    give(reinterpret_cast<float*>(in), reinterpret_cast<float*>(out));
    stream.hold_compute(stream.mark());
    std::vector<float> found(expected.size());
    device.download(found.data(), out, bytes);
    device.release(in, bytes);
    device.release(out, bytes);
    ++done_;
    if (found == expected) return;
    ++wrong_;
    std::printf("wrong: %s\n", what);
  }

  NcclLibrary library_;
  gpu::Facts facts_;
  int done_ = 0;
  int wrong_ = 0;
};

}  // namespace

int main() {
  return Check().run();
}
