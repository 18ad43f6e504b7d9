// SPDX-License-Identifier: Apache-2.0
// What the CUDA side needs of a GPU, apart from kernels and matrix products.
//
// A link-time seam: runtime.cpp defines it by the CUDA runtime; tests/emulated/gpu.cpp on the
// host, where device memory is host memory and work is done as it is given. Whatever the driver
// refuses ends the rank by fail(), naming the call and the driver's word for it.
#pragma once

#include "device/dtype.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace shardbench::gpu {

/// Work of one stream is done in the order in which it was given. Null: the stream of the
/// driver, which nobody uses.
struct Stream {
  void* handle = nullptr;
};

struct Event {
  void* handle = nullptr;
};

/// Why no GPU can be used: no driver, no device, one that is too old; nothing when all is well.
std::optional<std::string> unavailable();

struct Facts {
  std::string name;        // "NVIDIA H200"
  std::string pci_bus_id;  // "0000:1b:00.0": finds the same GPU in NVML
  std::string uuid;        // "GPU-…"
  int driver_version = 0;  // CUDA's numbering: 13000 is 13.0
  int runtime_version = 0;
  int compute_capability = 0;  // 90 is 9.0
  int multiprocessors = 0;
  i64 l2_bytes = 0;
};

/// Makes GPU `local_rank` modulo their number this thread's device and opens its context.
Facts open(i64 local_rank);

/// Shared memory that a block of the opened GPU can have: 163 KiB on 8.0, 227 on 9.0 and 10.0,
/// 99 on 8.6, 8.9 and 12.0.
i64 most_shared_bytes();

struct MemoryState {
  i64 free_bytes;
  i64 total_bytes;
};
MemoryState memory_state();

/// Null when there is none left.
std::byte* allocate(i64 bytes);
void release(std::byte* data);
/// Host memory that copies reach at full speed; null when there is none left.
std::byte* allocate_pinned(i64 bytes);
void release_pinned(std::byte* data);

/// Work of high priority gets free multiprocessors first: a collective that starts late holds
/// up all members of its group.
enum class Priority { normal, high };
Stream make_stream(Priority priority);
void release_stream(Stream stream);
/// Events made with Timing::on can be given to seconds_between(); the others cost less.
enum class Timing { off, on };
Event make_event(Timing timing);
void release_event(Event event);

void record(Event event, Stream stream);
/// Makes later work of `stream` start after the recorded event.
void wait(Stream stream, Event event);
bool reached(Event event);
/// Seconds between events that were made with Timing::on and have been reached.
double seconds_between(Event from, Event to);

void zero(Stream stream, void* data, i64 bytes);
void copy(Stream stream, void* to, const void* from, i64 bytes);
/// The host's bytes may be reused when it returns, unless they are pinned.
void upload(Stream stream, void* to, const void* host, i64 bytes);
/// The bytes are there when the stream has done it.
void download(Stream stream, void* host, const void* from, i64 bytes);

}  // namespace shardbench::gpu
