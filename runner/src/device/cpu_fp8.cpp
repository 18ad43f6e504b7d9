// SPDX-License-Identifier: Apache-2.0
// FP8 on the CPU: each operand is rounded as a GPU rounds it, and multiplied as the values that
// its numbers stand for.
#include "device/cpu_device.hpp"

#include <array>
#include <vector>

namespace shardbench {
namespace {

constexpr std::size_t fp8_numbers = 256;

std::array<float, fp8_numbers> values_of(Element element) {
  std::array<float, fp8_numbers> values{};
  for (std::size_t bits = 0; bits < fp8_numbers; ++bits)
    values[bits] = from_fp8(static_cast<std::uint8_t>(bits), element);
  return values;
}

/// [rows, k], as values.
template <typename T>
std::vector<T> decoded(const void* data, i64 rows, i64 k, i64 stride, Element element, float unit) {
  static const auto e4m3 = values_of(Element::e4m3);
  static const auto e5m2 = values_of(Element::e5m2);
  const auto& values = element == Element::e4m3 ? e4m3 : e5m2;
  const auto* numbers_at = static_cast<const std::uint8_t*>(data);
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(rows * k));
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < k; ++j)
      out.push_back(static_cast<T>(values[numbers_at[i * stride + j]]) * static_cast<T>(unit));
  return out;
}

template <typename T>
float amax_of(const T* values, i64 count, float so_far) {
  for (i64 i = 0; i < count; ++i) {
    const float magnitude = static_cast<float>(std::abs(values[i]));
    // A NaN stays, so that the loss shows it.
    if (magnitude > so_far || std::isnan(magnitude)) so_far = magnitude;
  }
  return so_far;
}

}  // namespace

template <typename T>
void CpuDevice<T>::raise_amax(float* amax, const void* values, i64 count) {
  *amax = amax_of(static_cast<const T*>(values), count, *amax);
}

template <typename T>
void CpuDevice<T>::quantize(const Quantization& q) {
  const auto* values = static_cast<const T*>(q.values);
  auto* straight = static_cast<std::uint8_t*>(q.straight);
  auto* transposed = static_cast<std::uint8_t*>(q.transposed);
  const float scale = fp8_scale(*q.limit, q.element);
  *q.unit = 1 / scale;
  for (i64 i = 0; i < q.rows; ++i)
    for (i64 j = 0; j < q.columns; ++j) {
      const T value = values[i * q.columns + j];
      const std::uint8_t bits =
          to_fp8(static_cast<float>(value * static_cast<T>(scale)), q.element);
      if (straight != nullptr) straight[i * q.columns + j] = bits;
      if (transposed != nullptr) transposed[j * q.rows + i] = bits;
    }
  if (q.seen != nullptr) *q.seen = amax_of(values, q.rows * q.columns, *q.seen);
}

template <typename T>
void CpuDevice<T>::transpose_8_bits(void* to, const void* from, i64 rows, i64 columns) {
  const auto* straight = static_cast<const std::uint8_t*>(from);
  auto* transposed = static_cast<std::uint8_t*>(to);
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j)
      transposed[j * rows + i] = straight[i * columns + j];
}

template <typename T>
void CpuDevice<T>::keep_amax(const AmaxHistory& h) {
  for (i64 tensor = 0; tensor < h.tensors; ++tensor) {
    h.history[h.place * h.tensors + tensor] = std::exchange(h.seen[tensor], 0.0F);
    h.limits[tensor] = 0;
    for (i64 step = 0; step < h.steps; ++step)
      h.limits[tensor] = std::max(h.limits[tensor], h.history[step * h.tensors + tensor]);
  }
}

template <typename T>
void CpuDevice<T>::multiply_fp8(const Gemm& g) {
  const std::vector<T> a = decoded<T>(g.a, g.m, g.k, g.lda, g.element_a, *g.unit_a);
  const std::vector<T> b = decoded<T>(g.b, g.n, g.k, g.ldb, g.element_b, *g.unit_b);
  Gemm values = g;
  values.a = a.data();
  values.lda = g.k;
  values.b = b.data();
  values.ldb = g.k;
  values.element_a = values.element_b = Element::value;
  gemm(values);
}

template void CpuDevice<float>::raise_amax(float*, const void*, i64);
template void CpuDevice<double>::raise_amax(float*, const void*, i64);
template void CpuDevice<float>::quantize(const Quantization&);
template void CpuDevice<double>::quantize(const Quantization&);
template void CpuDevice<float>::transpose_8_bits(void*, const void*, i64, i64);
template void CpuDevice<double>::transpose_8_bits(void*, const void*, i64, i64);
template void CpuDevice<float>::keep_amax(const AmaxHistory&);
template void CpuDevice<double>::keep_amax(const AmaxHistory&);
template void CpuDevice<float>::multiply_fp8(const Gemm&);
template void CpuDevice<double>::multiply_fp8(const Gemm&);

}  // namespace shardbench
