// SPDX-License-Identifier: Apache-2.0
// Both ends of the model and the optimizer: embedding, cross entropy, AdamW, initial weights.
#include "base/counter_random.hpp"
#include "device/cpu_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace shardbench {
namespace {}  // namespace

template <typename T>
void CpuDevice<T>::embed(
    void* y, const void* table, const std::int32_t* ids, const EmbeddingShape& s) {
  const auto row_bytes = static_cast<std::size_t>(s.hidden) * sizeof(T);
  for (i64 i = 0; i < s.tokens; ++i) {
    T* out = static_cast<T*>(y) + i * s.hidden;
    const i64 row = ids[i] - s.first;
    if (row >= 0 && row < s.rows)
      std::memcpy(out, static_cast<const T*>(table) + row * s.hidden, row_bytes);
    else
      std::memset(out, 0, row_bytes);
  }
}

template <typename T>
void CpuDevice<T>::embed_backward(
    void* d_table, const void* dy, const std::int32_t* ids, const EmbeddingShape& s) {
  for (i64 i = 0; i < s.tokens; ++i) {
    const i64 row = ids[i] - s.first;
    if (row < 0 || row >= s.rows) continue;
    T* out = static_cast<T*>(d_table) + row * s.hidden;
    const T* in = static_cast<const T*>(dy) + i * s.hidden;
    for (i64 j = 0; j < s.hidden; ++j)
      out[j] += in[j];
  }
}

template <typename T>
void CpuDevice<T>::loss_max(void* maximum, const void* logits, const LossShape& s) {
  for (i64 i = 0; i < s.tokens; ++i) {
    const T* row = static_cast<const T*>(logits) + i * s.stride;
    T most = -std::numeric_limits<T>::infinity();
    for (i64 j = 0; j < s.rows; ++j)
      most = std::max(most, row[j]);
    static_cast<T*>(maximum)[i] = most;
  }
}

template <typename T>
void CpuDevice<T>::loss_sums(void* statistics, const void* logits, const void* maximum,
    const std::int32_t* targets, const LossShape& s) {
  T* sums = static_cast<T*>(statistics);
  for (i64 i = 0; i < s.tokens; ++i) {
    const T* row = static_cast<const T*>(logits) + i * s.stride;
    const T row_maximum = static_cast<const T*>(maximum)[i];
    T sum = 0;
    for (i64 j = 0; j < s.rows; ++j)
      sum += std::exp(row[j] - row_maximum);
    sums[i] = sum;
    const i64 target = targets[i] - s.first;
    sums[s.tokens + i] = target >= 0 && target < s.rows ? row[target] - row_maximum : T(0);
  }
}

template <typename T>
void CpuDevice<T>::loss_backward(const LossGradient& g, const LossShape& s) {
  const T* sums = static_cast<const T*>(g.statistics);
  const T scale = static_cast<T>(g.scale);
  for (i64 i = 0; i < s.tokens; ++i) {
    T* row = static_cast<T*>(g.logits) + i * s.stride;
    const T row_maximum = static_cast<const T*>(g.maximum)[i];
    const T inverse = scale / sums[i];
    for (i64 j = 0; j < s.rows; ++j)
      row[j] = std::exp(row[j] - row_maximum) * inverse;
    const i64 target = g.targets[i] - s.first;
    if (target >= 0 && target < s.rows) row[target] -= scale;
    std::fill_n(row + s.rows, s.padding, T(0));
    loss_ += static_cast<double>(std::log(sums[i]) - sums[s.tokens + i]);
  }
}

template <typename T>
void CpuDevice<T>::initialize(void* weight, const TensorRegion& region, u64 seed) {
  T* out = static_cast<T*>(weight);
  const u64 key = mix(seed, region.tensor);
  for (i64 i = 0; i < region.rows; ++i) {
    for (i64 j = 0; j < region.columns; ++j) {
      const i64 global = (region.first_row + i) * region.global_columns + region.first_column + j;
      const double value =
          region.ones ? 1.0 : region.deviation * normal_from(mix(key, static_cast<u64>(global)));
      out[i * region.columns + j] = static_cast<T>(value);
    }
  }
}

template <typename T>
void CpuDevice<T>::add_square_sum(double* total, const void* gradient, i64 count) {
  const T* g = static_cast<const T*>(gradient);
  double sum = 0;
  for (i64 i = 0; i < count; ++i)
    sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  *total += sum;
}

template <typename T>
void CpuDevice<T>::adamw(
    void* weight, void* state, const void* gradient, i64 count, const AdamW& a) {
  T* w = static_cast<T*>(weight);
  T* m = static_cast<T*>(state);
  T* v = m + count;
  const T* g = static_cast<const T*>(gradient);
  const double t = static_cast<double>(a.step);
  const T rate = static_cast<T>(a.learning_rate / (1.0 - std::pow(a.beta1, t)));
  const T v_correction = static_cast<T>(1.0 / (1.0 - std::pow(a.beta2, t)));
  const T b1 = static_cast<T>(a.beta1);
  const T b2 = static_cast<T>(a.beta2);
  const T epsilon = static_cast<T>(a.epsilon);
  const T decay = static_cast<T>(1.0 - a.learning_rate * a.weight_decay);
  const double norm = a.square_sum == nullptr ? 0 : std::sqrt(*a.square_sum);
  const T scale = norm > a.longest ? static_cast<T>(a.longest / norm) : T(1);
  for (i64 i = 0; i < count; ++i) {
    const T gi = g[i] * scale;
    m[i] = b1 * m[i] + (T(1) - b1) * gi;
    v[i] = b2 * v[i] + (T(1) - b2) * gi * gi;
    w[i] = w[i] * decay - rate * m[i] / (std::sqrt(v[i] * v_correction) + epsilon);
  }
}

template <typename T>
void CpuDevice<T>::initialize_optimizer(void* state, const void*, i64 count) {
  zero(state, 2 * count * i64{sizeof(T)});
}

template <typename T>
void CpuDevice<T>::read_gradient(double* host, const void* gradient, i64 count) {
  std::copy_n(static_cast<const T*>(gradient), count, host);
}

#define SHARDBENCH_INSTANTIATE(T)                                                   \
  template void CpuDevice<T>::embed(                                                \
      void*, const void*, const std::int32_t*, const EmbeddingShape&);              \
  template void CpuDevice<T>::embed_backward(                                       \
      void*, const void*, const std::int32_t*, const EmbeddingShape&);              \
  template void CpuDevice<T>::loss_max(void*, const void*, const LossShape&);       \
  template void CpuDevice<T>::loss_sums(                                            \
      void*, const void*, const void*, const std::int32_t*, const LossShape&);      \
  template void CpuDevice<T>::loss_backward(const LossGradient&, const LossShape&); \
  template void CpuDevice<T>::initialize(void*, const TensorRegion&, u64);          \
  template void CpuDevice<T>::add_square_sum(double*, const void*, i64);            \
  template void CpuDevice<T>::adamw(void*, void*, const void*, i64, const AdamW&);  \
  template void CpuDevice<T>::initialize_optimizer(void*, const void*, i64);        \
  template void CpuDevice<T>::read_gradient(double*, const void*, i64);
SHARDBENCH_INSTANTIATE(float)
SHARDBENCH_INSTANTIATE(double)
#undef SHARDBENCH_INSTANTIATE

}  // namespace shardbench
