// SPDX-License-Identifier: Apache-2.0
// The kernel language on a GPU: kernel_language.hpp includes it under nvcc.
// tests/emulated/kernel_emulator.hpp says the same on the host.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#define SHARDBENCH_SHARED(type, name, count) __shared__ type name[count]

namespace shardbench {

constexpr unsigned all_lanes = 0xffffffffU;

__device__ inline void sync_block() {
  __syncthreads();
}
__device__ inline void sync_warp() {
  __syncwarp();
}
template <typename T>
__device__ inline T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(all_lanes, value, mask);
}
template <typename T>
__device__ inline T shuffle_from(T value, int source_lane) {
  return __shfl_sync(all_lanes, value, source_lane);
}
__device__ inline bool any_lane(bool condition) {
  return __any_sync(all_lanes, condition) != 0;
}

__device__ inline void atomic_add(float* sum, float value) {
  atomicAdd(sum, value);
}
__device__ inline void atomic_add(double* sum, double value) {
  atomicAdd(sum, value);
}

__device__ inline void atomic_max(std::uint32_t* most, std::uint32_t value) {
  atomicMax(most, value);
}

/// Dynamic shared memory of the block, aligned to 128 bytes.
template <typename T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char shardbench_dynamic_shared[];
  return reinterpret_cast<T*>(shardbench_dynamic_shared);
}

__device__ inline float widen(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ inline Bf16 narrow(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
/// Two values as bf16 in one register, the first in the lower half.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline float low_half(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ inline float high_half(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000U);
}

__device__ inline std::uint32_t float_bits(float value) {
  return __float_as_uint(value);
}
__device__ inline float float_of_bits(std::uint32_t bits) {
  return __uint_as_float(bits);
}
/// Narrows a value like to_fp8() on the host.
__device__ inline std::uint8_t narrow_to_8_bits(float value, bool e4m3) {
  return e4m3 ? __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)
              : __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
}

/// 2^x and 1/√x as the hardware has them: relative error about 2^-22.
__device__ inline float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ inline float inverse_sqrt(float x) {
  return rsqrtf(x);
}

/// 16 bytes from (to) an address aligned to 16 bytes, in one access.
__device__ inline Floats<8> load_vector(const Bf16* from) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  return {{low_half(raw.x), high_half(raw.x), low_half(raw.y), high_half(raw.y), low_half(raw.z),
      high_half(raw.z), low_half(raw.w), high_half(raw.w)}};
}
__device__ inline Floats<4> load_vector(const float* from) {
  const float4 raw = *reinterpret_cast<const float4*>(from);
  return {{raw.x, raw.y, raw.z, raw.w}};
}
__device__ inline void store_vector(Bf16* to, const Floats<8>& values) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(pack_bf16(values.at[0], values.at[1]), pack_bf16(values.at[2], values.at[3]),
          pack_bf16(values.at[4], values.at[5]), pack_bf16(values.at[6], values.at[7]));
}
__device__ inline void store_vector(float* to, const Floats<4>& values) {
  *reinterpret_cast<float4*>(to) =
      make_float4(values.at[0], values.at[1], values.at[2], values.at[3]);
}
/// An address is aligned to 8 bytes, and there is one access.
__device__ inline Bytes8 load_bytes(const std::uint8_t* from) {
  const uint2 raw = *reinterpret_cast<const uint2*>(from);
  Bytes8 bytes;
  for (int i = 0; i < 4; ++i) {
    bytes.at[i] = static_cast<std::uint8_t>(raw.x >> 8 * i);
    bytes.at[4 + i] = static_cast<std::uint8_t>(raw.y >> 8 * i);
  }
  return bytes;
}

__device__ inline void store_bytes(std::uint8_t* to, const Bytes8& bytes) {
  uint2 raw = make_uint2(0, 0);
  for (int i = 0; i < 4; ++i) {
    raw.x |= static_cast<unsigned>(bytes.at[i]) << 8 * i;
    raw.y |= static_cast<unsigned>(bytes.at[4 + i]) << 8 * i;
  }
  *reinterpret_cast<uint2*>(to) = raw;
}
/// The lower half to the lower address, which is aligned to 4 bytes.
__device__ inline void store_pair(Bf16* to, std::uint32_t pair) {
  *reinterpret_cast<std::uint32_t*>(to) = pair;
}

/// The value, as if it could have changed: what is computed from it is computed again in each
/// round of a loop instead of being kept in registers.
__device__ inline int recomputed(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

inline void check_launch(cudaError_t status, const char* name) {
  if (status != cudaSuccess)
    fail(ErrorClass::internal, std::string("kernel ") + name + ": " + cudaGetErrorString(status));
}

/// More shared memory than every kernel has by default must be asked for.
constexpr i64 default_shared_bytes = 48 << 10;

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& shape, Arguments... arguments) {
  if (shape.shared_bytes > default_shared_bytes)
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                     static_cast<int>(shape.shared_bytes)),
        shape.name);
  const dim3 blocks(shape.blocks.x, shape.blocks.y, shape.blocks.z);
  kernel<<<blocks, shape.threads, shape.shared_bytes,
      static_cast<cudaStream_t>(shape.stream.handle)>>>(static_cast<Parameters>(arguments)...);
  check_launch(cudaGetLastError(), shape.name);
}

}  // namespace shardbench
