// SPDX-License-Identifier: Apache-2.0
// gpu.hpp on the host: device memory is host memory, work is done as it is given, events are
// points in time.
//
// Each allocation ends at a page that may not be touched, so that a kernel which runs past its
// operand is caught, and is all NaN at first, so that what was never written shows.
#include "cuda/gpu.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "emulated_gpu.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

namespace shardbench {
namespace {

struct Allocation {
  void* pages;
  std::size_t mapped_bytes;
  i64 bytes;
};

struct EmulatedGpu {
  i64 total_bytes = 0;
  i64 used_bytes = 0;
  i64 shared_bytes = 163 << 10;
  int compute_capability = 80;
  int polls_until_reached = 0;
  double ahead_s = 0;  // lead over the host's clock
  std::map<std::byte*, Allocation> allocations;
};

EmulatedGpu& emulated() {
  static EmulatedGpu instance = [] {
    constexpr i64 default_bytes = i64{16} << 30;
    const char* bytes = std::getenv("SHARDBENCH_EMULATED_GPU_BYTES");
    EmulatedGpu gpu;
    gpu.total_bytes = bytes == nullptr ? default_bytes : std::atoll(bytes);
    if (const char* shared = std::getenv("SHARDBENCH_EMULATED_SHARED_BYTES"))
      gpu.shared_bytes = std::atoll(shared);
    if (const char* capability = std::getenv("SHARDBENCH_EMULATED_CAPABILITY"))
      gpu.compute_capability = std::atoi(capability);
    return gpu;
  }();
  return instance;
}

std::size_t rounded_up(i64 bytes, std::size_t to) {
  return (static_cast<std::size_t>(bytes) + to - 1) / to * to;
}

struct EventTime {
  TimePoint at{};
  int polls_left = 0;
};

EventTime& time_of(gpu::Event event) {
  return *static_cast<EventTime*>(event.handle);
}

}  // namespace

void emulator::set_gpu_memory(i64 bytes) {
  emulated().total_bytes = bytes;
}

void emulator::set_shared_memory(i64 bytes) {
  emulated().shared_bytes = bytes;
}

void emulator::set_polls_until_reached(int polls) {
  emulated().polls_until_reached = polls;
}

void emulator::advance_clock(double seconds) {
  emulated().ahead_s += seconds;
}

bool emulator::has_high_priority(gpu::Stream stream) {
  return *static_cast<gpu::Priority*>(stream.handle) == gpu::Priority::high;
}

namespace gpu {

std::optional<std::string> unavailable() {
  return std::nullopt;
}

Facts open(i64 /*local_rank*/) {
  return {.name = "emulated GPU",
      .pci_bus_id = "0000:00:00.0",
      .uuid = "GPU-emulated",
      .driver_version = 0,
      .runtime_version = 0,
      .compute_capability = emulated().compute_capability,
      .multiprocessors = 4,
      .l2_bytes = 1 << 20};
}

i64 most_shared_bytes() {
  return emulated().shared_bytes;
}

MemoryState memory_state() {
  const EmulatedGpu& gpu = emulated();
  return {gpu.total_bytes - gpu.used_bytes, gpu.total_bytes};
}

std::byte* allocate(i64 bytes) {
  constexpr std::size_t alignment = 16;
  EmulatedGpu& gpu = emulated();
  if (bytes > gpu.total_bytes - gpu.used_bytes) return nullptr;
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t usable = rounded_up(bytes == 0 ? 1 : bytes, page);
  void* pages = mmap(nullptr, usable + page, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::byte* guard = static_cast<std::byte*>(pages) + usable;
  check(mprotect(guard, page, PROT_NONE) == 0, "a page can be forbidden");
  std::byte* data = guard - rounded_up(bytes, alignment);
  std::memset(data, 0xff, static_cast<std::size_t>(bytes));
  gpu.used_bytes += bytes;
  gpu.allocations[data] = {pages, usable + page, bytes};
  return data;
}

void release(std::byte* data) {
  if (data == nullptr) return;
  EmulatedGpu& gpu = emulated();
  const auto found = gpu.allocations.find(data);
  check(found != gpu.allocations.end(), "device memory is released once");
  munmap(found->second.pages, found->second.mapped_bytes);
  gpu.used_bytes -= found->second.bytes;
  gpu.allocations.erase(found);
}

std::byte* allocate_pinned(i64 bytes) {
  return static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes)));
}

void release_pinned(std::byte* data) {
  std::free(data);
}

Stream make_stream(Priority priority) {
  return {new Priority(priority)};
}

void release_stream(Stream stream) {
  delete static_cast<Priority*>(stream.handle);
}

Event make_event(Timing /*timing*/) {
  return {new EventTime};
}

void release_event(Event event) {
  delete &time_of(event);
}

void record(Event event, Stream /*stream*/) {
  const EmulatedGpu& gpu = emulated();
  const auto ahead = std::chrono::duration_cast<TimePoint::duration>(Seconds(gpu.ahead_s));
  time_of(event) = {now() + ahead, gpu.polls_until_reached};
}

void wait(Stream /*stream*/, Event /*event*/) {}

bool reached(Event event) {
  return time_of(event).polls_left-- <= 0;
}

double seconds_between(Event from, Event to) {
  return Seconds(time_of(to).at - time_of(from).at).count();
}

void zero(Stream /*stream*/, void* data, i64 bytes) {
  std::memset(data, 0, static_cast<std::size_t>(bytes));
}

void copy(Stream /*stream*/, void* to, const void* from, i64 bytes) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}

void upload(Stream /*stream*/, void* to, const void* host, i64 bytes) {
  std::memcpy(to, host, static_cast<std::size_t>(bytes));
}

void download(Stream /*stream*/, void* host, const void* from, i64 bytes) {
  std::memcpy(host, from, static_cast<std::size_t>(bytes));
}

}  // namespace gpu
}  // namespace shardbench
