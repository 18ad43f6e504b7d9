// SPDX-License-Identifier: Apache-2.0
// Memory, element-wise operations, RMSNorm and SwiGLU.
#include "device/cpu_device.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace shardbench {
namespace {

constexpr double rms_epsilon = 1e-5;
// Limit above any address space: under a sanitizer, allocators abort instead of refusing.
constexpr i64 most_bytes = i64{1} << 46;
constexpr std::size_t alignment = 64;  // a cache line, and a vector register at its widest

template <typename T>
T inverse_rms(const T* x, i64 hidden) {
  T sum = 0;
  for (i64 j = 0; j < hidden; ++j)
    sum += x[j] * x[j];
  return T(1) / std::sqrt(sum / static_cast<T>(hidden) + static_cast<T>(rms_epsilon));
}

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

}  // namespace

template <typename T>
Precision CpuDevice<T>::precision() const {
  return precision_of(sizeof(T) == 4 ? Dtype::fp32 : Dtype::fp64);
}

template <typename T>
std::byte* CpuDevice<T>::allocate(i64 bytes) {
  if (bytes > most_bytes) return nullptr;
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + alignment) / alignment * alignment;
  return static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
}

template <typename T>
void CpuDevice<T>::release(std::byte* data, i64) {
  std::free(data);
}

template <typename T>
void CpuDevice<T>::zero(void* data, i64 bytes) {
  std::memset(data, 0, static_cast<std::size_t>(bytes));
}

template <typename T>
void CpuDevice<T>::copy(void* to, const void* from, i64 bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

template <typename T>
void CpuDevice<T>::add(void* y, const void* a, const void* b, i64 count) {
  T* out = static_cast<T*>(y);
  const T* x = static_cast<const T*>(a);
  const T* z = static_cast<const T*>(b);
  for (i64 i = 0; i < count; ++i)
    out[i] = x[i] + z[i];
}

template <typename T>
void CpuDevice<T>::accumulate(void* y, const void* x, i64 count) {
  T* out = static_cast<T*>(y);
  const T* in = static_cast<const T*>(x);
  for (i64 i = 0; i < count; ++i)
    out[i] += in[i];
}

template <typename T>
void CpuDevice<T>::rms_norm(void* y, const void* x, const void* w, i64 tokens, i64 hidden) {
  const T* weight = static_cast<const T*>(w);
  for (i64 i = 0; i < tokens; ++i) {
    const T* in = static_cast<const T*>(x) + i * hidden;
    T* out = static_cast<T*>(y) + i * hidden;
    const T scale = inverse_rms(in, hidden);
    for (i64 j = 0; j < hidden; ++j)
      out[j] = in[j] * scale * weight[j];
  }
}

template <typename T>
void CpuDevice<T>::rms_norm_backward(const RmsNormGradient& g, i64 tokens, i64 hidden) {
  const T* w = static_cast<const T*>(g.w);
  T* dw = static_cast<T*>(g.dw);
  for (i64 i = 0; i < tokens; ++i) {
    const T* x = static_cast<const T*>(g.x) + i * hidden;
    const T* dy = static_cast<const T*>(g.dy) + i * hidden;
    T* dx = static_cast<T*>(g.dx) + i * hidden;
    const T scale = inverse_rms(x, hidden);
    T projection = 0;
    for (i64 j = 0; j < hidden; ++j) {
      dw[j] += dy[j] * x[j] * scale;
      projection += dy[j] * w[j] * x[j];
    }
    const T along = projection * scale * scale * scale / static_cast<T>(hidden);
    for (i64 j = 0; j < hidden; ++j)
      dx[j] += dy[j] * w[j] * scale - x[j] * along;
  }
}

template <typename T>
void CpuDevice<T>::swiglu(void* y, const void* gate_up, i64 tokens, i64 ffn) {
  for (i64 i = 0; i < tokens; ++i) {
    const T* gate = static_cast<const T*>(gate_up) + i * 2 * ffn;
    const T* up = gate + ffn;
    T* out = static_cast<T*>(y) + i * ffn;
    for (i64 j = 0; j < ffn; ++j)
      out[j] = gate[j] * sigmoid(gate[j]) * up[j];
  }
}

template <typename T>
void CpuDevice<T>::swiglu_backward(void* gate_up, const void* dy, i64 tokens, i64 ffn) {
  for (i64 i = 0; i < tokens; ++i) {
    T* gate = static_cast<T*>(gate_up) + i * 2 * ffn;
    T* up = gate + ffn;
    const T* d = static_cast<const T*>(dy) + i * ffn;
    for (i64 j = 0; j < ffn; ++j) {
      const T s = sigmoid(gate[j]);
      const T silu = gate[j] * s;
      const T d_gate = d[j] * up[j] * (s + silu * (T(1) - s));
      up[j] = d[j] * silu;
      gate[j] = d_gate;
    }
  }
}

#define SHARDBENCH_INSTANTIATE(T)                                                  \
  template Precision CpuDevice<T>::precision() const;                              \
  template std::byte* CpuDevice<T>::allocate(i64);                                 \
  template void CpuDevice<T>::release(std::byte*, i64);                            \
  template void CpuDevice<T>::zero(void*, i64);                                    \
  template void CpuDevice<T>::copy(void*, const void*, i64);                       \
  template void CpuDevice<T>::add(void*, const void*, const void*, i64);           \
  template void CpuDevice<T>::accumulate(void*, const void*, i64);                 \
  template void CpuDevice<T>::rms_norm(void*, const void*, const void*, i64, i64); \
  template void CpuDevice<T>::rms_norm_backward(const RmsNormGradient&, i64, i64); \
  template void CpuDevice<T>::swiglu(void*, const void*, i64, i64);                \
  template void CpuDevice<T>::swiglu_backward(void*, const void*, i64, i64);
SHARDBENCH_INSTANTIATE(float)
SHARDBENCH_INSTANTIATE(double)
#undef SHARDBENCH_INSTANTIATE

std::unique_ptr<Device> make_cpu_device(Dtype dtype) {
  if (dtype == Dtype::fp32) return std::make_unique<CpuDevice<float>>();
  if (dtype == Dtype::fp64) return std::make_unique<CpuDevice<double>>();
  return nullptr;
}

}  // namespace shardbench
