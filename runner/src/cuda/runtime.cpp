// SPDX-License-Identifier: Apache-2.0
// gpu.hpp by the CUDA runtime.
#include "cuda/runtime.hpp"

#include "base/error.hpp"
#include "cuda/gpu.hpp"

#include <array>
#include <cstdio>

namespace shardbench::gpu {
namespace {

cudaStream_t of(Stream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

cudaEvent_t of(Event event) {
  return static_cast<cudaEvent_t>(event.handle);
}

std::size_t size(i64 bytes) {
  return static_cast<std::size_t>(bytes);
}

std::string words(cudaError_t answer, const std::string& call) {
  return call + ": " + cudaGetErrorName(answer) + ": " + cudaGetErrorString(answer);
}

/// Null if there is no memory left; any other refusal ends the rank.
std::byte* or_null(cudaError_t answer, void* data, const char* call) {
  if (answer == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // clear the error: the next call would report it again
    return nullptr;
  }
  accept(answer, call);
  return static_cast<std::byte*>(data);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
        static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += "-";
    text += digits.data();
  }
  return text;
}

// A process opens one.
int opened_shared_bytes = 0;

int device_count(cudaError_t& answer) {
  int count = 0;
  answer = cudaGetDeviceCount(&count);
  return answer == cudaSuccess ? count : 0;
}

}  // namespace

void accept(cudaError_t answer, const char* call) {
  if (answer != cudaSuccess) fail(ErrorClass::internal, words(answer, call));
}

std::optional<std::string> unavailable() {
  cudaError_t answer = cudaSuccess;
  const int count = device_count(answer);
  if (answer != cudaSuccess) return words(answer, "cudaGetDeviceCount");
  if (count == 0) return "cudaGetDeviceCount: no GPU was found";
  return std::nullopt;
}

Facts open(i64 local_rank) {
  cudaError_t answer = cudaSuccess;
  const int count = device_count(answer);
  accept(answer, "cudaGetDeviceCount");
  const auto device = static_cast<int>(local_rank % count);
  accept(cudaSetDevice(device), "cudaSetDevice");
  accept(cudaFree(nullptr), "opening the GPU's context");
  cudaDeviceProp properties{};
  accept(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::array<char, 32> bus{};
  accept(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device),
      "cudaDeviceGetPCIBusId");
  opened_shared_bytes = static_cast<int>(properties.sharedMemPerBlockOptin);
  Facts facts;
  facts.name = properties.name;
  facts.pci_bus_id = bus.data();
  facts.uuid = uuid_text(properties.uuid);
  accept(cudaDriverGetVersion(&facts.driver_version), "cudaDriverGetVersion");
  accept(cudaRuntimeGetVersion(&facts.runtime_version), "cudaRuntimeGetVersion");
  facts.compute_capability = 10 * properties.major + properties.minor;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.l2_bytes = properties.l2CacheSize;
  return facts;
}

i64 most_shared_bytes() {
  return opened_shared_bytes;
}

MemoryState memory_state() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  accept(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  return {static_cast<i64>(free_bytes), static_cast<i64>(total_bytes)};
}

std::byte* allocate(i64 bytes) {
  void* data = nullptr;
  const cudaError_t answer = cudaMalloc(&data, size(bytes));
  return or_null(answer, data, "cudaMalloc");
}

void release(std::byte* data) {
  accept(cudaFree(data), "cudaFree");
}

std::byte* allocate_pinned(i64 bytes) {
  void* data = nullptr;
  const cudaError_t answer = cudaMallocHost(&data, size(bytes));
  return or_null(answer, data, "cudaMallocHost");
}

void release_pinned(std::byte* data) {
  accept(cudaFreeHost(data), "cudaFreeHost");
}

Stream make_stream(Priority priority) {
  int least = 0;
  int greatest = 0;  // a smaller number
  accept(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  accept(cudaStreamCreateWithPriority(
             &stream, cudaStreamNonBlocking, priority == Priority::high ? greatest : least),
      "cudaStreamCreateWithPriority");
  return {stream};
}

void release_stream(Stream stream) {
  accept(cudaStreamDestroy(of(stream)), "cudaStreamDestroy");
}

Event make_event(Timing timing) {
  cudaEvent_t event = nullptr;
  const unsigned flags = timing == Timing::on ? cudaEventDefault : cudaEventDisableTiming;
  accept(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate");
  return {event};
}

void release_event(Event event) {
  accept(cudaEventDestroy(of(event)), "cudaEventDestroy");
}

void record(Event event, Stream stream) {
  accept(cudaEventRecord(of(event), of(stream)), "cudaEventRecord");
}

void wait(Stream stream, Event event) {
  accept(cudaStreamWaitEvent(of(stream), of(event), 0), "cudaStreamWaitEvent");
}

bool reached(Event event) {
  const cudaError_t answer = cudaEventQuery(of(event));
  if (answer == cudaErrorNotReady) {
    (void)cudaGetLastError();  // clear the error: the next launch would report it again
    return false;
  }
  accept(answer, "work on the GPU");
  return true;
}

double seconds_between(Event from, Event to) {
  float ms = 0;
  accept(cudaEventElapsedTime(&ms, of(from), of(to)), "cudaEventElapsedTime");
  return static_cast<double>(ms) * 1e-3;
}

void zero(Stream stream, void* data, i64 bytes) {
  accept(cudaMemsetAsync(data, 0, size(bytes), of(stream)), "cudaMemsetAsync");
}

void copy(Stream stream, void* to, const void* from, i64 bytes) {
  accept(cudaMemcpyAsync(to, from, size(bytes), cudaMemcpyDeviceToDevice, of(stream)),
      "cudaMemcpyAsync");
}

void upload(Stream stream, void* to, const void* host, i64 bytes) {
  accept(cudaMemcpyAsync(to, host, size(bytes), cudaMemcpyHostToDevice, of(stream)),
      "cudaMemcpyAsync");
}

void download(Stream stream, void* host, const void* from, i64 bytes) {
  accept(cudaMemcpyAsync(host, from, size(bytes), cudaMemcpyDeviceToHost, of(stream)),
      "cudaMemcpyAsync");
}

}  // namespace shardbench::gpu
