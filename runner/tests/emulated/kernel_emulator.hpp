// SPDX-License-Identifier: Apache-2.0
// The kernel language on the host: cuda/kernel_language.hpp includes it where there is no nvcc.
//
// A launch runs block after block on the calling thread; the threads of a block are fibers.
// Each runs until it waits for its warp or its block. Warps and lanes take turns forwards and
// backwards, and blocks come in another order each time, so that a result which depends on who
// is first shows. Shared memory is all NaN when a block starts. What a GPU leaves undefined
// ends the process by fail(), naming the kernel: lanes of one warp, or warps of one block, that
// wait at different places or for a thread that has returned; addresses that the hardware would
// refuse.
#pragma once

#include <bit>
#include <cstring>
#include <functional>

// CUDA's own words.
// NOLINTBEGIN(bugprone-reserved-identifier)
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// NOLINTEND(bugprone-reserved-identifier)

// NOLINTBEGIN(bugprone-macro-parentheses): a type or a name cannot stand in them
#define SHARDBENCH_SHARED(type, name, count) \
  static type name[count];                   \
  static const shardbench::emulator::SharedArray name##_in_shared(name, sizeof name)
// NOLINTEND(bugprone-macro-parentheses)

namespace shardbench::emulator {

/// Shared memory that a kernel declares; each block finds it without another block's values.
class SharedArray {
 public:
  SharedArray(void* data, std::size_t bytes);
};

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

/// An operation of a whole warp on what each lane has handed in.
using WarpOperation = void (*)(void* const* operands);
/// Place in the source where a thread waits (std::source_location, which clang 14 has not).
struct Place {
  const char* file = "";
  int line = 0;
  static constexpr Place current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

void run(const Launch& shape, const std::function<void()>& thread);
void wait_for_block(const Place& place);
/// Returns when `operation` has been done, once, on the operands of all lanes.
void wait_for_warp(WarpOperation operation, void* operand, const Place& place);
/// Dynamic shared memory of the block.
std::byte* shared_memory();
i64 shared_bytes();
/// Tells blocks apart, over all launches.
u64 block_number();
/// Ends the process: "kernel NAME: MESSAGE".
[[noreturn]] void fail_kernel(const std::string& message);

template <typename T>
struct Exchange {
  T value;
  int source;
  T result;

  static void perform(void* const* operands) {
    for (int lane = 0; lane < warp_size; ++lane) {
      auto* own = static_cast<Exchange*>(operands[lane]);
      own->result = static_cast<Exchange*>(operands[own->source & (warp_size - 1)])->value;
    }
  }
};

struct Vote {
  bool value;
  bool any;

  static void perform(void* const* operands);
};

}  // namespace shardbench::emulator

inline shardbench::emulator::Index threadIdx;  // NOLINT(readability-identifier-naming)
inline shardbench::emulator::Index blockIdx;   // NOLINT(readability-identifier-naming)
inline shardbench::emulator::Index blockDim;   // NOLINT(readability-identifier-naming)
inline shardbench::emulator::Index gridDim;    // NOLINT(readability-identifier-naming)

namespace shardbench {

inline void sync_block(const emulator::Place& place = emulator::Place::current()) {
  emulator::wait_for_block(place);
}
inline void sync_warp(const emulator::Place& place = emulator::Place::current()) {
  emulator::wait_for_warp([](void* const*) {}, nullptr, place);
}
template <typename T>
T shuffle_from(
    T value, int source_lane, const emulator::Place& place = emulator::Place::current()) {
  emulator::Exchange<T> exchange{value, source_lane, T{}};
  emulator::wait_for_warp(emulator::Exchange<T>::perform, &exchange, place);
  return exchange.result;
}
template <typename T>
T shuffle_xor(T value, int mask, const emulator::Place& place = emulator::Place::current()) {
  return shuffle_from(value, static_cast<int>(threadIdx.x % warp_size) ^ mask, place);
}
inline bool any_lane(bool condition, const emulator::Place& place = emulator::Place::current()) {
  emulator::Vote vote{condition, false};
  emulator::wait_for_warp(emulator::Vote::perform, &vote, place);
  return vote.any;
}

template <typename T>
void atomic_add(T* sum, T value) {
  *sum += value;
}

inline void atomic_max(std::uint32_t* most, std::uint32_t value) {
  *most = value > *most ? value : *most;
}

template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::shared_memory());
}

inline float widen(Bf16 value) {
  return to_float(value);
}
inline Bf16 narrow(float value) {
  return to_bf16(value);
}
inline std::uint32_t pack_bf16(float low, float high) {
  return static_cast<std::uint32_t>(to_bf16(high).bits) << 16 | to_bf16(low).bits;
}
inline float low_half(std::uint32_t pair) {
  return std::bit_cast<float>(pair << 16);
}
inline float high_half(std::uint32_t pair) {
  return std::bit_cast<float>(pair & 0xffff0000U);
}

inline std::uint32_t float_bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline float float_of_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline std::uint8_t narrow_to_8_bits(float value, bool e4m3) {
  return to_fp8(value, e4m3 ? Element::e4m3 : Element::e5m2);
}

inline float fast_exp2(float x) {
  return std::exp2(x);
}
inline float inverse_sqrt(float x) {
  return 1 / std::sqrt(x);
}

inline int recomputed(int value) {
  return value;
}

namespace emulator {
inline void check_aligned(const void* address, std::uintptr_t alignment) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0)
    fail_kernel("an access of " + std::to_string(alignment) + " bytes that is not aligned");
}
}  // namespace emulator

inline Floats<8> load_vector(const Bf16* from) {
  emulator::check_aligned(from, 16);
  Floats<8> values;
  for (int i = 0; i < 8; ++i)
    values.at[i] = to_float(from[i]);
  return values;
}
inline Floats<4> load_vector(const float* from) {
  emulator::check_aligned(from, 16);
  return {{from[0], from[1], from[2], from[3]}};
}
inline void store_vector(Bf16* to, const Floats<8>& values) {
  emulator::check_aligned(to, 16);
  for (int i = 0; i < 8; ++i)
    to[i] = to_bf16(values.at[i]);
}
inline void store_vector(float* to, const Floats<4>& values) {
  emulator::check_aligned(to, 16);
  for (int i = 0; i < 4; ++i)
    to[i] = values.at[i];
}
inline Bytes8 load_bytes(const std::uint8_t* from) {
  emulator::check_aligned(from, 8);
  Bytes8 bytes;
  std::memcpy(bytes.at, from, sizeof bytes.at);
  return bytes;
}
inline void store_bytes(std::uint8_t* to, const Bytes8& bytes) {
  emulator::check_aligned(to, 8);
  std::memcpy(to, bytes.at, sizeof bytes.at);
}
inline void store_pair(Bf16* to, std::uint32_t pair) {
  emulator::check_aligned(to, 4);
  to[0] = {static_cast<std::uint16_t>(pair)};
  to[1] = {static_cast<std::uint16_t>(pair >> 16)};
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& shape, Arguments... arguments) {
  emulator::run(shape, [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace shardbench
